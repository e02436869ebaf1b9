package bootstudy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/kerneltools/bootlog"
	"github.com/tarelab/tare/internal/lab"
	"github.com/tarelab/tare/internal/store"
)

// Of describes a run's boots. The error is of consoles that cannot be read; the rest is
// described all the same.
func Of(run *store.Run, in analysis.Input, tables []analysis.Table) (*Description, error) {
	m := run.Manifest()
	boots, unread := bootProfiles(run)
	parts := map[string]map[string]string{}
	for name, facts := range m.Targets {
		parts[name] = facts.Notes
	}
	return Describe(Input{Input: in, Tables: tables, Control: m.Study.Control, Boots: boots, Parts: parts, Own: m.Study.ID == lab.BootStudy}), unread
}

// bootProfiles takes the last console apart that was kept of each target. The error is
// of those that cannot be read; the others are there all the same.
func bootProfiles(run *store.Run) (map[string]Boot, error) {
	cell := map[string]string{}
	out := map[string]Boot{}
	var unread []error
	for _, c := range run.Manifest().Cells {
		cell[c.ID] = c.Target
		told, err := bootTold(run, c.Target)
		if err != nil {
			unread = append(unread, fmt.Errorf("journal of %s: %w", c.Target, err))
		}
		out[c.Target] = told
	}
	for r, err := range run.Records() {
		if err != nil {
			return out, err
		}
		if r.Failure != nil {
			continue
		}
		log, ok, err := run.Log(r.Seq)
		if err == nil && !ok {
			continue
		}
		boot := out[cell[r.Cell]]
		if err == nil {
			_, boot.Profile, err = bootProfile(log)
		}
		if err != nil {
			unread = append(unread, fmt.Errorf("console of trial %d (%s): %w", r.Seq, r.Cell, err))
			continue
		}
		if boot.Told == nil && boot.Profile != nil && len(boot.Profile.Initcalls) > 0 {
			boot.Told = boot.Profile // its user had it tell
		}
		boot.Values = r.Values
		out[cell[r.Cell]] = boot
	}
	return out, errors.Join(unread...)
}

// bootTold is what a boot of a target's machine told, which is no trial's.
func bootTold(run *store.Run, name string) (told Boot, err error) {
	log, ok, err := run.BootLog(name)
	if err != nil || !ok {
		return told, err
	}
	boot, profile, err := bootProfile(log)
	if err != nil || profile == nil {
		return told, err
	}
	told.Told, told.Modules = profile, loadedModules(boot)
	symbols, ok, err := run.BootSymbols(name)
	if err != nil || !ok {
		return told, err
	}
	var origins map[string][]bootlog.Origin
	if err := json.Unmarshal(symbols, &origins); err != nil {
		return told, fmt.Errorf("its symbols: %w", err)
	}
	profile.Attribute(origins)
	return told, nil
}

// bootProfile is the first boot of a log that has a kernel's beginning; nil for
// none.
func bootProfile(log []byte) (*bootlog.Boot, *bootlog.Profile, error) {
	boots, err := bootlog.Parse(bytes.NewReader(log))
	if err != nil {
		return nil, nil, err
	}
	i := slices.IndexFunc(boots, func(b bootlog.Boot) bool { return b.Kernel != "" })
	if i < 0 {
		return nil, nil, nil
	}
	return &boots[i], bootlog.New(&boots[i]), nil
}

// loadedModules are what the proof (internal/kerneltools/containerhost/proof.sh) has put into the
// journal of /proc/modules, by name; nil where it has not.
func loadedModules(b *bootlog.Boot) []string {
	for _, l := range b.Lines {
		if names, ok := strings.CutPrefix(l.Text, "loaded:"); ok && l.Source == "tare-modules" {
			modules := append([]string{}, strings.Fields(names)...)
			slices.Sort(modules)
			return modules
		}
	}
	return nil
}
