package store

import (
	"fmt"
	"math"
	"strings"
	"unicode"

	"github.com/tarelab/tare/internal/study"
)

// Bounds of what a manifest may ask a reader to make room for. A study cannot be
// larger (internal/study); watched twins and A/A twins come on top of its cells.
const (
	maxCells     = 100_000
	maxTrials    = 100_000_000
	maxBlocks    = 1_000_000
	maxInstances = 4096
	maxName      = 512 // bytes
)

// validate refuses a manifest that no tare has written: one may come from anybody, and
// what reads it makes room by its numbers.
func (m Manifest) validate() error {
	s := m.Study
	if m.Trials < 0 || m.Trials > maxTrials {
		return fmt.Errorf("%d trials", m.Trials)
	}
	if s.Blocks < 0 || s.Blocks > maxBlocks {
		return fmt.Errorf("%d blocks", s.Blocks)
	}
	if len(m.Cells) > maxCells {
		return fmt.Errorf("%d cells", len(m.Cells))
	}
	if !fraction(s.Alpha) || !(s.Margin >= 0) || math.IsInf(s.Margin, 0) || s.Timeout < 0 {
		return fmt.Errorf("alpha %g, margin %g, timeout %v", s.Alpha, s.Margin, s.Timeout)
	}
	if err := plainName("id", m.ID); err != nil {
		return err
	}
	if strings.ContainsRune(m.ID, '/') || strings.ContainsRune(s.ID, '/') {
		return fmt.Errorf("the id %q has a slash", m.ID)
	}
	if err := plainName("study", s.ID); err != nil {
		return err
	}
	seen := make(map[string]bool, len(m.Cells))
	for i, c := range m.Cells {
		if err := validCell(c); err != nil {
			return fmt.Errorf("cells[%d]: %w", i, err)
		}
		if seen[c.ID] {
			return fmt.Errorf("cells[%d]: the id %q is there twice", i, c.ID)
		}
		seen[c.ID] = true
	}
	for workload, metrics := range m.Metrics {
		if len(metrics) == 0 {
			return fmt.Errorf("metrics of %q: none", workload)
		}
	}
	return nil
}

func validCell(c study.Cell) error {
	if c.ID == "" {
		return fmt.Errorf("no id")
	}
	for what, name := range map[string]string{"id": c.ID, "target": c.Target, "workload": c.Workload, "group": c.Group} {
		if err := plainName(what, name); err != nil {
			return err
		}
	}
	if c.Copies < 0 || c.Copies > maxInstances || c.Concurrency < 0 || c.Concurrency > maxInstances || c.Blocks < 0 || c.Blocks > maxBlocks || c.Runs < 0 || c.Runs > study.MaxRuns {
		return fmt.Errorf("%d instances, concurrency %d, %d blocks, %d runs", c.Copies, c.Concurrency, c.Blocks, c.Runs)
	}
	l := c.Limits
	if !(l.CPUs >= 0) || math.IsInf(l.CPUs, 0) || l.Memory < 0 || l.Pids < 0 {
		return fmt.Errorf("limits of %g CPUs, %d bytes, %d processes", l.CPUs, l.Memory, l.Pids)
	}
	return nil
}

func fraction(f float64) bool { return f >= 0 && f <= 1 } // not NaN

// plainName refuses what cannot be shown as one line.
func plainName(what, name string) error {
	if len(name) > maxName || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return fmt.Errorf("%s %.40q", what, name)
	}
	return nil
}

// planned is how many trials a manifest's plan has: schedule.PlanFrom makes so many.
func (m Manifest) planned() int64 {
	cold := int64(1)
	if m.Study.Cold != nil && !*m.Study.Cold {
		cold = 0
	}
	trials := int64(0)
	for _, c := range m.Cells {
		blocks := int64(m.Study.Blocks)
		if c.Blocks > 0 {
			blocks = min(blocks, int64(c.Blocks))
		}
		trials += blocks * int64(max(1, c.Runs))
		if c.Set == "" { // a set has no cold trial
			trials += cold
		}
	}
	return trials
}

// CanGoOn refuses a plan that does not fit its manifest, before anything is made for
// it: trials of which there would be more than the manifest counts, and cells whose
// workload or metrics are missing.
func (m Manifest) CanGoOn() error {
	if n := m.planned(); n != int64(m.Trials) {
		return fmt.Errorf("%s is damaged: its plan has %d trials, and it says %d", manifestFile, n, m.Trials)
	}
	workloads := map[string]bool{}
	for _, w := range m.Study.Workloads {
		workloads[w.Name] = true
	}
	for _, c := range m.Cells {
		if !workloads[c.Workload] || len(m.Metrics[c.Workload]) == 0 {
			return fmt.Errorf("%s is damaged: cell %s has the workload %q, which the study does not have", manifestFile, c.ID, c.Workload)
		}
	}
	return nil
}
