package helpers_test

import (
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/tarelab/tare/helpers"
)

// A client that finds a server's local socket may connect: the name is there when
// the server listens.
func TestLocalServerListensWhenItsNameIsThere(t *testing.T) {
	dir := t.TempDir()
	if err := helpers.Extract(dir); err != nil {
		t.Fatal(err)
	}
	for i := range 200 {
		path := filepath.Join(dir, fmt.Sprintf("socket%d", i))
		server := exec.Command(filepath.Join(dir, helpers.Net), "serve", "unix:"+path)
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

// TestOpenLoopOnAnOldMachine: a clock of more than 53 bits is that of a machine that has
// been up for 104 days. The first request is due at the start itself, and gets no answer.
func TestOpenLoopOnAnOldMachine(t *testing.T) {
	old := []string{"--time", "--monotonic", "9100000"} // seconds
	if out, err := exec.Command("unshare", append(old, "true")...).CombinedOutput(); err != nil {
		t.Skipf("a time namespace takes root and Linux 5.6: %v: %s", err, out)
	}
	dir := t.TempDir()
	if err := helpers.Extract(dir); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go answerFirst(client, 8) // those that warm the connection up
		}
	}()
	for range 12 {
		args := append(old, filepath.Join(dir, helpers.Net), "open", "echo", l.Addr().String(), "read", "64", "10", "fixed", "1", "1", "keep", "50")
		if out, err := exec.Command("unshare", args...).CombinedOutput(); err != nil || !strings.Contains(string(out), "\nbroken 1\n") {
			t.Fatalf("%v: %s", err, out)
		}
	}
}

// answerFirst is a server of net open's echo that closes its connection at the request
// after some others.
func answerFirst(client net.Conn, requests int) {
	defer client.Close()
	asked := make([]byte, 8) // struct request of net.h
	if _, err := io.ReadFull(client, asked); err != nil {
		return
	}
	if asked[0] == 'n' { // how many were answered
		_, _ = client.Write(make([]byte, 8))
		return
	}
	for range requests {
		if _, err := io.CopyN(client, client, 64); err != nil {
			return
		}
	}
	_, _ = client.Read(make([]byte, 64))
}

// TestDigest: a change of any program changes the digest.
func TestDigest(t *testing.T) {
	dir := t.TempDir()
	if err := helpers.Extract(dir); err != nil {
		t.Fatal(err)
	}
	all, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.New()
	for _, e := range all {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(sum, "%s %d\n%s", e.Name(), len(data), data)
	}
	if got, err := helpers.Digest(); err != nil || got != fmt.Sprintf("sha256:%x", sum.Sum(nil)) {
		t.Errorf("the digest %s (%v) is not that of all %d programs", got, err, len(all))
	}
}

// TestMark runs the mark helper on what people get wrong.
func TestMark(t *testing.T) {
	dir := t.TempDir()
	if err := helpers.Extract(dir); err != nil {
		t.Fatal(err)
	}
	file := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const acted, gate = "\x00tare:acted\x00", "\n\n\x04"
	for _, c := range []struct {
		args   []string
		code   int
		stdout string
		stderr string
	}{
		{nil, 0, acted, ""},
		{[]string{"-line"}, 0, acted + "\n", ""},
		{[]string{"-line", "-gate", "--", "cat"}, 0, acted + "\n" + gate + "after", gate},
		{[]string{"-gate", "--", "cat"}, 0, acted + gate + "after", gate},
		{[]string{"-gate", "--", "no-such-command"}, 127, acted + gate, "no-such-command: not found"},
		{[]string{"-gate", "-line", "--", "cat"}, 126, acted + gate, "usage"},
		{[]string{"--"}, 0, acted, ""},
		{[]string{"--", "sh", "-c", `echo "$1"; exit 3`, "x", "a  b"}, 3, acted + "a  b\n", ""},
		{[]string{"--", "no-such-command"}, 127, acted, "no-such-command: not found"},
		{[]string{"--", "/no/such/file"}, 127, acted, "/no/such/file: not found"},
		{[]string{"--", ""}, 127, acted, "empty command"},
		{[]string{"-exit", "113"}, 113, acted, ""},
		{[]string{"-exit", "0"}, 0, acted, ""},
		{[]string{"-exit", "256"}, 126, acted, "not an exit code"},
		{[]string{"-exit", ""}, 126, acted, "not an exit code"},
		{[]string{"-exit", "1x"}, 126, acted, "not an exit code"},
		{[]string{"--", file("plain", "x", 0o644)}, 126, acted, "not executable"},
		{[]string{"--", file("script", "#!/no/such/shell\n", 0o755)}, 126, acted, "interpreter"},
		{[]string{"--", file("garbage", "\x7fELFgarbage", 0o755)}, 126, acted, "other architecture"},
	} {
		cmd := exec.Command(filepath.Join(dir, helpers.Mark), c.args...)
		var out, errs strings.Builder
		cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(gate+"after"), &out, &errs
		err := cmd.Run()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		if code := cmd.ProcessState.ExitCode(); code != c.code || out.String() != c.stdout || !strings.Contains(errs.String(), c.stderr) {
			t.Errorf("mark %q: code %d, stdout %q, stderr %q; want %d, %q, %q", c.args, code, out.String(), errs.String(), c.code, c.stdout, c.stderr)
		}
	}
	ended := exec.Command(filepath.Join(dir, helpers.Mark), "-gate", "--", "true")
	if said, err := ended.CombinedOutput(); err == nil || !strings.Contains(string(said), "standard input: ended before the client was attached") {
		t.Errorf("a gate whose input has ended: %q, %v", said, err)
	}
	info, err := os.Stat(filepath.Join(dir, helpers.Mark))
	if err != nil || info.Size() > 12<<10 {
		t.Errorf("mark has %d bytes, more than 12 KiB: it is in every start (%v)", info.Size(), err)
	}
}

// TestLauncher compiles launch_test.c, which holds the launcher to what no payload
// can show, under the sanitizers of addresses and of undefined behaviour.
func TestLauncher(t *testing.T) {
	program := filepath.Join(t.TempDir(), "launch_test")
	out, err := exec.Command("cc", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-o", program, "launch_test.c").CombinedOutput()
	if err != nil {
		t.Fatalf("compile launch_test.c: %v: %s", err, out)
	}
	if out, err := exec.Command(program).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// The agent is in every guest's memory twice: as a file of the initramfs, and as what
// is loaded of it.
func TestAgentIsSmall(t *testing.T) {
	dir := t.TempDir()
	if err := helpers.Extract(dir); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, helpers.Init)
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	f, err := elf.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	size := uint64(info.Size())
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD {
			size += p.Memsz
		}
	}
	if size > 2<<20 {
		t.Errorf("the agent takes %d bytes of each guest, more than 2 MiB", size)
	}
}

// Dhrystone's rate hangs on whether strcmp's loop lies within one cache line
// (helpers/unix/placement.c). The program is stripped: strcmp is found by its code.
func TestUnixStrcmpLiesWithinACacheLine(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("the code of strcmp is known for amd64 only")
	}
	dir := t.TempDir()
	if err := helpers.Extract(dir); err != nil {
		t.Fatal(err)
	}
	f, err := elf.Open(filepath.Join(dir, helpers.Unix))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	text := f.Section(".text")
	if text == nil {
		t.Fatal("the program has no section .text")
	}
	code, err := text.Data()
	if err != nil {
		t.Fatal(err)
	}
	// push rbp; mov rbp, rsp; xor eax, eax; cmp rdi, rsi; je; movzx ecx, [rdi]; movzx edx, [rsi]
	begin := []byte{0x55, 0x48, 0x89, 0xe5, 0x31, 0xc0, 0x48, 0x39, 0xf7, 0x74, 0x43, 0x0f, 0xb6, 0x0f, 0x0f, 0xb6, 0x16}
	if n := bytes.Count(code, begin); n != 1 {
		t.Fatalf("strcmp's code was found %d times, not once: the C library is another; find strcmp's place in UnixBench's dhry2reg (nm) anew", n)
	}
	if at := (text.Addr + uint64(bytes.Index(code, begin))) % 64; at != 48 {
		t.Errorf("strcmp begins %d bytes into a cache line, not 48: change the number in helpers/unix/placement.c by the difference", at)
	}
}
