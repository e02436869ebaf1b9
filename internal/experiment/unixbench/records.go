package unixbench

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/store"
	"github.com/tarelab/tare/internal/study"
	"github.com/tarelab/tare/internal/vmm"
	"github.com/tarelab/tare/internal/workload"
)

// inputOf reads a run's scores. tables are those of the same run.
func inputOf(run *store.Run, tables []analysis.Table) (input, error) {
	m := run.Manifest()
	in := input{Cells: m.Cells, Tables: tables, Emulated: m.Host.Emulated}
	for r, err := range run.Records() {
		if err != nil {
			return in, err
		}
		in.Records = append(in.Records, r)
	}
	return in, nil
}

// emulatedIn says why the CPU of a run's target is an emulated one: the machine's
// own, or its guest's; "" for a real one.
func emulatedIn(m store.Manifest, target string) string {
	if m.Host.Emulated == "" && m.Targets[target].Notes[driver.NoteAccel] == string(vmm.TCG) {
		return "the guest's, " + target + " without KVM"
	}
	return m.Host.Emulated
}

// windowOf is the length of the timed windows of a study's Unix tests, "" where
// they differ and are not UnixBench's, and whether each test has UnixBench's own.
func windowOf(s study.Study) (window string, own bool) {
	own = true
	var lengths []time.Duration
	for _, w := range s.Measured() {
		unixBench, isUnix := workload.UnixWindow(w.Kind)
		if !isUnix {
			continue
		}
		text := cmp.Or(w.Params["time"], s.Params["time"], unixBench.String())
		length, err := time.ParseDuration(text)
		if err != nil {
			return text, false // not reached: the plan has read it
		}
		own = own && length == unixBench
		lengths = append(lengths, length)
	}
	switch lengths = slices.Compact(slices.Sorted(slices.Values(lengths))); {
	case len(lengths) == 0:
		return "", false
	case len(lengths) == 1:
		return lengths[0].String(), own
	}
	return fmt.Sprintf("%s to %s", lengths[0], lengths[len(lengths)-1]), own
}

// whetstoneOf is the variant of Whetstone that a study runs, "" for none.
func whetstoneOf(s study.Study) string {
	for _, w := range s.Measured() {
		if w.Kind == "unix-whetstone" {
			return cmp.Or(w.Params["variant"], variantKept)
		}
	}
	return ""
}
