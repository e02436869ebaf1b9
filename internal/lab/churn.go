package lab

import (
	"strconv"
	"strings"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/profile"
	"github.com/tarelab/tare/internal/store"
	"github.com/tarelab/tare/internal/study"
	"github.com/tarelab/tare/published"
)

// waitClaims adds what the watched cells waited for, and for the churn workloads
// their curves and the published call tree.
func waitClaims(run *store.Run, in analysis.Input, claims *analysis.Claims) error {
	profiles, unread, err := profilesOf(run)
	if err != nil {
		return err
	}
	claims.Warnings = append(claims.Warnings, unread...)
	merged := map[string]profile.Profile{}
	trials := map[string]int{}
	for cell, all := range profiles {
		merged[cell], trials[cell] = profile.Merge(all), len(all)
	}
	waits, warnings := analysis.WaitsOf(in, merged, trials)
	claims.Waits, claims.Warnings = waits, append(claims.Warnings, warnings...)
	cells := churnCells(run.Manifest())
	if len(cells) == 0 {
		return nil
	}
	source, err := published.LoadAs[*published.ConcurrentStart]("concurrent-start")
	if err != nil {
		return err
	}
	claims.Churn = analysis.ChurnOf(in, cells, merged, source)
	return nil
}

// churnCells are the cells of churn workloads, with their threads.
func churnCells(m store.Manifest) []analysis.ChurnCell {
	byName := map[string]study.Workload{}
	for _, w := range m.Study.Workloads {
		byName[w.Name] = w
	}
	var cells []analysis.ChurnCell
	for _, c := range m.Cells {
		w := byName[c.Workload]
		if !strings.HasPrefix(w.Kind, "churn-") {
			continue
		}
		params := m.Study.ParamsOf(w, c.Limits, func(string) bool { return true })
		threads, err := strconv.Atoi(params["threads"])
		if err != nil {
			threads = 1 // the workload's own default
		}
		cells = append(cells, analysis.ChurnCell{Cell: c, Kind: w.Kind, Threads: threads})
	}
	return cells
}
