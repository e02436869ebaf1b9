package lab

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/kernel/bootlog"
	"github.com/tarelab/tare/internal/store"
	"github.com/tarelab/tare/published"
)

// trimPublished is the publication that boots of container hosts stand beside.
const trimPublished = "container-vm-trim"

// trimClaims puts a run beside the published boots before and after trimming.
func trimClaims(run *store.Run, claims *analysis.Claims) error {
	m := run.Manifest()
	if m.Study.Published != trimPublished {
		return nil
	}
	d, err := published.LoadAs[*published.ContainerVMTrim](trimPublished)
	if err != nil {
		return err
	}
	in, err := input(run)
	if err != nil {
		return err
	}
	boots, err := bootProfiles(run)
	if err != nil {
		return err
	}
	parts := map[string]map[string]string{}
	for name, facts := range m.Targets {
		parts[name] = facts.Notes
	}
	claims.Trim = analysis.TrimStudy(analysis.TrimInput{Input: in, Control: m.Study.Control, Published: d, Boots: boots, Parts: parts})
	return nil
}

// bootProfiles takes the last console apart that was kept of each target.
func bootProfiles(run *store.Run) (map[string]analysis.TrimBoot, error) {
	target := map[string]string{}
	for _, c := range run.Manifest().Cells {
		target[c.ID] = c.Target
	}
	out := map[string]analysis.TrimBoot{}
	for r, err := range run.Records() {
		if err != nil {
			return nil, err
		}
		if r.Failure != nil {
			continue
		}
		log, ok, err := run.Log(r.Seq)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		boots, err := bootlog.Parse(bytes.NewReader(log))
		if err != nil {
			return nil, fmt.Errorf("console of trial %d (%s): %w", r.Seq, r.Cell, err)
		}
		i := slices.IndexFunc(boots, func(b bootlog.Boot) bool { return b.Kernel != "" })
		if i >= 0 {
			out[target[r.Cell]] = analysis.TrimBoot{Profile: bootlog.New(&boots[i]), Values: r.Values}
		}
	}
	return out, nil
}
