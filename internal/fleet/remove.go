package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tarelab/tare/internal/fleet/engine"
)

// removeTime bounds how long a job's removal may take: it has engine.Grace to end.
const removeTime = 3 * time.Minute

// tidy takes jobs that are over out of the engine.
func (c *Collector) tidy(ctx context.Context, s *slot) error {
	for _, job := range slices.Clone(s.Kept) {
		if job == s.Job && !s.Over() {
			continue
		}
		if err := c.remove(ctx, s, job); err != nil {
			return err
		}
	}
	return nil
}

// remove takes one job out of the engine.
func (c *Collector) remove(ctx context.Context, s *slot, job string) error {
	bounded, cancel := context.WithTimeout(ctx, removeTime)
	defer cancel()
	if err := c.Engine.Remove(bounded, job); err != nil {
		return c.trouble(ctx, "job "+job+" was removed", err)
	}
	return c.removed(s, job)
}

// removed records that the engine has a job no more.
func (c *Collector) removed(s *slot, job string) error {
	s.Kept = slices.DeleteFunc(s.Kept, func(name string) bool { return name == job })
	return c.journal.write(Event{At: time.Now().UTC(), Slot: s.Slot, Machine: s.Machine, Attempt: s.Attempt, Job: job, What: Removed})
}

// cancel ends everything. Who follows a job reads how it ends, after SIGTERM too.
func (c *Collector) cancel(ctx context.Context) error {
	var errs []error
	for _, s := range c.slots {
		if s.Job != "" && !s.Over() && s.follow == nil {
			s.follow = c.begin(ctx, s.Job)
		}
	}
	for _, s := range c.slots {
		for _, job := range slices.Clone(s.Kept) {
			bounded, cancel := context.WithTimeout(ctx, removeTime)
			states, err := c.Engine.States(bounded, []string{job})
			if err == nil {
				err = c.Engine.Remove(bounded, job)
			}
			cancel()
			if err != nil {
				errs = append(errs, fmt.Errorf("job %s: %w", job, err))
				continue
			}
			if job == s.Job && !s.Over() {
				errs = append(errs, c.cancelled(ctx, s, states[job]))
			}
			errs = append(errs, c.removed(s, job))
		}
		if !s.Over() || c.plan.unfinished(s.Status) { // so that no attempt follows
			errs = append(errs, c.record(s, Cancelled, s.State, s.Run, "tare fleet cancel"))
		}
	}
	return errors.Join(errs...)
}

// cancelled takes in what came of a job that this process has removed.
func (c *Collector) cancelled(ctx context.Context, s *slot, state engine.State) error {
	select {
	case <-s.follow.done: // what was not read by now is not there any more
	case <-time.After(c.Pace):
		s.follow.cancel()
		<-s.follow.done
	case <-ctx.Done():
		return ctx.Err()
	}
	s.follow = nil
	if !state.Phase.Over() {
		state.Phase, state.Reason, state.Message = engine.Cancelled, "tare fleet cancel", ""
	}
	return c.end(ctx, s, state)
}
