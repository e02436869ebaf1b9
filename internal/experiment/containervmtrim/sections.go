package containervmtrim

import (
	"slices"

	"github.com/tarelab/tare/internal/finding"
	"github.com/tarelab/tare/internal/kerneltools/bootstudy"
)

// section is boots of container hosts before and after trimming, beside the
// published ones.
func section(c *description, claims []finding.Claim) finding.Section {
	s := finding.Section{
		ID: name, Title: "Before and after trimming, published beside this machine", Findings: c.Findings,
		Figures: slices.Concat(timelines(c), costFigures(c), barFigures(c)), Claims: claims, Note: note(c), Alone: true, Data: c,
	}
	switch {
	case len(c.Targets) == 1:
		s.Title = "Boots of " + c.Targets[0]
	case !c.Trims:
		s.Title = "Boots beside that of " + c.Control
	}
	s.Headline = c.Findings[:min(3, len(c.Findings))]
	if len(c.Targets) > 1 {
		s.Tables = append(s.Tables, speedupsTable(c))
	}
	s.Tables = append(s.Tables, timesTable(c), meaningsTable(c), partsTable(c))
	if g := proofTable(c); len(g.Rows) > 0 {
		s.Tables = append(s.Tables, g)
	}
	if len(c.Profiles) > 0 {
		s.Tables = append(s.Tables, phasesTable(c), linesTable(c))
		if g := toldTable(c); len(g.Rows) > 0 {
			s.Tables = append(s.Tables, initcallsTable(c), g)
		}
		for _, p := range c.Profiles[:min(2, len(c.Profiles))] {
			s.Tables = append(s.Tables, stepsTable(p))
			if len(p.Calls) > 0 {
				s.Tables = append(s.Tables, callsTable(p))
			}
			if len(p.Symbols) > 0 {
				s.Tables = append(s.Tables, symbolsTable(p))
			}
		}
	}
	return s
}

// note says what the numbers are.
func note(c *description) string {
	text := "± is half the 95 % interval; ratios are taken within blocks. All stretches are differences of marks on the host's clock; phases and steps are one kept boot's, by its kernel's own clock; "
	if c.Whole == bootstudy.Until {
		return text + "whether the machines ran under KVM or were emulated stands among the targets' facts."
	}
	return text + "initcalls and modules are told by a boot of their own, whose time counts for nothing else. " +
		"Whether the machines ran under KVM or were emulated stands among the targets' facts. Published: seconds of another machine and another kernel; only their ratios compare. Source: " + c.Citation
}
