package sys

import (
	"os"
	"os/exec"
	"slices"
	"testing"
)

// Both ways find the same children; of a process that has ended there are none.
func TestChildren(t *testing.T) {
	c := exec.CommandContext(t.Context(), "sleep", "infinity")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	for name, children := range map[string]func(int) ([]int, error){"by list": Children, "by parent": childrenByParent} {
		if all, err := children(os.Getpid()); err != nil || !slices.Contains(all, c.Process.Pid) {
			t.Errorf("%s: %v, %v; want %d among them", name, all, err, c.Process.Pid)
		}
	}
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait() // it was killed
	for name, children := range map[string]func(int) ([]int, error){"by list": Children, "by parent": childrenByParent} {
		if all, err := children(c.Process.Pid); err != nil || len(all) > 0 {
			t.Errorf("%s: of an ended process %v, %v", name, all, err)
		}
	}
}
