package sys

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// Tracepoint is one of the kernel's, as perf events name it and write it down.
type Tracepoint struct {
	ID     uint64 // of perf_event_open(2), in the config of PERF_TYPE_TRACEPOINT
	Fields map[string]TracepointField
}

// TracepointField is where a field lies in the raw data of a tracepoint, in bytes.
type TracepointField struct{ Offset, Size int }

// tracing is where the kernel shows its tracepoints: since Linux 4.1 in a file system of
// their own, before in debugfs.
var tracing = []struct{ dir, kind, mount string }{
	{"/sys/kernel/tracing", "tracefs", ""},
	{"/sys/kernel/debug/tracing", "debugfs", "tracing"},
}

// FindTracepoint finds a tracepoint by its path below events, such as
// "sched/sched_switch". Where no tracefs is mounted, it mounts one for a moment, which
// nobody else sees. The error is fs.ErrNotExist where the kernel has no such tracepoint.
func FindTracepoint(name string) (Tracepoint, error) {
	for _, t := range tracing {
		if text, err := os.ReadFile(filepath.Join(t.dir, "events", name, "format")); err == nil {
			return parseTracepoint(string(text))
		}
	}
	var text []byte
	var err error
	onThreadOfItsOwn(func() { text, err = mountTracing(name) })
	if err != nil {
		return Tracepoint{}, fmt.Errorf("tracepoint %s: %w", name, err)
	}
	return parseTracepoint(string(text))
}

// onThreadOfItsOwn calls f on a thread that ends with it, so that its namespaces do. That is
// never the first thread: it would stay, and is the one that /proc/self shows.
func onThreadOfItsOwn(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			onThreadOfItsOwn(f) // not here: this thread is taken until then
			runtime.UnlockOSThread()
			return
		}
		f()
	}()
	<-done
}

// mountTracing reads a tracepoint's format in a mount namespace of this thread. The mount
// hides the directory of temporary files from this thread alone.
func mountTracing(name string) ([]byte, error) {
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return nil, fmt.Errorf("new mount namespace: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return nil, fmt.Errorf("private mounts: %w", err)
	}
	var errs []error
	dir := os.TempDir()
	for _, t := range tracing {
		err := unix.Mount("tare", dir, t.kind, unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
		if err != nil {
			errs = append(errs, fmt.Errorf("mount %s: %w", t.kind, err))
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, t.mount, "events", name, "format"))
		if !errors.Is(err, fs.ErrNotExist) {
			return text, err
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

var (
	tracepointID    = regexp.MustCompile(`(?m)^ID: (\d+)$`)
	tracepointField = regexp.MustCompile(`(?m)^\tfield:[^;]*?(\w+)(?:\[\w*\])?;\s*offset:(\d+);\s*size:(\d+);`) // prev_comm[16], or [TASK_COMM_LEN]
)

// parseTracepoint reads the kernel's file format of a tracepoint.
func parseTracepoint(text string) (Tracepoint, error) {
	t := Tracepoint{Fields: map[string]TracepointField{}}
	id := tracepointID.FindStringSubmatch(text)
	if id == nil {
		return t, fmt.Errorf("format of a tracepoint has no ID: %.60q", text)
	}
	var err error
	if t.ID, err = strconv.ParseUint(id[1], 10, 32); err != nil {
		return t, fmt.Errorf("format of a tracepoint: %w", err)
	}
	for _, m := range tracepointField.FindAllStringSubmatch(text, -1) {
		offset, errOffset := strconv.ParseUint(m[2], 10, 16)
		size, errSize := strconv.ParseUint(m[3], 10, 16)
		if err := errors.Join(errOffset, errSize); err != nil {
			return t, fmt.Errorf("format of a tracepoint, field %s: %w", m[1], err)
		}
		t.Fields[m[1]] = TracepointField{int(offset), int(size)}
	}
	return t, nil
}
