package containervmtrim

import (
	"slices"

	"github.com/tarelab/tare/internal/claim"
	"github.com/tarelab/tare/internal/finding"
	"github.com/tarelab/tare/internal/kerneltools/bootstudy"
	"github.com/tarelab/tare/published"
)

// claimsOf judges what the thesis concludes, and asks it of every trimmed target.
func claimsOf(c *description) ([]finding.Claim, error) {
	if !c.Trims {
		return nil, nil
	}
	numbers, err := published.Cells(name, publishedFile)
	if err != nil {
		return nil, err
	}
	for _, s := range c.published.CostliestSteps {
		numbers["steps."+s.Line] = s.Took
	}
	all, err := claim.Read(claimsFile, numbers)
	if err != nil {
		return nil, err
	}
	var targets []claim.Target
	for _, target := range c.Targets {
		if target != c.Control {
			targets = append(targets, claim.Target{Name: target, Cells: claim.Of(c.cells(target))})
		}
	}
	return all.Judge(nil, targets...), nil
}

// cells are a trimmed target's speedups, and the lines of its log and the control's.
func (c *description) cells(target string) map[string]claim.Value {
	cells := map[string]claim.Value{}
	for _, s := range c.Spans {
		result := publishedAs[s.Name]
		if e, ok := s.Speedup[target]; ok && result != "" {
			v := claim.Value{Estimate: e, Refused: c.Refused != ""}
			for _, before := range []string{"before", "before_in_table_4_1"} {
				cells["results."+result+"."+before+" / results."+result+".after"] = v
			}
		}
	}
	for part, name := range map[string]string{"SELinux": "SELinux", "RTC": "RTC", "USB": "USB", "parport": "parallel port"} {
		before := c.lines(name, c.Control)
		if before == 0 || !c.logged(target) {
			continue // there was nothing to leave out
		}
		cells["evidence.before."+part] = claim.Exactly(float64(before))
		cells["evidence.after."+part] = claim.Exactly(float64(c.lines(name, target)))
	}
	return cells
}

// lines are those of a part of the kernel in a target's log.
func (c *description) lines(part, target string) int {
	i := slices.IndexFunc(c.Causes, func(s bootstudy.Subsystem) bool { return s.Name == part })
	if i < 0 {
		return 0
	}
	return c.Causes[i].Lines[target]
}

// logged reports whether a boot of the target was kept.
func (c *description) logged(target string) bool {
	return slices.ContainsFunc(c.Profiles, func(p bootstudy.Profile) bool { return p.Target == target })
}
