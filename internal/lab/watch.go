package lab

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tarelab/tare/internal/probe/ebpf"
	"github.com/tarelab/tare/internal/profile"
	"github.com/tarelab/tare/internal/sys"
)

// Watch watches what already runs, a cgroup of version 2 or a process with its
// descendants, for so long (0: until ctx is cancelled, which is no error), or
// until the process has ended. The name says what was watched, in words.
func Watch(ctx context.Context, probe, cgroup string, pid int, long time.Duration) (name string, p profile.Profile, err error) {
	own, name, err := selected(cgroup, pid)
	if err != nil {
		return "", p, &InputError{err}
	}
	stop, err := recorders[probe](own)
	if err != nil {
		return "", p, err
	}
	waitErr := linger(ctx, pid, long)
	p, err = stop()
	if err := errors.Join(err, waitErr); err != nil {
		return "", p, err
	}
	return name, p, nil
}

func selected(cgroup string, pid int) (own ebpf.Selection, name string, err error) {
	if cgroup != "" {
		own, err = ebpf.SelectCgroup(cgroup)
		return own, "cgroup " + cgroup, err
	}
	own, err = ebpf.SelectProcess(pid)
	return own, "process " + strconv.Itoa(pid), err
}

// linger waits for the time, the process's end, or ctx, whichever is first.
func linger(ctx context.Context, pid int, long time.Duration) error {
	if long > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, long)
		defer cancel()
	}
	if pid == 0 {
		<-ctx.Done()
		return nil
	}
	watched, err := sys.OpenProcess(pid)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("watch process %d: %w", pid, err)
	}
	defer func() { _ = watched.Close() }() // nothing was written there
	for ctx.Err() == nil {
		ended, err := watched.EndsIn(100 * time.Millisecond)
		if err != nil {
			return fmt.Errorf("watch process %d: %w", pid, err)
		}
		if ended {
			return nil
		}
	}
	return nil
}
