package probe

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/tarelab/tare/internal/sys"
)

// cpuTime is CPU time in seconds. total is exact; ticks are what the kernel's
// timer ticks saw, which only tell the split.
type cpuTime struct{ total, userTicks, systemTicks float64 }

func (t cpuTime) sub(o cpuTime) cpuTime {
	return cpuTime{t.total - o.total, t.userTicks - o.userTicks, t.systemTicks - o.systemTicks}
}

func (t cpuTime) add(o cpuTime) cpuTime {
	return cpuTime{t.total + o.total, t.userTicks + o.userTicks, t.systemTicks + o.systemTicks}
}

// split divides the exact total as the ticks fell, as the kernel does for
// getrusage(2) (kernel/sched/cputime.c, cputime_adjust).
func (t cpuTime) split() (user, system float64) {
	if t.systemTicks <= 0 {
		return t.total, 0
	}
	if t.userTicks <= 0 {
		return 0, t.total
	}
	system = t.total * t.systemTicks / (t.userTicks + t.systemTicks)
	return t.total - system, system
}

// readCPU reads the CPU time of a cgroup with its children, those removed already
// included. ok is false where no hierarchy has the cgroup.
func readCPU(h sys.Hierarchies, cgroup string) (t cpuTime, ok bool, err error) {
	if tree, ok := h.With("cpuacct"); ok {
		t, err = cpuV1(tree.Dir(cgroup))
	} else if tree, ok := h.Unified(); ok {
		t, err = cpuV2(tree.Dir(cgroup)) // counts CPU time without the controller, too
	} else {
		return t, false, nil
	}
	if gone(err) {
		return cpuTime{}, false, nil
	}
	return t, err == nil, err
}

// gone reports that a cgroup does not exist, or has been removed while its
// file was open.
func gone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) }

// cpuV1 reads cpuacct's files, in nanoseconds (kernel,
// Documentation/admin-guide/cgroup-v1/cpuacct.rst).
func cpuV1(dir string) (t cpuTime, err error) {
	for file, to := range map[string]*float64{"cpuacct.usage": &t.total, "cpuacct.usage_user": &t.userTicks, "cpuacct.usage_sys": &t.systemTicks} {
		n, err := readNumber(filepath.Join(dir, file))
		if err != nil {
			return t, err
		}
		*to = n * 1e-9
	}
	return t, nil
}

// cpuV2 reads cpu.stat, in microseconds (kernel,
// Documentation/admin-guide/cgroup-v2.rst).
func cpuV2(dir string) (t cpuTime, err error) {
	b, err := os.ReadFile(filepath.Join(dir, "cpu.stat"))
	if err != nil {
		return t, err
	}
	fields := map[string]*float64{"usage_usec": &t.total, "user_usec": &t.userTicks, "system_usec": &t.systemTicks}
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

func readNumber(file string) (float64, error) {
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

// peak is a cgroup's memory peak. Its file stays open, because v2 keeps the peak
// since a reset per open file; or it is only named, and holds the peak since the
// group was made.
type peak struct {
	metric string
	file   *os.File // nil where it is only named
	name   string
}

// namePeak is armPeak without an open file.
func namePeak(h sys.Hierarchies, cgroup, metric string) (p peak, ok bool, err error) {
	file, ok := peakFile(h, cgroup)
	return peak{metric: metric, name: file}, ok, nil
}

func peakFile(h sys.Hierarchies, cgroup string) (string, bool) {
	tree, ok := h.With("memory")
	if !ok {
		return "", false
	}
	if tree.Version == 1 {
		return filepath.Join(tree.Dir(cgroup), "memory.max_usage_in_bytes"), true
	}
	return filepath.Join(tree.Dir(cgroup), "memory.peak"), true
}

// armPeak opens a cgroup's peak and resets it. ok is false where the machine
// or the cgroup has none.
func armPeak(h sys.Hierarchies, cgroup, metric string) (p peak, ok bool, err error) {
	file, ok := peakFile(h, cgroup)
	if !ok {
		return p, false, nil
	}
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrPermission) { // memory.peak cannot be written before Linux 6.12
		f, err = os.Open(file)
	} else if err == nil {
		// Best effort: the group is new, so without a reset its peak is only
		// that of the preparation, a megabyte or less.
		_, _ = f.WriteString("0")
	}
	if gone(err) {
		return p, false, nil
	}
	if err != nil {
		return p, false, err
	}
	return peak{metric, f, file}, true, nil
}

func (p peak) read() (n float64, ok bool, err error) {
	if p.file == nil {
		n, err := readNumber(p.name)
		if gone(err) {
			return 0, false, nil
		}
		return n, err == nil, err
	}
	if _, err := p.file.Seek(0, io.SeekStart); err != nil {
		return 0, false, err
	}
	b, err := io.ReadAll(io.LimitReader(p.file, 64))
	if gone(err) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	n, err = strconv.ParseFloat(strings.TrimSpace(string(b)), 64)
	if err != nil {
		return 0, false, fmt.Errorf("%s: %q is not a number", p.file.Name(), b)
	}
	return n, true, nil
}

func (p peak) close() {
	if p.file != nil {
		p.file.Close()
	}
}
