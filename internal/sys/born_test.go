package sys

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// TestBornIn: the process is in its group from its birth, and the group goes with what
// the process left running.
func TestBornIn(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("cgroups are root's here: run this test as root")
	}
	rel := fmt.Sprintf("tare-born-%d", os.Getpid())
	cmd := exec.Command("sh", "-c", "grep -q "+rel+" /proc/self/cgroup && { sleep 60 & }")
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	remove, err := BornIn(cmd, rel)
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Run(); err != nil {
		t.Errorf("the process is not in its group: %v", err)
	}
	if err := remove(); err != nil {
		t.Error(err)
	}
	trees, err := Cgroups()
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range trees.Dirs(rel) {
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("%s is left", dir)
		}
	}
}
