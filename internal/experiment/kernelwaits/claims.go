package kernelwaits

import (
	"slices"

	"github.com/tarelab/tare/internal/claim"
	"github.com/tarelab/tare/internal/finding"
	"github.com/tarelab/tare/published"
)

// claimsOf are the published sentences about cgroups, none next to other churn.
func claimsOf(cells []churnCell, s *source) ([]finding.Claim, error) {
	if !slices.ContainsFunc(cells, func(c churnCell) bool { return c.Kind == churnCgroup }) {
		return nil, nil
	}
	numbers, err := published.Cells(name, publishedFile)
	if err != nil {
		return nil, err
	}
	for _, p := range s.Profile {
		numbers["profile."+p.Symbol+".percent"] = p.Percent
		if p.Self > 0 {
			numbers["profile."+p.Symbol+".self"] = p.Self
		}
	}
	c, err := claim.Read(claimsFile, numbers)
	if err != nil {
		return nil, err
	}
	return c.Judge(nil), nil
}
