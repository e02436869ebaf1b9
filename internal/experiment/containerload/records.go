package containerload

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/tarelab/tare/internal/experiment"
	"github.com/tarelab/tare/internal/limit"
	"github.com/tarelab/tare/internal/probe/containers"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/study"
	"github.com/tarelab/tare/internal/workload"
)

// trialsOf are the trials of the load that gave samples, in the order of targets.
func trialsOf(run experiment.Run) ([]trial, error) {
	m := run.Manifest()
	loads := map[string]bool{}
	for _, w := range m.Study.Workloads {
		loads[w.Name] = isLoad(w)
	}
	cells := map[string]study.Cell{}
	for _, c := range m.Cells {
		if loads[c.Workload] {
			cells[c.ID] = c
		}
	}
	by := map[string][]trial{}
	for r, err := range run.Records() {
		if err != nil {
			return nil, err
		}
		c, ok := cells[r.Cell]
		if !ok || r.Failure != nil || r.Block < 0 {
			continue
		}
		t, err := trialOf(run, r.Seq, c.Target)
		if err != nil {
			return nil, fmt.Errorf("readings of trial %d (%s): %w", r.Seq, r.Cell, err)
		}
		if n := len(by[c.Target]); n > 0 { // curves are of the last trial alone
			for i := range by[c.Target][n-1].Containers {
				by[c.Target][n-1].Containers[i].Points = nil
			}
		}
		by[c.Target] = append(by[c.Target], t)
	}
	var trials []trial
	for _, c := range m.Cells {
		trials = append(trials, by[c.Target]...)
		delete(by, c.Target)
	}
	return trials, nil
}

// trialOf reads what one trial's containers used.
func trialOf(run experiment.Run, seq int, target string) (trial, error) {
	t := trial{Target: target}
	text, _, err := run.Series(seq)
	if err != nil {
		return t, err
	}
	l, err := workload.ParseLoad(text)
	if err != nil {
		return t, err
	}
	for _, name := range sample.LoadContainers {
		points := make([]usage, len(l.Series[name]))
		for i, p := range l.Series[name] {
			points[i] = usage{At: p.At, CPU: p.CPU, Memory: p.Memory, Load: p.Runnable, Read: p.Read, Written: p.Written, Received: p.Received, Sent: p.Sent}
		}
		t.Containers = append(t.Containers, reduced(name, name, points))
	}
	return t, nil
}

// recorded are the containers of a run that tare watch recorded.
func recorded(run experiment.Run) ([]watched, error) {
	text, _, err := run.Series(0)
	if err != nil {
		return nil, err
	}
	var order []containers.Point // the first of each
	by := map[string][]usage{}
	readings := 0
	text = text[:bytes.LastIndexByte(text, '\n')+1] // the rest is a reading that was cut off
	for line := range bytes.Lines(text) {
		var p containers.Point
		if err := json.Unmarshal(line, &p); err != nil {
			return nil, fmt.Errorf("a recorded reading: %w", err)
		}
		readings++
		if by[p.ID] == nil {
			order = append(order, p)
		}
		if err := errors.Join(limit.RunSeries.CheckItems(readings), limit.RunWatched.CheckItems(len(order))); err != nil {
			return nil, err
		}
		by[p.ID] = append(by[p.ID], usage{At: p.At, CPU: p.CPU, Memory: float64(p.Memory), Load: float64(p.Runnable),
			Read: p.Read, Written: p.Written, Received: p.Received, Sent: p.Sent})
	}
	var all []watched
	for _, p := range order {
		all = append(all, reduced(p.ID, p.Name, by[p.ID]))
	}
	return all, nil
}
