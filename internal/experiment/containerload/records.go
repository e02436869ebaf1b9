package containerload

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/tarelab/tare/internal/experiment"
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
	for _, name := range sample.LoadContainers {
		w := watched{ID: name, Name: name}
		for _, p := range l.Series[name] {
			w.Points = append(w.Points, usage{At: p.At, CPU: p.CPU, Memory: p.Memory, Load: p.Runnable, Read: p.Read, Written: p.Written, Received: p.Received, Sent: p.Sent})
		}
		t.Containers = append(t.Containers, w)
	}
	return t, err
}

// recorded are the containers of a run that tare watch recorded.
func recorded(run experiment.Run) ([]watched, error) {
	text, _, err := run.Series(0)
	if err != nil {
		return nil, err
	}
	var order []string
	by := map[string]*watched{}
	text = text[:bytes.LastIndexByte(text, '\n')+1] // the rest is a reading that was cut off
	for line := range bytes.Lines(text) {
		var p containers.Point
		if err := json.Unmarshal(line, &p); err != nil {
			return nil, fmt.Errorf("a recorded reading: %w", err)
		}
		if by[p.ID] == nil {
			by[p.ID] = &watched{ID: p.ID, Name: p.Name}
			order = append(order, p.ID)
		}
		by[p.ID].Points = append(by[p.ID].Points, usage{At: p.At, CPU: p.CPU, Memory: float64(p.Memory), Load: float64(p.Runnable),
			Read: p.Read, Written: p.Written, Received: p.Received, Sent: p.Sent})
	}
	var all []watched
	for _, id := range order {
		all = append(all, *by[id])
	}
	return all, nil
}
