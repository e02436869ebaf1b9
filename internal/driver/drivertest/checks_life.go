package drivertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/tarelab/tare/internal/driver"
)

// killTime is how soon a cancelled payload must have ended.
const killTime = 2 * time.Second

// ready waits for the payload's mark.
func (i *instance) ready(ctx context.Context) error {
	select {
	case <-i.stdout.marked:
		return nil
	case <-i.stdout.done:
		return errors.New("the payload's output ended before its mark")
	case <-ctx.Done():
		return fmt.Errorf("waiting for the payload's mark: %w", ctx.Err())
	}
}

func checkMarks(ctx context.Context, s *suite) error {
	// It goes on for a while after its mark: two that end at once are stamped in
	// the order in which their readers wake up, which is no driver's doing.
	o := s.run(ctx, sh("sleep 0.5"))
	if err := o.ok(); err != nil {
		return err
	}
	// A driver may mark exit before its Wait returns: the first one counts.
	request, acted, exit := slices.Index(o.order, driver.PhaseRequest), slices.Index(o.order, driver.PhaseActed), slices.Index(o.order, driver.PhaseExit)
	after := slices.DeleteFunc(slices.Clone(o.order[exit+1:]), func(p driver.Phase) bool { return p == driver.PhaseOff || p == driver.PhaseExit })
	if request != 0 || acted < 0 || exit < acted || len(after) > 0 {
		return fmt.Errorf("marks came as %q, want request first, exit last (but for %q), acted between", o.order, driver.PhaseOff)
	}
	return nil
}

func checkWatch(ctx context.Context, s *suite) error {
	i, err := s.prepare(ctx, sh("while :; do sleep 1; done"))
	if err != nil {
		return err
	}
	err = i.watched(ctx)
	return errors.Join(err, i.close())
}

// watched checks what Watch says while the payload runs.
func (i *instance) watched(ctx context.Context) error {
	if err := i.start(ctx); err != nil {
		return err
	}
	if err := i.ready(ctx); err != nil {
		return err
	}
	payloads := 0
	for _, w := range i.Watch() {
		if w.Role == driver.RolePayload {
			payloads++
		}
		if w.PID != 0 {
			if _, err := os.Stat("/proc/" + strconv.Itoa(w.PID)); err != nil {
				return fmt.Errorf("its Watch names a %s process that does not run: %w", w.Role, err)
			}
		}
		if w.Cgroup != "" {
			if err := cgroupExists(w.Cgroup); err != nil {
				return fmt.Errorf("its Watch names a %s cgroup: %w", w.Role, err)
			}
		}
		if w.PID == 0 && w.Cgroup == "" && w.Counts == nil {
			return fmt.Errorf("its Watch names a %s with neither process nor cgroup while it runs", w.Role)
		}
	}
	if payloads != 1 {
		return fmt.Errorf("its Watch names %d payloads, want 1", payloads)
	}
	return nil
}

// stubborn is a payload that ignores every signal that can be ignored.
func stubborn() job { return sh(`trap "" TERM INT HUP QUIT; while :; do sleep 1; done`) }

func checkCancelWait(ctx context.Context, s *suite) error {
	i, err := s.prepare(ctx, stubborn())
	if err != nil {
		return err
	}
	err = i.cancelled(ctx, func(cancel func()) error {
		if err := i.ready(ctx); err != nil {
			return err
		}
		time.AfterFunc(20*time.Millisecond, cancel)
		return nil
	})
	return errors.Join(err, i.close())
}

// checkCancelStart cancels at several moments of a start.
func checkCancelStart(ctx context.Context, s *suite) error {
	for _, part := range []time.Duration{0, 4, 2, 1} {
		i, err := s.prepare(ctx, stubborn())
		if err != nil {
			return err
		}
		delay := time.Duration(0)
		if part > 0 {
			delay = s.props.StartTime / part
		}
		err = i.cancelled(ctx, func(cancel func()) error {
			time.AfterFunc(delay, cancel)
			return nil
		})
		if err = errors.Join(err, i.close()); err != nil {
			return fmt.Errorf("cancelled %v after the request: %w", delay, err)
		}
	}
	return nil
}

// cancelled starts the payload under a context that arm cancels, and checks
// that all ends in time, with the context's error.
func (i *instance) cancelled(ctx context.Context, arm func(cancel func()) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	at := make(chan time.Time, 1)
	stamped := func() { at <- time.Now(); cancel() }
	err := i.startAnd(ctx, func() error { return arm(stamped) })
	ended := time.Now()
	if err := wantCancelled(err); err != nil {
		return err
	}
	if late := ended.Sub(<-at); late > killTime {
		return fmt.Errorf("cancelled: it took %v to end, more than %v", late, killTime)
	}
	return nil
}

// wantCancelled says what is wrong with an error that should be the context's.
func wantCancelled(err error) error {
	switch {
	case err == nil:
		return errors.New("cancelled: it ended well, and should have with the context's error")
	case !errors.Is(err, context.Canceled):
		return fmt.Errorf("cancelled: want the context's error, got: %w", err)
	}
	return nil
}

// startAnd arms before a start that may not return, or after one that has.
func (i *instance) startAnd(ctx context.Context, arm func() error) error {
	armed := make(chan error, 1)
	go func() { armed <- arm() }()
	err := i.start(ctx)
	if err == nil {
		_, err = i.wait(ctx)
	}
	return errors.Join(err, <-armed)
}

func checkCancelBefore(ctx context.Context, s *suite) error {
	over, cancel := context.WithCancel(ctx)
	cancel()
	i, err := s.prepare(ctx, sh("exit 0"))
	if err != nil {
		return err
	}
	err = i.start(over)
	if err == nil {
		_, err = i.wait(over)
	}
	if cerr := i.close(); cerr != nil {
		return cerr
	}
	if err := wantCancelled(err); err != nil {
		return fmt.Errorf("started under a cancelled context: %w", err)
	}
	i, err = s.prepare(over, sh("exit 0"))
	if err != nil {
		return nil // refusing is as good as preparing; prepare has closed it
	}
	return i.close()
}

func checkCloseTwice(ctx context.Context, s *suite) error {
	i, err := s.prepare(ctx, sh("exit 0"))
	if err != nil {
		return err
	}
	if err := i.whole(ctx, 0); err != nil {
		return err
	}
	if err := i.Close(); err != nil {
		return fmt.Errorf("second Close: %w", err)
	}
	// After a start that failed.
	i, err = s.prepare(ctx, job{args: []string{"/no/such/binary"}, bare: true})
	if err != nil {
		return nil // the driver saw it before the clock; prepare has closed it
	}
	if err := i.start(ctx); err == nil {
		_, _ = i.wait(ctx) // that it fails is another check's matter
	}
	if err := i.close(); err != nil {
		return fmt.Errorf("call Close after a failed start: %w", err)
	}
	if err := i.Close(); err != nil {
		return fmt.Errorf("second Close after a failed start: %w", err)
	}
	return nil
}

func checkCloseOnly(ctx context.Context, s *suite) error {
	i, err := s.prepare(ctx, sh("exit 0"))
	if err != nil {
		return err
	}
	if err := i.close(); err != nil {
		return err
	}
	return i.Close()
}

func checkCloseRunning(ctx context.Context, s *suite) error {
	i, err := s.prepare(ctx, stubborn())
	if err != nil {
		return err
	}
	if err = i.start(ctx); err == nil {
		err = i.ready(ctx)
	}
	begin := time.Now()
	err = errors.Join(err, i.close())
	if took := time.Since(begin); took > 2*killTime {
		err = errors.Join(err, fmt.Errorf("call Close: of a running payload took %v", took))
	}
	return err
}

// checkLeftovers runs a payload whose children outlive it, in a session of
// their own and deaf to signals. Close must find them.
func checkLeftovers(ctx context.Context, s *suite) error {
	o := s.run(ctx, sh(`for i in 1 2 3; do setsid sh -c 'trap "" TERM HUP; exec sleep 300' >/tmp/left 2>&1 </data/pattern & done; sleep 0.05; exit 5`))
	return o.ended(5)
}
