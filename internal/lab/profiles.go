package lab

import (
	"cmp"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tarelab/tare/internal/limit"
	"github.com/tarelab/tare/internal/probe/ebpf"
	"github.com/tarelab/tare/internal/profile"
	"github.com/tarelab/tare/internal/schedule"
	"github.com/tarelab/tare/internal/store"
	"github.com/tarelab/tare/internal/study"
)

// recorders begin to record, by the name that studies have for a probe.
var recorders = map[string]ebpf.Recorder{
	study.ProbeLocks:  ebpf.RecordLocks,
	study.ProbeStacks: ebpf.RecordStacks,
}

// proveProbe proves that a probe works here, before anything is measured. The error
// is a *driver.CannotError where this machine or user lacks what it needs.
func proveProbe(name string) error {
	stop, err := recorders[name](ebpf.Selection{})
	if err != nil {
		return err
	}
	if _, err := stop(); err != nil {
		return fmt.Errorf("probe %s: %w", name, err)
	}
	return nil
}

// Profiles adds up the profiles of a run's watched cells, of the blocks' trials that gave
// samples. One that cannot be read, or for which there is no room, is left out, and
// unread says why: a report rests on the records.
func Profiles(run *store.Run) (all map[string]*profile.Sum, unread []string, err error) {
	watched := map[string]bool{}
	for _, c := range run.Manifest().Cells {
		watched[c.ID] = c.Probe != ""
	}
	all = map[string]*profile.Sum{}
	if len(run.Manifest().Study.Probes) == 0 {
		return all, nil, nil
	}
	items, held := 0, int64(0)
	for r, err := range run.Records() {
		if err != nil {
			return nil, nil, err
		}
		if !watched[r.Cell] || r.Failure != nil || r.Block == schedule.Cold {
			continue
		}
		p, ok, err := run.Profile(r.Seq)
		if sum := all[r.Cell]; ok && err == nil && sum != nil && sum.Profile().Way != p.Way {
			err = fmt.Errorf("it was measured in another way than the profiles before it (%.100q, and those %.100q)", p.Way, sum.Profile().Way)
		}
		if ok && err == nil {
			err = cmp.Or(limit.RunProfiles.CheckItems(items+1), limit.RunProfiles.CheckBytes(held+1))
		}
		switch {
		case err != nil:
			unread = append(unread, fmt.Sprintf("profile of trial %d (%s) is left out: %v", r.Seq, r.Cell, err))
		case ok:
			sum := all[r.Cell]
			if sum == nil {
				sum = profile.NewSum()
				all[r.Cell] = sum
			}
			items, held = items-sum.Items(), held-sum.Bytes()
			sum.Add(p)
			items, held = items+sum.Items(), held+sum.Bytes()
		}
	}
	return all, unread, nil
}

// WriteProfiles writes what the watched cells showed into the run's directory,
// as pprof profiles and folded stacks, and returns the files' paths.
func WriteProfiles(run *store.Run) ([]string, error) {
	profiles, _, err := Profiles(run) // the report names those that cannot be read
	if err != nil {
		return nil, err
	}
	var files []string
	for cell, sum := range profiles {
		stem := filepath.Join(run.Dir(), strings.NewReplacer("/", "-", "~", "-", " ", "-").Replace(cell)) // a process is "process 1"
		written, err := writeProfile(stem, sum.Profile())
		if err != nil {
			return files, err
		}
		files = append(files, written...)
	}
	slices.Sort(files)
	return files, nil
}

// writeProfile writes a profile to stem.pb.gz, for pprof, and to stem.folded. The run may
// be a copy of somebody else's, with links in their places.
func writeProfile(stem string, p profile.Profile) ([]string, error) {
	files := []string{stem + ".pb.gz", stem + ".folded"}
	for i, write := range []func(io.Writer) error{p.Pprof, p.Folded} {
		if err := WriteReport(files[i], write); err != nil {
			return nil, fmt.Errorf("profile: %w", err)
		}
	}
	return files, nil
}
