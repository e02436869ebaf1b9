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

// gone reports that a cgroup does not exist, or has been removed while its
// file was open.
func gone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) }

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
		return peak{metric: metric, name: file}, true, nil
	}
	if err != nil {
		return p, false, err
	}
	return peak{metric, f, file}, true, nil
}

func (p peak) read() (n float64, ok bool, err error) {
	if p.file == nil {
		n, err := sys.ReadNumber(p.name)
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
