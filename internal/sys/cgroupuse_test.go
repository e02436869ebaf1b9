package sys

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// A number that is no longer in the group when it is to be killed may be another process's.
func TestKillInTheGroupAlone(t *testing.T) {
	h, err := Cgroups()
	if err != nil || !h.Usable() {
		t.Fatalf("no usable cgroups: %+v, %v", h, err)
	}
	rel := fmt.Sprintf("tare/test-kill-%d", os.Getpid())
	if err := h.Make(rel); err != nil {
		t.Fatal(err)
	}
	start := func() *exec.Cmd {
		c := exec.Command("sleep", "60")
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		return c
	}
	in, out := start(), start()
	defer func() {
		if err := errors.Join(out.Process.Kill(), ignoreGone(h.Remove(rel))); err != nil {
			t.Error(err)
		}
		_ = out.Wait() // killed
	}()
	if err := h.Join(rel, in.Process.Pid); err != nil {
		t.Fatal(err)
	}
	if err := h.kill(rel, []int{in.Process.Pid, out.Process.Pid}); err != nil {
		t.Fatal(err)
	}
	_ = in.Wait() // its status is looked at
	if status := in.ProcessState.Sys().(syscall.WaitStatus); status.Signal() != unix.SIGKILL {
		t.Errorf("the process of the group ended with %v", in.ProcessState)
	}
	if ended, err := syscall.Wait4(out.Process.Pid, nil, syscall.WNOHANG, nil); ended != 0 || err != nil {
		t.Errorf("the other process has ended: %d, %v", ended, err)
	}
}
