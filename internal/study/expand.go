package study

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// LeftOut is a target that the study names and the machine does not have.
type LeftOut struct {
	Target   string
	Optional bool // the study allows it; else it must not start
}

// Expand turns the study's factors into cells: target x workload x limits x
// copies, with one control in each group and, unless AA is off, its twin.
// available are the drivers that work here, in the order in which "all" shows
// them. Cells stand group by group, the control first, then its twin, then the
// other targets in the study's order. A study's control is measured even when
// its targets do not name it. The study must be valid.
func (s Study) Expand(available []string) ([]Cell, []LeftOut) {
	targets, left := s.resolve(available)
	var cells []Cell
	for _, w := range s.Workloads {
		if w.Extra {
			continue
		}
		for _, l := range firstOf(s.Environments, []Environment{{}}) {
			if len(w.Environments) == 0 && l.Extra || len(w.Environments) > 0 && !slices.Contains(w.Environments, l.Name) {
				continue
			}
			for _, n := range s.levelsOfCopies(w) {
				for _, c := range s.levelsOfConcurrency(w) {
					cell := Cell{Workload: w.Name, Environment: l.Name, Limits: l, Copies: n, Concurrency: c, Blocks: s.blocksOf(w, n)}
					group := s.group(targets, w, cell)
					cells = append(cells, group...)
					for _, probe := range s.Probes {
						if n >= s.WatchedFrom {
							cells = append(cells, s.watched(group, probe)...)
						}
					}
				}
			}
		}
	}
	return cells, left
}

// copiesOf are a workload's levels of instances: its own, or the study's.
func (s Study) copiesOf(w Workload) []int { return firstOf(w.Copies, s.Copies, []int{1}) }

func (s Study) levelsOfConcurrency(w Workload) []int {
	return firstOf(w.Concurrency, s.Concurrency, []int{0})
}

// RoundsOf is how many rounds a block has of a workload; 0 for a window of its own.
func (s Study) RoundsOf(w Workload) int {
	if w.Rounds != nil {
		return *w.Rounds
	}
	return s.Rounds
}

// blocksOf is how many blocks hold a cell of a workload with so many copies; 0 is
// all.
func (s Study) blocksOf(w Workload, copies int) int {
	if w.Blocks > 0 && w.Blocks < s.Blocks {
		return w.Blocks
	}
	if s.FewerBlocks.Blocks > 0 && copies >= s.FewerBlocks.From && s.FewerBlocks.Blocks < s.Blocks {
		return s.FewerBlocks.Blocks
	}
	return 0
}

// levelsOfCopies are those of the control and of the others, ascending where
// the control has some of its own.
func (s Study) levelsOfCopies(w Workload) []int {
	levels := s.copiesOf(w)
	if len(s.ControlCopies) == 0 {
		return levels
	}
	levels = append(slices.Clone(levels), s.ControlCopies...)
	slices.Sort(levels)
	return slices.Compact(levels)
}

// at says whether a target is measured with n copies of a workload.
func (s Study) at(target string, w Workload, n int) bool {
	if slices.Contains(w.Except, target) {
		return false
	}
	if target == s.Control && len(s.ControlCopies) > 0 {
		return slices.Contains(s.ControlCopies, n)
	}
	return slices.Contains(s.copiesOf(w), n)
}

// firstOf is the first list that is not empty.
func firstOf[T any](lists ...[]T) []T {
	for _, l := range lists {
		if len(l) > 0 {
			return l
		}
	}
	return nil
}

// resolve lists the targets to measure: the control first, "all" replaced,
// what is not available taken out.
func (s Study) resolve(available []string) (targets []string, left []LeftOut) {
	add := func(name string) {
		if slices.Contains(targets, name) {
			return
		}
		if slices.Contains(available, name) {
			targets = append(targets, name)
			return
		}
		l := LeftOut{name, slices.Contains(s.Optional, name)}
		if !slices.Contains(left, l) {
			left = append(left, l)
		}
	}
	add(s.Control)
	for _, name := range append(slices.Clone(s.Targets), s.Optional...) {
		if name != AllTargets {
			add(name)
			continue
		}
		for _, a := range available {
			if !variant(a) {
				add(a)
			}
		}
	}
	return targets, left
}

// group makes the cells that differ from the given one in their target alone.
func (s Study) group(targets []string, w Workload, cell Cell) []Cell {
	cell.Group = cell.Workload + suffix(cell.Limits, cell.Copies)
	if cell.Concurrency > 0 {
		cell.Group += fmt.Sprintf("+c%d", cell.Concurrency)
	}
	var cells []Cell
	for _, t := range targets {
		if !s.at(t, w, cell.Copies) || len(w.Targets) > 0 && t != s.Control && !slices.Contains(w.Targets, t) {
			continue
		}
		c := cell
		c.Target, c.ID = t, t+"/"+c.Group
		c.Control = t == s.Control
		if w.Runs > 1 {
			c.Runs = w.Runs
		}
		cells = append(cells, c)
		if c.Control && (s.AA == nil || *s.AA) {
			c.Control, c.AA, c.ID = false, true, t+"~aa/"+c.Group
			cells = append(cells, c)
		}
	}
	return cells
}

// watched are the twins of a group's cells that a probe watches. The control's A/A
// twin has one where claims are made of the waits themselves.
func (s Study) watched(group []Cell, probe string) []Cell {
	var cells []Cell
	for _, c := range group {
		if c.AA && !s.judgesWaits() {
			continue
		}
		c.Probe, c.Unwatched = probe, c.ID
		if n := s.WatchedBlocks; n > 0 && (c.Blocks == 0 || n < c.Blocks) {
			c.Blocks = n
		}
		c.Group += "~" + probe
		c.ID += "~" + probe
		cells = append(cells, c)
	}
	return cells
}

// judgesWaits says whether a verdict hangs on what the lock probe sees.
func (s Study) judgesWaits() bool {
	return slices.ContainsFunc(s.Interventions, func(v Intervention) bool { return v.Wait != "" })
}

// suffix names the environment and the instances in a cell's id: "+cpus=2+x4", or
// "+1cpu-1copy+x4" where the level has a name; "" for the levels that a study has by
// default. A name holds no "+", so that ids stay unique.
func suffix(l Environment, copies int) string {
	var b strings.Builder
	if l.Name != "" {
		b.WriteString("+" + l.Name)
		l = Environment{} // the name stands for all of them
	}
	if l.CPUs > 0 {
		b.WriteString("+cpus=" + strconv.FormatFloat(l.CPUs, 'g', -1, 64))
	}
	if l.CPUSet != "" {
		b.WriteString("+cpuset=" + l.CPUSet)
	}
	if l.Mems != "" {
		b.WriteString("+mems=" + l.Mems)
	}
	if l.Shares > 0 {
		fmt.Fprintf(&b, "+shares=%d", l.Shares)
	}
	if l.Idle {
		b.WriteString("+idle")
	}
	if l.Memory > 0 {
		b.WriteString("+memory=" + formatSize(l.Memory))
	}
	if l.Pids > 0 {
		fmt.Fprintf(&b, "+pids=%d", l.Pids)
	}
	if copies > 1 {
		fmt.Fprintf(&b, "+x%d", copies)
	}
	return b.String()
}

// formatSize writes bytes in the largest power of 1024 that divides them, so
// that ParseSize reads the same number back.
func formatSize(bytes int64) string {
	for _, unit := range []string{"TiB", "GiB", "MiB", "KiB"} {
		if factor := int64(sizeUnits[unit]); bytes >= factor && bytes%factor == 0 {
			return fmt.Sprintf("%d%s", bytes/factor, unit)
		}
	}
	return fmt.Sprintf("%dB", bytes)
}

// Wants reports whether the study asks for a target, by name or by "all", so
// that it is worth finding out whether the target works.
func (s Study) Wants(name string) bool {
	if name == s.Control || slices.Contains(s.loadTargets(), name) || slices.Contains(s.Targets, name) || slices.Contains(s.Optional, name) {
		return true
	}
	return slices.Contains(s.Targets, AllTargets) && !variant(name)
}

// HasLoad reports whether something runs next to the instances of some level.
func (s Study) HasLoad() bool { return len(s.loadTargets()) > 0 }

// loadTargets are the targets that the loads of levels run on, each once.
func (s Study) loadTargets() []string {
	var names []string
	for _, l := range slices.Concat(s.Environments, s.OptionalEnvironments) {
		if l.Load != nil && !slices.Contains(names, l.Load.On()) {
			names = append(names, l.Load.On())
		}
	}
	return names
}

// Required are the targets that must run: the control, and those that are named and
// not optional.
func (s Study) Required() []string {
	return slices.DeleteFunc(slices.Concat([]string{s.Control}, s.Targets), func(name string) bool {
		return name == AllTargets || slices.Contains(s.Optional, name)
	})
}

// variant tells a name that "all" leaves out.
func variant(target string) bool { return strings.ContainsAny(target, "/"+PathSign) }
