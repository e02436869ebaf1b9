package preflight

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/driver/netpath"
	"github.com/tarelab/tare/internal/net"
	"github.com/tarelab/tare/internal/study"
	"github.com/tarelab/tare/internal/sys"
	"github.com/tarelab/tare/internal/workload"
)

// boots skips a cell that needs a payload where the target's boots end before one runs.
func boots(_ context.Context, q *Question, c study.Cell) (Outcome, error) {
	notes := q.Targets[c.Target].Facts.Notes
	j := q.Job(c)
	if to := notes[driver.NoteBootsTo]; to == "" || (j.Kind == workload.KindStart || j.Hold) && len(j.Args) == 0 {
		return Outcome{}, nil
	}
	return Outcome{Verdict: Skip, Reason: fmt.Errorf("target %s boots to %q and runs no payload: %s", c.Target, notes[driver.NoteBootsTo], notes[driver.NoteNoKVM])}, nil
}

// guest skips a cell whose guest cannot have what its level asks for.
func guest(ctx context.Context, q *Question, c study.Cell) (Outcome, error) {
	machine := q.Targets[c.Target].Driver.Properties().Machine
	g := c.Limits.Guest
	if machine == nil || g == nil || *g == (study.Guest{}) {
		return Outcome{}, nil
	}
	lacks := ""
	if g.KSM {
		lacks = q.Machine.KSMLacks()
	}
	if g.HugePages {
		lacks = cmp.Or(lacks, q.Machine.HugePagesLack())
	}
	var err error
	if lacks != "" {
		err = &driver.CannotError{Target: c.Target, Lacks: lacks}
	} else {
		err = machine.Takes(ctx, driver.Limits{Memory: c.Limits.Memory}, DevicesOf(g))
	}
	if cannot(err) {
		return Outcome{Verdict: Skip, Reason: err}, nil
	}
	return Outcome{}, err
}

// DevicesOf is what a level gives to guests as a driver takes it.
func DevicesOf(g *study.Guest) driver.Devices {
	if g == nil {
		return driver.Devices{}
	}
	return driver.Devices{PageReporting: g.PageReporting, Mergeable: g.KSM, HugePages: g.HugePages, IOThread: g.IOThread,
		Vhost: g.Vhost, VirtioFS: g.VirtioFS, Balloon: g.Balloon, Hotplug: g.Hotplug}
}

// network skips a cell that cannot be measured on its path, and refuses more
// containers than the path's bridges take.
func network(_ context.Context, q *Question, c study.Cell) (Outcome, error) {
	on, placed := driver.As[*netpath.Driver](q.Targets[c.Target].Driver)
	if !placed {
		return Outcome{}, nil
	}
	err := on.Takes(NetworkOf(c.Limits.Network))
	if err == nil {
		err = q.cannotMeet(c, on)
	}
	switch {
	case err == nil:
		return Outcome{}, nil
	case errors.As(err, new(*net.FullError)):
		return Outcome{Verdict: Refuse, Reason: fmt.Errorf("cell %s: %w", c.ID, err)}, nil
	}
	return Outcome{Verdict: Skip, Reason: err}, nil
}

// cannotMeet is why a cell's two ends cannot be pinned as the level asks, or cannot
// reach each other as the workload does; nil where they can.
func (q *Question) cannotMeet(c study.Cell, on *netpath.Driver) error {
	if NetworkOf(c.Limits.Network).Pin == netpath.Apart {
		usable, err := q.usable(c)
		if err != nil {
			return err
		}
		if usable < 2 {
			return fmt.Errorf("the environment %s pins the two ends apart, and %d CPU may be used: use an environment with pin: same", c.Environment, usable)
		}
	}
	if l := c.Limits; on.Remote() && (l.CPUSet != "" || l.Mems != "" || l.Shares > 0 || l.Idle) {
		return fmt.Errorf("the environment %s chooses CPUs, memory nodes or weights, which two machines do not share: use cpus, memory or pids", c.Environment)
	}
	if err := on.Carries(q.Job(c).Peer); err != nil {
		return fmt.Errorf("workload %s: %w", c.Workload, err)
	}
	return nil
}

// usable is how many CPUs a cell's instances may use, besides a limit of time.
func (q *Question) usable(c study.Cell) (int, error) {
	if c.Limits.CPUSet != "" {
		cpus, err := sys.ParseCPUs(c.Limits.CPUSet)
		return len(cpus), err
	}
	cpus, err := q.Machine.CPUs()
	return len(cpus), err
}

// NetworkOf is a level's network as a driver takes it.
func NetworkOf(n *study.Network) driver.Network {
	if n == nil {
		return driver.Network{}
	}
	return driver.Network{Containers: n.Containers, Neighbours: n.Neighbours, Others: n.Others, Pairs: n.Pairs,
		Chatter: n.Chatter, MTU: n.MTU, Rules: n.Rules, Qdisc: n.Qdisc, Offload: n.Offload, RPS: n.RPS, Limit: n.Limit, Range: n.Range, Pin: n.Pin}
}

// verbs skips a cell whose target lacks a verb that the workload does to it.
func verbs(_ context.Context, q *Question, c study.Cell) (Outcome, error) {
	l := q.Job(c).Lifecycle
	if l == nil {
		return Outcome{}, nil
	}
	has := []driver.Verb{}
	if on, ok := driver.As[driver.Controller](q.Targets[c.Target].Driver); ok && !strings.Contains(c.Target, study.PathSign) {
		has = on.Verbs()
	}
	for _, verb := range l.Verbs {
		if !slices.Contains(has, verb) {
			return Outcome{Verdict: Skip, Reason: fmt.Errorf("target %s has no verb %s", c.Target, verb)}, nil
		}
	}
	return Outcome{}, nil
}

// comparisons refuses a run of which paths and verbs leave nothing but controls.
func comparisons(_ context.Context, q *Question) ([]Outcome, error) {
	compared := func(c study.Cell) bool { return !c.Control && !c.AA }
	lost := q.skippedBy(nameBoots, nameNetwork, nameVerbs)
	if len(lost) == 0 || slices.ContainsFunc(q.Cells, compared) {
		return nil, nil
	}
	if len(q.Cells) == 0 || slices.ContainsFunc(lost, func(s skipped) bool { return compared(s.cell) }) {
		return refuse(fmt.Errorf("nothing is left to measure: %w", lost[len(lost)-1].reason)), nil
	}
	return nil, nil
}

// controls refuses a cell whose control cannot be measured: on its path, or with its verbs.
func controls(_ context.Context, q *Question) ([]Outcome, error) {
	without := map[string]error{}
	for _, s := range q.skippedBy(nameBoots, nameNetwork, nameVerbs) {
		if s.cell.Control {
			without[s.cell.Group] = s.reason
		}
	}
	for _, c := range q.Cells {
		if err := without[c.Group]; err != nil {
			return refuse(fmt.Errorf("cell %s: its control cannot be measured: %w", c.ID, err)), nil
		}
	}
	return nil, nil
}

// ownMachine refuses a workload that changes the whole machine where that is this
// one.
func ownMachine(_ context.Context, q *Question, c study.Cell) (Outcome, error) {
	if !q.Job(c).OwnMachine || q.Targets[c.Target].Facts.Notes[driver.NoteAccel] != "" {
		return Outcome{}, nil
	}
	return Outcome{Verdict: Refuse, Reason: fmt.Errorf("workload %s changes a setting of the whole machine, and target %s runs on this one: use a virtual machine, such as qemu/microvm", c.Workload, c.Target)}, nil
}

// dockerHosts refuses a payload that starts containers itself where the target is
// not a machine with a Docker, or where its cell asks for what the payload cannot be
// given. Each target's Docker is proven once.
func dockerHosts(ctx context.Context, q *Question) ([]Outcome, error) {
	proven := map[string]bool{}
	for _, c := range q.Cells {
		if !q.Job(c).Beside {
			continue
		}
		h, ok := driver.As[driver.Hoster](q.Targets[c.Target].Driver)
		switch {
		case !ok || strings.Contains(c.Target, study.PathSign): // its containers would not be on the path
			return refuse(fmt.Errorf("workload %s starts containers itself, and target %s has no Docker of its own: use host, vm/stock or vm/trimmed", c.Workload, c.Target)), nil
		case c.Copies > 1 || c.Limits.CPUs > 0 || c.Limits.CPUSet != "" || c.Limits.Memory > 0 || c.Limits.Pids > 0:
			return refuse(fmt.Errorf("workload %s uses the whole machine of its target: remove the limits, and run one instance", c.Workload)), nil
		case proven[c.Target]:
			continue
		}
		proven[c.Target] = true
		if err := h.CheckHost(ctx); err != nil {
			err = fmt.Errorf("target %s: %w", c.Target, err)
			if cannot(err) {
				return refuse(err), nil
			}
			return nil, err
		}
	}
	return nil, nil
}
