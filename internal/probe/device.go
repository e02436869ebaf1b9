package probe

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/sys"
)

// DeviceBytes is what block devices have read and written so far for the watched
// instances, in bytes. Their cgroups count it or, where these count nothing, the kernel
// does for the processes that are alive in them. ok is false where neither can be read.
func DeviceBytes(on []driver.Watch) (sum float64, ok bool, err error) {
	trees, err := sys.Cgroups()
	if err != nil {
		return 0, false, fmt.Errorf("device bytes: %w", err)
	}
	for _, w := range distinct(on) {
		moved, known, err := groupBytes(trees, w.Cgroup)
		if err != nil {
			return 0, false, fmt.Errorf("device bytes: %w", err)
		}
		sum, ok = sum+moved, ok || known
	}
	return sum, ok, nil
}

// groupBytes is what devices have moved for a cgroup and those below it.
func groupBytes(trees sys.Hierarchies, group string) (sum float64, ok bool, err error) {
	const v1 = "blkio.throttle.io_service_bytes_recursive"
	for controller, name := range map[string]string{"blkio": v1, "io": "io.stat"} {
		h, mounted := trees.With(controller)
		if !mounted || h.Version == 1 && !countsBlocks(filepath.Join(h.Path, v1)) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(h.Dir(group), name))
		switch {
		case err == nil && h.Version == 1:
			return movedV1(string(text)), true, nil
		case err == nil:
			return movedV2(string(text)), true, nil
		case !errors.Is(err, fs.ErrNotExist):
			return 0, false, err
		}
	}
	pids, err := trees.PIDs(group)
	if err != nil {
		return 0, false, err
	}
	for _, pid := range pids {
		moved, known, err := processBytes(pid)
		if err != nil {
			return 0, false, err
		}
		sum, ok = sum+moved, ok || known
	}
	return sum, ok, nil
}

// countsBlocks says whether version 1 counts at all: kernels from 6.10 on do not until
// somebody has set a limit, and then the file of the whole machine names no device.
func countsBlocks(file string) bool {
	text, err := os.ReadFile(file)
	return err == nil && strings.ContainsRune(string(text), ':')
}

// processBytes is what devices have moved for a process and the children that it has
// waited for (proc_pid_io(5)); a write counts when its page becomes dirty. ok is false
// where the kernel does not count or the process has ended.
func processBytes(pid int) (sum float64, ok bool, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", pid))
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ESRCH):
		return 0, false, nil
	case err != nil:
		return 0, false, err
	}
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		if key == "read_bytes" || key == "write_bytes" {
			sum += count(value)
		}
	}
	return sum, true, nil
}

// movedV1 adds up "254:0 Read 4096" and "254:0 Write 0".
func movedV1(text string) (sum float64) {
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) == 3 && (words[1] == "Read" || words[1] == "Write") {
			sum += count(words[2])
		}
	}
	return sum
}

// movedV2 adds up "254:0 rbytes=4096 wbytes=0 ...".
func movedV2(text string) (sum float64) {
	for word := range strings.FieldsSeq(text) {
		key, value, _ := strings.Cut(word, "=")
		if key == "rbytes" || key == "wbytes" {
			sum += count(value)
		}
	}
	return sum
}

// count reads one of the kernel's numbers.
func count(text string) float64 {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0 // the kernel writes nothing else
	}
	return float64(n)
}
