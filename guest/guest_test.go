package guest_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tarelab/tare/guest"
)

// A client that finds a server's local socket may connect: the name is there when
// the server listens.
func TestLocalServerListensWhenItsNameIsThere(t *testing.T) {
	dir := t.TempDir()
	if err := guest.Extract(dir); err != nil {
		t.Fatal(err)
	}
	for i := range 200 {
		path := filepath.Join(dir, fmt.Sprintf("socket%d", i))
		server := exec.Command(filepath.Join(dir, guest.Net), "serve", "unix:"+path)
		if err := server.Start(); err != nil {
			t.Fatal(err)
		}
		deadline := time.Now().Add(10 * time.Second)
		for _, err := os.Lstat(path); err != nil && time.Now().Before(deadline); _, err = os.Lstat(path) {
		}
		talk, err := net.Dial("unix", path)
		if err == nil {
			err = talk.Close()
		}
		if err != nil {
			t.Errorf("start %d: %v", i, err)
		}
		if err := server.Process.Kill(); err != nil {
			t.Error(err)
		}
		_ = server.Wait() // killed
		if t.Failed() {
			return
		}
	}
}

// TestMark runs the mark helper on what people get wrong.
func TestMark(t *testing.T) {
	dir := t.TempDir()
	if err := guest.Extract(dir); err != nil {
		t.Fatal(err)
	}
	file := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const acted = "\x00tare:acted\x00"
	for _, c := range []struct {
		args   []string
		code   int
		stdout string
		stderr string
	}{
		{nil, 0, acted, ""},
		{[]string{"--"}, 0, acted, ""},
		{[]string{"--", "sh", "-c", `echo "$1"; exit 3`, "x", "a  b"}, 3, acted + "a  b\n", ""},
		{[]string{"--", "no-such-command"}, 127, acted, "no-such-command: not found"},
		{[]string{"--", "/no/such/file"}, 127, acted, "/no/such/file: not found"},
		{[]string{"--", ""}, 127, acted, "empty command"},
		{[]string{"--", file("plain", "x", 0o644)}, 126, acted, "not executable"},
		{[]string{"--", file("script", "#!/no/such/shell\n", 0o755)}, 126, acted, "interpreter"},
		{[]string{"--", file("garbage", "\x7fELFgarbage", 0o755)}, 126, acted, "other architecture"},
	} {
		cmd := exec.Command(filepath.Join(dir, guest.Mark), c.args...)
		var out, errs strings.Builder
		cmd.Stdout, cmd.Stderr = &out, &errs
		err := cmd.Run()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		if code := cmd.ProcessState.ExitCode(); code != c.code || out.String() != c.stdout || !strings.Contains(errs.String(), c.stderr) {
			t.Errorf("mark %q: code %d, stdout %q, stderr %q; want %d, %q, %q", c.args, code, out.String(), errs.String(), c.code, c.stdout, c.stderr)
		}
	}
	info, err := os.Stat(filepath.Join(dir, guest.Mark))
	if err != nil || info.Size() > 12<<10 {
		t.Errorf("mark has %d bytes, more than 12 KiB: it is in every start (%v)", info.Size(), err)
	}
}
