package drivertest

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/sys"
)

func checkProperties(_ context.Context, s *suite) error {
	var errs []error
	if s.driver.Name() == "" || s.driver.Name() != strings.ToLower(s.driver.Name()) {
		errs = append(errs, fmt.Errorf("name %q is empty or not in lower case", s.driver.Name()))
	}
	p := s.props
	if p.Family == "" {
		errs = append(errs, errors.New("Properties.Family is empty"))
	}
	if p.Boundary == "" {
		errs = append(errs, errors.New("Properties.Boundary is not set: set driver.NoBoundary for a driver without a boundary"))
	}
	if p.MaxParallel < 4 {
		errs = append(errs, fmt.Errorf("Properties.MaxParallel is %d, below 4", p.MaxParallel))
	}
	if p.StreamBytes < 8<<20 {
		errs = append(errs, fmt.Errorf("Properties.StreamBytes is %d, below 8 MiB", p.StreamBytes))
	}
	if p.StartTime <= 0 {
		errs = append(errs, errors.New("Properties.StartTime is not set"))
	}
	return errors.Join(errs...)
}

func checkCheck(ctx context.Context, s *suite) error {
	facts, err := s.driver.Check(ctx)
	if err != nil {
		return fmt.Errorf("its Check: %w", err)
	}
	if facts.Path != "" && facts.Version == "" {
		return fmt.Errorf("its Check found %s but no version", facts.Path)
	}
	return nil
}

func checkMissing(ctx context.Context, s *suite) error {
	if s.opts.Missing == nil {
		return lackf("the driver has no binary of its own that could be missing")
	}
	_, err := s.opts.Missing.Check(ctx)
	if err := s.blames(err); err != nil {
		return fmt.Errorf("its Check: %w", err)
	}
	broken := *s
	broken.driver = s.opts.Missing
	if err := s.blames(broken.run(ctx, sh("true")).err); err != nil {
		return fmt.Errorf("its Prepare or Start: %w", err)
	}
	return nil
}

// blames says what is wrong with an error that should say that MissingName is missing.
func (s *suite) blames(err error) error {
	if err == nil {
		return errors.New("without its binary it works")
	}
	var cannot *driver.CannotError
	if !errors.As(err, &cannot) {
		return fmt.Errorf("without its binary: want a CannotError, got: %w", err)
	}
	if !strings.Contains(cannot.Lacks, s.opts.MissingName) {
		return fmt.Errorf("without its binary: %q does not name %q", cannot.Error(), s.opts.MissingName)
	}
	return nil
}

func checkExitCodes(ctx context.Context, s *suite) error {
	codes := []int{0, 1, 3, 125, 126, 127, 128, 129, 130, 137, 139, 143, 254, 255}
	if !s.slow() && sys.HasCall(sys.Overlayfs) { // else each start copies a root first
		codes = []int{0, 1, 3}
		for c := 125; c <= 255; c++ {
			codes = append(codes, c)
		}
	}
	if s.boots() {
		codes = []int{0, 1, 127, 137, 255}
	}
	for _, code := range codes {
		if err := s.run(ctx, sh(fmt.Sprintf("exit %d", code))).ended(code); err != nil {
			return fmt.Errorf("exit %d: %w", code, err)
		}
	}
	return nil
}

// checkSignals runs a payload that the kernel kills, and expects the signal
// that the same file gets when this test runs it. A container's init cannot
// kill itself: the kernel ignores that.
func checkSignals(ctx context.Context, s *suite) error {
	var failed *exec.ExitError
	crash := filepath.Join(s.opts.Lab.TestRootfs, crashPath)
	if err := exec.CommandContext(ctx, crash).Run(); !errors.As(err, &failed) {
		return fmt.Errorf("%s should have crashed on the host: %w", crash, err)
	}
	status, ok := failed.Sys().(syscall.WaitStatus)
	if !ok || !status.Signaled() {
		return fmt.Errorf("%s should have died of a signal on the host: %w", crash, failed)
	}
	o := s.run(ctx, job{args: []string{crashPath}})
	if o.err != nil || o.close != nil {
		return errors.Join(o.err, o.close, o.said())
	}
	want := driver.Exit{Signal: int(status.Signal())}
	if !s.props.ExactSignal {
		want = driver.Exit{Code: 128 + int(status.Signal())}
	}
	if o.exit.Signal != want.Signal || (want.Signal == 0 && o.exit.Code != want.Code) {
		return fmt.Errorf("a crash gave %s, want %s", exitText(o.exit), exitText(want))
	}
	return nil
}

func checkShellSignal(ctx context.Context, s *suite) error {
	return s.run(ctx, sh(`sh -c 'kill -9 $$'; exit $?`)).ended(137)
}

// checkUsage sees that a payload that burns CPU time is charged for it: at its
// exit or, where the driver has no such word from the payload's own kernel or
// parent, in the group that its Watch names.
func checkUsage(ctx context.Context, s *suite) error {
	o := s.run(ctx, sh(`i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done`))
	if err := o.ok(); err != nil {
		return err
	}
	u := o.exit.Usage
	if u == nil {
		return s.chargedWhileItRuns(ctx)
	}
	if cpu := u.User + u.System; cpu <= 0 || cpu > 4*o.took {
		return fmt.Errorf("the payload's CPU time is %v in %v of wall time", cpu, o.took)
	}
	if u.MaxRSS <= 0 {
		return fmt.Errorf("the payload's MaxRSS is %d", u.MaxRSS)
	}
	return nil
}

// chargedWhileItRuns sees CPU time arrive in the group of a payload that burns it.
func (s *suite) chargedWhileItRuns(ctx context.Context) error {
	i, err := s.prepare(ctx, sh("while :; do :; done"))
	if err != nil {
		return err
	}
	err = i.charged(ctx)
	return errors.Join(err, i.close())
}

func (i *instance) charged(ctx context.Context) error {
	if err := i.start(ctx); err != nil {
		return err
	}
	if err := i.ready(ctx); err != nil {
		return err
	}
	watches := i.Watch()
	at := slices.IndexFunc(watches, func(w driver.Watch) bool { return w.Role == driver.RolePayload })
	if at < 0 || watches[at].Cgroup == "" {
		return errors.New("the payload's resource use is told neither at its exit nor by a cgroup of its Watch")
	}
	before, err := cpuTime(watches[at].Cgroup)
	for err == nil {
		var now time.Duration
		if now, err = cpuTime(watches[at].Cgroup); err == nil && now >= before+50*time.Millisecond {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("a payload that burns CPU time got no more than %v of it into %s", now-before, watches[at].Cgroup)
		case <-time.After(10 * time.Millisecond):
		}
	}
	return err
}

func checkNoPayload(ctx context.Context, s *suite) error {
	const missing = "/no/such/binary"
	o := s.run(ctx, job{args: []string{missing}, bare: true})
	if o.close != nil {
		return o.close
	}
	if driver.IsLab(o.err) {
		return fmt.Errorf("a payload that does not exist is not the laboratory's fault: %w", o.err)
	}
	told := o.stderr
	if o.err != nil {
		told += "; " + o.err.Error()
	} else if o.exit.Code != 126 && o.exit.Code != 127 {
		return fmt.Errorf("a payload that does not exist ended with %s", exitText(o.exit))
	}
	if !strings.Contains(told, missing) {
		return fmt.Errorf("a payload that does not exist is not named: %.500q", told)
	}
	// The mark helper acts first; what it cannot find it says itself.
	return s.run(ctx, job{args: []string{missing}}).ended(127)
}
