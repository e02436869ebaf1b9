package containers

import (
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// A user with groups of his own chooses their names, and the command line of what lies
// in them: none forges a line of what is shown.
func TestForgedNames(t *testing.T) {
	id := strings.Repeat("0f", 32)
	for name, want := range map[string]string{"db-1": "db-1", "x started\n12s  db out of memory": id[:12], "": id[:12]} {
		shell := exec.Command("sh", "-c", "sleep 60 & echo $!; read end; kill $!", "sh", "-n", name)
		in, err := shell.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := shell.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := shell.Start(); err != nil {
			t.Fatal(err)
		}
		var said [32]byte
		n, err := out.Read(said[:])
		if err != nil {
			t.Fatal(err)
		}
		leader, err := strconv.Atoi(strings.TrimSpace(string(said[:n])))
		if err != nil {
			t.Fatal(err)
		}
		if got := nameOf(Container{ID: id, Engine: "podman", Leader: leader}); got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
		in.Close()
		_ = shell.Wait() // by the signal of the child that it has killed
	}
	if got := oneLine("a\nb\x1b[2Jé"); got != "a?b?[2Jé" {
		t.Errorf("got %q", got)
	}
}
