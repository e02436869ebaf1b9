package engine

import (
	"fmt"
	"os"
	"strings"

	"github.com/prometheus/procfs"

	"github.com/tarelab/tare/internal/target"
)

// labelKey is the label of all that is made in an engine; its value is the
// owner.
const labelKey = target.Label + ".owner"

// owner names this process for the time that it lives: its pid and when it was
// started, "1234-5678". What carries the name of a process that has ended was
// left by a run that was killed.
func owner() string { return nameOf(os.Getpid()) }

func nameOf(pid int) string {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return ""
	}
	stat, err := p.Stat()
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%d-%d", pid, stat.Starttime)
}

// alive says that the process of that name runs. What is no such name is not
// ours to judge.
func alive(name string) bool {
	var pid int
	var start uint64
	if n, err := fmt.Sscanf(name, "%d-%d", &pid, &start); n != 2 || err != nil || strings.ContainsAny(name, " /") {
		return true
	}
	return nameOf(pid) == name
}

// repository is the name of images that an owner has loaded.
func repository(owner string) string { return "localhost/" + target.Label + "-" + owner }
