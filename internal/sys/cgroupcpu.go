package sys

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// CPUTime is CPU time in seconds. Total is exact; ticks are what the kernel's
// timer ticks saw, which only tell the split.
type CPUTime struct{ Total, UserTicks, SystemTicks float64 }

// Sub is the time since o.
func (t CPUTime) Sub(o CPUTime) CPUTime {
	return CPUTime{t.Total - o.Total, t.UserTicks - o.UserTicks, t.SystemTicks - o.SystemTicks}
}

// Add is the sum of both.
func (t CPUTime) Add(o CPUTime) CPUTime {
	return CPUTime{t.Total + o.Total, t.UserTicks + o.UserTicks, t.SystemTicks + o.SystemTicks}
}

// Split divides the exact total as the ticks fell, as the kernel does for
// getrusage(2) (kernel/sched/cputime.c, cputime_adjust).
func (t CPUTime) Split() (user, system float64) {
	if t.SystemTicks <= 0 {
		return t.Total, 0
	}
	if t.UserTicks <= 0 {
		return 0, t.Total
	}
	system = t.Total * t.SystemTicks / (t.UserTicks + t.SystemTicks)
	return t.Total - system, system
}

// CPUTime reads what the group rel and those below it have used, those removed
// already included. ok is false where no tree has the group.
func (h Hierarchies) CPUTime(rel string) (t CPUTime, ok bool, err error) {
	if tree, ok := h.With("cpuacct"); ok {
		t, err = cpuV1(tree.Dir(rel))
	} else if tree, ok := h.Unified(); ok {
		t, err = cpuV2(tree.Dir(rel)) // counts CPU time without the controller, too
	} else {
		return t, false, nil
	}
	if ignoreGone(err) == nil && err != nil {
		return CPUTime{}, false, nil
	}
	return t, err == nil, err
}

// cpuV1 reads cpuacct's files, in nanoseconds (kernel,
// Documentation/admin-guide/cgroup-v1/cpuacct.rst). Before Linux 4.7 the parts are in
// cpuacct.stat alone, in ticks.
func cpuV1(dir string) (t CPUTime, err error) {
	for file, to := range map[string]*float64{"cpuacct.usage": &t.Total, "cpuacct.usage_user": &t.UserTicks, "cpuacct.usage_sys": &t.SystemTicks} {
		n, err := ReadNumber(filepath.Join(dir, file))
		if errors.Is(err, fs.ErrNotExist) && file != "cpuacct.usage" {
			return cpuTicks(dir)
		}
		if err != nil {
			return t, err
		}
		*to = n * 1e-9
	}
	return t, nil
}

// cpuTicks reads the total in nanoseconds and its parts in ticks (USER_HZ: 100 a second
// in all that Linux tells programs).
func cpuTicks(dir string) (t CPUTime, err error) {
	if t.Total, err = ReadNumber(filepath.Join(dir, "cpuacct.usage")); err != nil {
		return t, err
	}
	t.Total *= 1e-9
	file := filepath.Join(dir, "cpuacct.stat")
	text, err := os.ReadFile(file)
	if err != nil {
		return t, err
	}
	if _, err := fmt.Sscanf(string(text), "user %f\nsystem %f\n", &t.UserTicks, &t.SystemTicks); err != nil {
		return t, fmt.Errorf("%s: %q: %w", file, text, err)
	}
	t.UserTicks, t.SystemTicks = t.UserTicks/100, t.SystemTicks/100
	return t, nil
}

// cpuV2 reads cpu.stat, in microseconds (kernel,
// Documentation/admin-guide/cgroup-v2.rst).
func cpuV2(dir string) (t CPUTime, err error) {
	b, err := os.ReadFile(filepath.Join(dir, "cpu.stat"))
	if err != nil {
		return t, err
	}
	fields := map[string]*float64{"usage_usec": &t.Total, "user_usec": &t.UserTicks, "system_usec": &t.SystemTicks}
	seen := 0
	for line := range strings.Lines(string(b)) {
		name, number, _ := strings.Cut(strings.TrimSpace(line), " ")
		to, wanted := fields[name]
		if !wanted {
			continue
		}
		n, err := strconv.ParseFloat(number, 64)
		if err != nil {
			return t, fmt.Errorf("%s/cpu.stat: %s is %q", dir, name, number)
		}
		*to = n * 1e-6
		seen++
	}
	if seen != len(fields) {
		return t, fmt.Errorf("%s/cpu.stat has not all of usage_usec, user_usec, system_usec", dir)
	}
	return t, nil
}

// ReadNumber reads a file that holds one number.
func ReadNumber(file string) (float64, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseFloat(strings.TrimSpace(string(b)), 64)
	if err != nil {
		return 0, fmt.Errorf("%s: %q is not a number", file, b)
	}
	return n, nil
}
