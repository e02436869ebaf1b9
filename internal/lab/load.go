package lab

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/hostinfo"
	"github.com/tarelab/tare/internal/probe/containers"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/store"
	"github.com/tarelab/tare/internal/study"
	"github.com/tarelab/tare/internal/workload"
	"github.com/tarelab/tare/published"
)

// kept parses the output of a payload that tells a series, and keeps it with the run.
func kept(run *store.Run, seq int, stdout []byte, parse func([]byte) ([]sample.Value, error)) ([]sample.Value, error) {
	values, err := parse(stdout)
	if err != nil {
		return nil, err
	}
	if err := run.KeepSeries(seq, stdout); err != nil {
		return nil, driver.Labf("%w", err)
	}
	return values, nil
}

// seriesClaims says what the containers of a run used over time: of the workload
// that is their load, or those that tare watch recorded.
func seriesClaims(run *store.Run, claims *analysis.Claims) error {
	m := run.Manifest()
	if m.Study.ID == WatchStudy {
		return watchedClaims(run, claims)
	}
	cells := map[string]study.Cell{}
	for _, c := range m.Cells {
		if i := slices.IndexFunc(m.Study.Workloads, func(w study.Workload) bool { return w.Name == c.Workload }); i >= 0 && m.Study.Workloads[i].Kind == workload.KindLoad {
			cells[c.ID] = c
		}
	}
	by := map[string][]analysis.WatchedTrial{}
	for r, err := range run.Records() {
		if err != nil {
			return err
		}
		c, ok := cells[r.Cell]
		if !ok || r.Failure != nil || r.Block < 0 {
			continue
		}
		t, err := watchedTrial(run, r.Seq, c.Target)
		if err != nil {
			return fmt.Errorf("series of trial %d (%s): %w", r.Seq, r.Cell, err)
		}
		by[c.Target] = append(by[c.Target], t)
	}
	var trials []analysis.WatchedTrial
	for _, c := range m.Cells { // in the order of targets
		trials = append(trials, by[c.Target]...)
		delete(by, c.Target)
	}
	if len(trials) == 0 {
		return nil
	}
	d, err := published.LoadAs[*published.ContainerVMTrim](trimPublished)
	if err != nil {
		return err
	}
	claims.Series = analysis.Series(trials, d)
	return nil
}

// watchedTrial reads what one trial's containers used.
func watchedTrial(run *store.Run, seq int, on string) (analysis.WatchedTrial, error) {
	t := analysis.WatchedTrial{Target: on}
	text, _, err := run.Series(seq)
	if err != nil {
		return t, err
	}
	l, err := workload.ParseLoad(text)
	for _, name := range sample.LoadContainers {
		w := analysis.WatchedContainer{ID: name, Name: name}
		for _, p := range l.Series[name] {
			w.Points = append(w.Points, analysis.Usage{At: p.At, CPU: p.CPU, Memory: p.Memory, Load: p.Runnable, Read: p.Read, Written: p.Written, Received: p.Received, Sent: p.Sent})
		}
		t.Containers = append(t.Containers, w)
	}
	return t, err
}

// WatchStudy is the id of runs that tare watch records: they have no trials.
const WatchStudy = "watch"

// RecordWatch makes a run for the readings of a watch.
func RecordWatch(config Config) (*store.Run, error) {
	return store.Create(config.StateDir, store.Manifest{Tool: config.Version, Command: config.Command, Host: hostinfo.Gather(),
		Study: study.Study{ID: WatchStudy, Title: "Containers over time", Question: "What did each container use, and when?"}.WithDefaults()})
}

// watchedClaims are of a run that tare watch recorded.
func watchedClaims(run *store.Run, claims *analysis.Claims) error {
	text, _, err := run.Series(0)
	if err != nil {
		return err
	}
	var order []string
	by := map[string]*analysis.WatchedContainer{}
	text = text[:bytes.LastIndexByte(text, '\n')+1] // the rest is of a reading that was cut off
	for line := range bytes.Lines(text) {
		var p containers.Point
		if err := json.Unmarshal(line, &p); err != nil {
			return fmt.Errorf("a recorded reading: %w", err)
		}
		if by[p.ID] == nil {
			by[p.ID] = &analysis.WatchedContainer{ID: p.ID, Name: p.Name}
			order = append(order, p.ID)
		}
		by[p.ID].Points = append(by[p.ID].Points, analysis.Usage{At: p.At, CPU: p.CPU, Memory: float64(p.Memory), Load: float64(p.Runnable),
			Read: p.Read, Written: p.Written, Received: p.Received, Sent: p.Sent})
	}
	var all []analysis.WatchedContainer
	for _, id := range order {
		all = append(all, *by[id])
	}
	claims.Series = analysis.Series([]analysis.WatchedTrial{{Containers: all}}, nil)
	return nil
}
