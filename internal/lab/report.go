package lab

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/docker/go-units"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/hostinfo"
	"github.com/tarelab/tare/internal/report"
	"github.com/tarelab/tare/internal/store"
	"github.com/tarelab/tare/internal/study"
)

// Report makes the part of a run's report that every run has, and the input that its
// analysis had. experiment.List.Report adds what experiments say.
func Report(run *store.Run) (analysis.Input, report.Input, error) {
	in, err := input(run)
	if err != nil {
		return analysis.Input{}, report.Input{}, err
	}
	claims := analysis.Analyze(in)
	more := salvaged(run)
	if shared := run.Manifest().Host.Shared(); shared != "" {
		more = append(more, shared)
	}
	claims.Warnings = append(claims.Warnings, analysis.Warnings(analysis.General, more...)...)
	out := report.Input{Manifest: run.Manifest(), Claims: claims, Live: in.Live}
	end, over, err := run.End()
	if over {
		out.End = &end
	}
	return in, out, err
}

// shownDamage is how many damaged records a report names.
const shownDamage = 5

// salvaged are the warnings of a run whose damaged records are left out.
func salvaged(run *store.Run) []string {
	damaged := run.Damaged()
	if len(damaged) == 0 {
		return nil
	}
	warnings := []string{"damaged records are left out; this report is of the others"}
	for _, d := range damaged[:min(len(damaged), shownDamage)] {
		warnings = append(warnings, d.Error())
	}
	if len(damaged) > shownDamage {
		warnings = append(warnings, "more records are damaged: see tare verify")
	}
	return warnings
}

// Compare says what changed from run a to each of the others, one by one, and in
// what their surroundings differ.
func Compare(a *store.Run, others ...*store.Run) (report.Input, error) {
	out := report.Input{Manifest: a.Manifest(), Live: a.Live() || slices.ContainsFunc(others, (*store.Run).Live)}
	before, err := input(a)
	if err != nil {
		return report.Input{}, err
	}
	var each []analysis.Claims
	for _, b := range others {
		out.Others = append(out.Others, b.Manifest())
		claims, err := compare(a, before, b)
		if err != nil {
			return report.Input{}, err
		}
		for i := range claims.Warnings {
			if len(others) > 1 {
				claims.Warnings[i].Text = b.Manifest().ID + ": " + claims.Warnings[i].Text
			}
		}
		each = append(each, claims)
	}
	out.Claims = analysis.Together(before, each)
	return out, nil
}

// compare says what changed from run a, whose cells are before's, to run b.
func compare(a *store.Run, before analysis.Input, b *store.Run) (analysis.Claims, error) {
	after, err := input(b)
	if err != nil {
		return analysis.Claims{}, err
	}
	pa, pb := Provenance(a.Manifest()), Provenance(b.Manifest())
	unlike := analysis.Unlike(pa, pb)
	before.Cells, after.Cells = without(before.Cells, unlike), without(after.Cells, unlike)
	claims := analysis.Compare(before, after)
	why := slices.Sorted(maps.Values(unlike))
	switch {
	case len(claims.Comparisons) > 0, len(claims.Failed) > 0 && common(before.Cells, after.Cells):
	case len(unlike) > 0:
		return claims, &InputError{errors.New(strings.Join(why, "; "))}
	default:
		return claims, &InputError{fmt.Errorf("runs %s (study %s) and %s (study %s) have no measured cell in common: compare runs of one study",
			a.Manifest().ID, a.Manifest().Study.ID, b.Manifest().ID, b.Manifest().Study.ID)}
	}
	claims.Surroundings = analysis.Surroundings(pa, pb)
	claims.Warnings = append(analysis.Warnings(analysis.General, why...), claims.Warnings...)
	return claims, nil
}

// common reports whether two runs have a cell in common.
func common(a, b []study.Cell) bool {
	return slices.ContainsFunc(a, func(c study.Cell) bool {
		return slices.ContainsFunc(b, func(d study.Cell) bool { return c.ID == d.ID })
	})
}

// without are the cells of other targets than those that are named.
func without(cells []study.Cell, targets map[string]string) []study.Cell {
	return slices.DeleteFunc(slices.Clone(cells), func(c study.Cell) bool { return targets[c.Target] != "" })
}

func input(run *store.Run) (analysis.Input, error) {
	live := run.Live() // before the records are read: those of a run that ends now are all there
	data, err := run.Load()
	if err != nil {
		return analysis.Input{}, err
	}
	m := run.Manifest()
	blocks, planned, alpha := m.Study.Blocks, m.Trials, m.Study.LastAlpha(m.Study.Blocks)
	end, over, err := run.End()
	if err != nil {
		return analysis.Input{}, err
	}
	if over {
		blocks, planned, alpha = end.Blocks, len(upTo(TrialsOf(m), end.Blocks)), m.Study.LookAlpha(end.Blocks)
		if end.Reason == store.EndBudget {
			alpha = m.Study.LastAlpha(end.Blocks)
		}
	}
	return analysis.Input{
		Run: m.ID, Cells: m.Cells, Metrics: m.Metrics, Data: data,
		Alpha: alpha, Margin: m.Study.Margin, Blocks: blocks, Planned: planned,
		View: m.Study.View, Beside: m.Study.Beside, Seed: m.Seed, Accels: Provenance(m).Accels,
		Emulated: m.Host.Emulated, Evidence: m.Evidence, Live: live,
	}, nil
}

// Provenance is what a run must share with another for their numbers to be compared.
func Provenance(m store.Manifest) analysis.Provenance {
	p := analysis.Provenance{
		Run: m.ID, Kernel: m.Host.Kernel + " " + m.Host.KernelBuild, CPU: m.Host.CPU, CPUs: strconv.Itoa(m.Host.CPUs), Usable: usableCPUs(m.Host),
		Memory: units.BytesSize(float64(m.Host.Memory)), Governor: m.Host.Governor, Clocksource: m.Host.Clocksource, TCP: m.Host.TCPCongestion,
		Host: m.Host.Hostname, User: map[bool]string{true: "root", false: "not root"}[m.Host.Root], Image: m.Image, Tool: m.Tool, Compiler: m.Compiler, Mitigations: m.Host.Mitigations, Targets: map[string]string{},
		Programs: map[string]string{}, Accels: map[string]string{}, Guests: map[string]string{}, Systems: map[string]string{},
	}
	if c := m.Study.Counters; c != nil {
		p.Counters = map[bool]string{true: "counted", false: "left out"}[*c]
	}
	for name, facts := range m.Targets {
		p.Targets[name], p.Programs[name] = facts.Version, facts.Digest
		p.Accels[name], p.Guests[name], p.Systems[name] = facts.Notes[driver.NoteAccel], facts.Notes[driver.NoteGuestKernel], facts.Notes[driver.NoteSystem]
		if m.Guest != nil && p.Accels[name] != "" {
			asked := *m.Guest
			asked.Kernel = "" // that is told by its digest
			p.Asked = asked.String()
		}
	}
	return p
}

// usableCPUs are the CPUs that a run might use, "" where it does not say.
func usableCPUs(h hostinfo.Host) string {
	if h.Usable == 0 {
		return ""
	}
	return strconv.Itoa(h.Usable)
}
