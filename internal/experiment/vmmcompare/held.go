package vmmcompare

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/quantity"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/stats"
	"github.com/tarelab/tare/internal/study"
)

// The workloads whose trials are held and counted: after their boot, and after a
// load that has given its memory back.
const (
	footprintWorkload = "footprint"
	loadedWorkload    = "footprint-load"
)

// heldMetrics are what is told of an instance that is held; PayloadPSS is the one
// that a level's effect is judged by.
var heldMetrics = []string{sample.PayloadRSS, sample.PayloadPSS, sample.GuestResident, sample.VMMOverhead, sample.Mapped, sample.Dirty, sample.VMMThreads, sample.VMMFiltered}

// heldInstance is what one instance weighs that is held.
type heldInstance struct {
	Target string                    `json:"target"`
	Level  string                    `json:"level,omitempty"` // of limits, by name
	Loaded bool                      `json:"loaded"`          // after its load, else after its boot
	Here   map[string]stats.Estimate `json:"here"`            // medians by metric, bytes for each instance
}

// factor is what a level that gives something to guests changes, beside the
// level that differs from it in nothing else.
type factor struct {
	Target string          `json:"target"`
	What   string          `json:"what"` // "free page reporting", "KSM"
	Level  string          `json:"level"`
	Base   string          `json:"base"`
	Loaded bool            `json:"loaded"`
	Effect analysis.Effect `json:"effect"` // of the memory, shared pages in proportion: Level by Base, within blocks
}

// heldCells are the cells of the footprints, idle before loaded.
func (s reader) heldCells() []study.Cell {
	var out []study.Cell
	for _, workload := range []string{footprintWorkload, loadedWorkload} {
		for _, c := range s.in.Cells {
			if c.Workload == workload && !c.AA && s.in.Measured(c.ID) {
				out = append(out, c)
			}
		}
	}
	return out
}

func (s reader) held() []heldInstance {
	var out []heldInstance
	for _, c := range s.heldCells() {
		h := heldInstance{Target: c.Target, Level: c.Environment, Loaded: c.Workload == loadedWorkload, Here: map[string]stats.Estimate{}}
		for _, m := range heldMetrics {
			if e, ok := s.estimate(s.in.Series(c.ID, m), "held", c.ID, m); ok {
				h.Here[m] = e
			}
		}
		if len(h.Here) > 0 {
			out = append(out, h)
		}
	}
	return out
}

// factors set each level that gives something to guests against the level without
// it, by the rules of the run's tables: a level for all of them together, and both
// levels' refusal.
func (s reader) factors() []factor {
	var out []factor
	var found []*analysis.Contrast
	cells := s.heldCells()
	for _, c := range cells {
		i := slices.IndexFunc(cells, func(b study.Cell) bool { return isBase(b, c) })
		if i < 0 || !virtual(c.Target) {
			continue
		}
		base := cells[i]
		contrast := s.in.Contrast(s.tables, analysis.Place{Cell: c.ID, Group: c.Group, Metric: sample.PayloadPSS}, analysis.Place{Cell: base.ID, Group: base.Group, Metric: sample.PayloadPSS})
		if contrast == nil {
			continue
		}
		out = append(out, factor{Target: c.Target, What: given(c.Limits.Guest), Level: c.Environment, Base: base.Environment, Loaded: c.Workload == loadedWorkload})
		found = append(found, contrast)
	}
	analysis.JudgeTogether(found)
	for i := range found {
		out[i].Effect = *found[i].Effect()
	}
	return out
}

// isBase reports whether a cell differs from another in what it gives to guests
// alone, and gives nothing.
func isBase(base, c study.Cell) bool {
	if base.Target != c.Target || base.Workload != c.Workload || base.Copies != c.Copies || base.Limits.Guest != nil || c.Limits.Guest == nil {
		return false
	}
	a, b := base.Limits, c.Limits
	a.Name, b.Name, b.Guest = "", "", nil
	return reflect.DeepEqual(a, b)
}

// given names what guests get.
func given(g *study.Guest) string {
	var parts []string
	for _, part := range []struct {
		has  bool
		name string
	}{
		{g.PageReporting, "free page reporting"}, {g.KSM, "KSM"}, {g.HugePages, "huge pages"}, {g.IOThread, "a thread for the disks"},
		{g.Vhost, "vhost-net"}, {g.VirtioFS, "virtio-fs"}, {g.Balloon > 0, "a balloon"}, {g.Hotplug > 0, "memory hotplug"},
	} {
		if part.has {
			parts = append(parts, part.name)
		}
	}
	return strings.Join(parts, " and ")
}

// heldFindings say what a VMM holds beside its guest's memory, and what a level
// changes.
func heldFindings(c *comparison) []string {
	var out []string
	atLevel := func(name string) string {
		if !c.Levels() {
			return ""
		}
		return " at the level " + name
	}
	told := map[string]bool{}
	for _, h := range c.Held {
		if h.Loaded || told[h.Target] {
			continue // the first level stands for the others, which the table has
		}
		beside, ok := h.Here[sample.VMMOverhead]
		if !ok && !virtual(h.Target) {
			continue
		}
		told[h.Target] = true
		if !ok {
			out = append(out, fmt.Sprintf("memory after boot%s: what %s holds for its guest cannot be told from its own, because no mappings of its process have the guest's size.", atLevel(h.Level), c.under(h.Target)))
			continue
		}
		guest := h.Here[sample.GuestResident]
		out = append(out, fmt.Sprintf("memory after boot%s: %s holds %.1f MiB%s beside %.1f MiB%s of its guest's memory.", atLevel(h.Level), c.under(h.Target),
			beside.Value/(1<<20), quantity.Span(beside, "%.1f", 1./(1<<20)), guest.Value/(1<<20), quantity.Span(guest, "%.1f", 1./(1<<20))))
	}
	for _, f := range c.Factors {
		when := "after boot"
		if f.Loaded {
			when = "after the load"
		}
		out = append(out, fmt.Sprintf("%s, memory %s: %s.", f.What, when, toldEffect(f.Effect, c.under(f.Target)+atLevel(f.Level), "the same"+atLevel(f.Base))))
	}
	return out
}

// Levels reports whether instances were held at more than one level.
func (c *comparison) Levels() bool {
	return slices.ContainsFunc(c.Held, func(h heldInstance) bool { return h.Level != c.Held[0].Level })
}
