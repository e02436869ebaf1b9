package lab

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/tarelab/tare/internal/sys"
)

// nearlyAll is the share of a limit from which on a failure is reported with it.
const nearlyAll = 0.95

// limitsReached notes how often the limits of a group and of those above it were
// met so far; the function that it returns names those that were met since.
func limitsReached(group string) func() string {
	limits := append(sys.LimitsAbove(group, sys.PidsController), sys.LimitsAbove(group, sys.MemoryController)...)
	before := make([]int64, len(limits))
	for i, g := range limits {
		before[i] = g.Met()
	}
	return func() string {
		var out []string
		for i, g := range limits {
			if value, limited := g.Value(); limited && g.Met() > before[i] {
				out = append(out, fmt.Sprintf("the limit %s, which is %d, was reached", g.File(), value))
			}
		}
		if tasks, err := sys.RunningTasks(); err == nil {
			for _, file := range []string{sys.PIDMax, sys.ThreadsMax} {
				if limit, ok := sys.LimitIn(file); ok && float64(tasks) > nearlyAll*float64(limit) {
					out = append(out, fmt.Sprintf("the limit %s is %d, and %d processes and threads were running", file, limit, tasks))
				}
			}
		}
		var files unix.Rlimit
		open, err := os.ReadDir("/proc/self/fd")
		if err == nil && unix.Getrlimit(unix.RLIMIT_NOFILE, &files) == nil && float64(len(open)) > nearlyAll*float64(files.Cur) {
			out = append(out, fmt.Sprintf("tare's limit of open files is %d, and %d were open", files.Cur, len(open)))
		}
		slices.Sort(out)
		return strings.Join(out, "; ")
	}
}
