package fleet

import (
	"context"
	"slices"
	"time"

	"github.com/tarelab/tare/internal/fleet/engine"
)

// another begins the next attempt: on the same machine when it takes jobs, else on the
// next of the order that no slot has had, else on the same machine when it is back.
func (c *Collector) another(ctx context.Context, s *slot) error {
	machine := s.Machine
	machines, err := c.Engine.Machines(ctx, c.plan.Where)
	if err != nil {
		return c.trouble(ctx, "the engine was asked for its machines", err)
	}
	up := func(name string) bool {
		return slices.ContainsFunc(machines, func(m engine.Machine) bool { return m.Name == name && m.Up })
	}
	if !up(machine) {
		for _, name := range c.plan.Order[c.plan.Wanted:] {
			if up(name) && !c.had(name) {
				machine = name
				break
			}
		}
	}
	c.next(s, machine)
	return nil
}

// had reports whether a slot has or had a machine.
func (c *Collector) had(machine string) bool {
	return slices.ContainsFunc(c.slots, func(s *slot) bool {
		return s.Machine == machine || slices.ContainsFunc(s.Earlier, func(e Event) bool { return e.Machine == machine })
	})
}

// next makes a slot ready for another attempt.
func (c *Collector) next(s *slot, machine string) {
	s.Earlier = append(s.Earlier, s.Event)
	s.Event = Event{Slot: s.Slot, Machine: machine, Attempt: s.Attempt + 1}
	s.submitted, s.tries, s.runs, s.others = false, 0, time.Time{}, nil
}
