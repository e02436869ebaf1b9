package lab

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/kernel/bootlog"
	"github.com/tarelab/tare/internal/store"
	"github.com/tarelab/tare/internal/target"
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
	claims.Trim = analysis.TrimStudy(analysis.TrimInput{Input: in, Tables: claims.Tables, Control: m.Study.Control, Published: d, Boots: boots, Parts: parts})
	return nil
}

// keepBootLogs puts what targets' machines told of a boot into the run, so that
// its report needs nothing else.
func keepBootLogs(ctx context.Context, p *Plan) error {
	for name, d := range p.drivers {
		of, ok := d.(target.Profiled)
		if !ok {
			continue
		}
		log, err := of.BootLog(ctx)
		if err == nil && len(log) > 0 {
			err = p.Run.KeepBootLog(name, log)
		}
		if err != nil {
			return fmt.Errorf("target %s: %w", name, err)
		}
	}
	return nil
}

// bootProfiles takes the last console apart that was kept of each target.
func bootProfiles(run *store.Run) (map[string]analysis.TrimBoot, error) {
	cell := map[string]string{}
	out := map[string]analysis.TrimBoot{}
	for _, c := range run.Manifest().Cells {
		cell[c.ID] = c.Target
		log, ok, err := run.BootLog(c.Target)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		told, err := bootProfile(log)
		if err != nil {
			return nil, fmt.Errorf("journal of %s: %w", c.Target, err)
		}
		out[c.Target] = analysis.TrimBoot{Told: told}
	}
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
		p, err := bootProfile(log)
		if err != nil {
			return nil, fmt.Errorf("console of trial %d (%s): %w", r.Seq, r.Cell, err)
		}
		out[cell[r.Cell]] = analysis.TrimBoot{Profile: p, Values: r.Values, Told: out[cell[r.Cell]].Told}
	}
	return out, nil
}

// bootProfile is the first boot of a log that has a kernel's beginning; nil for
// none.
func bootProfile(log []byte) (*bootlog.Profile, error) {
	boots, err := bootlog.Parse(bytes.NewReader(log))
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(boots, func(b bootlog.Boot) bool { return b.Kernel != "" })
	if i < 0 {
		return nil, nil
	}
	return bootlog.New(&boots[i]), nil
}
