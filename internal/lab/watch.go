package lab

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tarelab/tare/internal/hostinfo"
	"github.com/tarelab/tare/internal/probe/ebpf"
	"github.com/tarelab/tare/internal/profile"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/store"
	"github.com/tarelab/tare/internal/study"
	"github.com/tarelab/tare/internal/sys"
)

// Running is what already runs and is to be watched: one of the three.
type Running struct {
	Cgroup string // of version 2, with those below it, by path
	PID    int    // with its descendants
	All    bool   // the whole machine
}

// Watch watches what already runs for so long (0: until ctx is cancelled, which is no
// error), or until the process has ended. The name says what was watched, in words.
func Watch(ctx context.Context, probe string, what Running, long time.Duration) (name string, p profile.Profile, err error) {
	own, name, err := what.selected()
	if err != nil {
		return "", p, &InputError{err}
	}
	stop, err := recorders[probe](own)
	if err != nil {
		return "", p, err
	}
	waitErr := linger(ctx, what.PID, long)
	p, err = stop()
	if err := errors.Join(err, waitErr); err != nil {
		return "", p, err
	}
	return name, p, nil
}

func (r Running) selected() (own ebpf.Selection, name string, err error) {
	switch {
	case r.All:
		return ebpf.SelectAll(), "the whole machine", nil
	case r.Cgroup != "":
		own, err = ebpf.SelectCgroup(r.Cgroup)
		return own, "cgroup " + r.Cgroup, err
	}
	own, err = ebpf.SelectProcess(r.PID)
	return own, "process " + strconv.Itoa(r.PID), err
}

// ProfileStudy is the id of runs that hold one profile, of what ran anyway or of what
// another program recorded. Their only cell has the workload of the same name.
const ProfileStudy = "profile"

// RecordProfile makes a run of one profile, of the name, as a probe's.
func RecordProfile(config Config, probe, title, name string, p profile.Profile) (*store.Run, error) {
	off := false
	cell := study.Cell{ID: name + "/" + ProfileStudy, Target: name, Workload: ProfileStudy, Group: ProfileStudy, Copies: 1, Control: true, Probe: probe}
	st := study.Study{ID: ProfileStudy, Title: title, Targets: []string{name}, Control: name, Probes: []string{probe}, AA: &off, Cold: &off, Blocks: 1,
		Workloads: []study.Workload{{Name: ProfileStudy, Kind: ProfileStudy}}}
	run, err := store.Create(config.StateDir, store.Manifest{Tool: config.Version, Command: config.Command, Created: time.Now().UTC(), Host: hostinfo.Gather(),
		Study: st.WithDefaults(), Cells: []study.Cell{cell}, Trials: 1,
		Metrics: map[string][]sample.Metric{ProfileStudy: {{Name: sample.Wall, Unit: sample.Seconds, Better: sample.Lower, Help: "how long was recorded"}}}})
	if err != nil {
		return nil, err
	}
	record := sample.Record{Cell: cell.ID, At: time.Now().UnixNano(), Values: map[string][]float64{sample.Wall: {p.Elapsed.Seconds()}}}
	return run, errors.Join(run.KeepProfile(record.Seq, p), run.Append(record), run.Close())
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
