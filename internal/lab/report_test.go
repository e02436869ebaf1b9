package lab_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/lab"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/store"
	"github.com/tarelab/tare/internal/study"
)

// stored is a run of some targets, with the acceleration that each had.
func stored(t *testing.T, accels map[string]string) *store.Run {
	t.Helper()
	return storedWith(t, accels, nil)
}

// storedWith is the same with what was asked of guests.
func storedWith(t *testing.T, accels map[string]string, guest *driver.Guest) *store.Run {
	t.Helper()
	return recorded(t, accels, guest, sample.Record{Values: map[string][]float64{"wall": {1}}})
}

// recorded is a run in which each target has the same record.
func recorded(t *testing.T, accels map[string]string, guest *driver.Guest, r sample.Record) *store.Run {
	t.Helper()
	m := store.Manifest{
		Guest: guest,
		Study: study.Study{ID: "demo", Control: "host"}, Seed: 1, Targets: map[string]driver.Facts{},
		Metrics: map[string][]sample.Metric{"w": {{Name: "wall", Unit: sample.Seconds, Better: sample.Lower}}},
	}
	for name, accel := range accels {
		m.Targets[name] = driver.Facts{Notes: map[string]string{driver.NoteAccel: accel}}
		m.Cells = append(m.Cells, study.Cell{ID: name, Target: name, Workload: "w", Group: "w", Control: name == "host", Copies: 1})
	}
	m.Trials = len(m.Cells)
	run, err := store.Create(t.TempDir(), m)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = run.Close() }) // nothing more is written
	for i, c := range m.Cells {
		r.Seq, r.Cell = i, c.ID
		if err := run.Append(r); err != nil {
			t.Fatal(err)
		}
	}
	return run
}

// A guest on the CPU and an emulated one are never compared.
func TestCompareLeavesOtherAccelerationOut(t *testing.T) {
	before := stored(t, map[string]string{"host": "", "qemu/microvm": "kvm", "qemu/q35": "tcg"})
	after := stored(t, map[string]string{"host": "", "qemu/microvm": "tcg", "qemu/q35": "tcg"})
	in, err := lab.Compare(before, after)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range in.Claims.Comparisons[0].Rows {
		if r.Target == "qemu/microvm" {
			t.Errorf("KVM was compared with TCG: %+v", r)
		}
	}
	if n := len(in.Claims.Comparisons[0].Rows); n != 2 {
		t.Errorf("%d rows, want the host's and q35's", n)
	}
	if w := strings.Join(analysis.Texts(in.Claims.Warnings), "\n"); !strings.Contains(w, "qemu/microvm ran under KVM") {
		t.Errorf("no warning says why: %q", w)
	}
}

// Guests of other sizes are compared, and that is said; to runs without guests it
// does not matter.
func TestCompareWarnsOfOtherGuests(t *testing.T) {
	for accel, want := range map[string]bool{"tcg": true, "": false} {
		of := func(memory int64) *store.Run {
			return storedWith(t, map[string]string{"host": "", "qemu/q35": accel}, &driver.Guest{Memory: memory})
		}
		in, err := lab.Compare(of(0), of(1<<30))
		if err != nil {
			t.Fatal(err)
		}
		told := slices.ContainsFunc(in.Claims.Surroundings, func(s analysis.Surrounding) bool {
			return strings.Contains(s.String(), "what virtual machines were asked to be: nothing beside tare's defaults against memory 1GiB")
		})
		if told != want {
			t.Errorf("acceleration %q: %q", accel, in.Claims.Surroundings)
		}
	}
}

// Where nothing else is there to compare, the comparison is refused.
func TestCompareRefusesOtherAcceleration(t *testing.T) {
	only := func(accel string) *store.Run { return stored(t, map[string]string{"host": accel}) }
	var wrong *lab.InputError
	if _, err := lab.Compare(only("kvm"), only("tcg")); !errors.As(err, &wrong) || !strings.Contains(err.Error(), "never compared") {
		t.Errorf("%v", err)
	}
}

// Several runs are each compared with the first; no trial counts twice.
func TestCompareSeveralRuns(t *testing.T) {
	of := func() *store.Run { return stored(t, map[string]string{"host": "", "runc": ""}) }
	a, b, c := of(), of(), of()
	in, err := lab.Compare(a, b, c)
	if err != nil {
		t.Fatal(err)
	}
	var with []string
	for _, one := range in.Claims.Comparisons {
		with = append(with, one.With)
	}
	if !slices.Equal(with, []string{b.Manifest().ID, c.Manifest().ID}) || in.Manifest.ID != a.Manifest().ID {
		t.Errorf("%s is compared with %q", in.Manifest.ID, with)
	}
	if got := in.Claims; got.Trials != 6 || got.Planned != 6 {
		t.Errorf("%d of %d trials, want 6 of 6", got.Trials, got.Planned)
	}
	var wrong *lab.InputError
	if _, err := lab.Compare(a, b, stored(t, map[string]string{"podman": ""})); !errors.As(err, &wrong) || !strings.Contains(err.Error(), "no measured cell in common") {
		t.Errorf("a run that has nothing in common with the first: %v", err)
	}
}

// A run in which nothing works any more is a report of what fails, not an error.
func TestCompareWithARunThatFailed(t *testing.T) {
	targets := map[string]string{"host": "", "runc": ""}
	broken := recorded(t, targets, nil, sample.Record{Failure: &sample.Failure{Fault: sample.FaultTarget, Phase: "start", Message: "it is broken"}})
	in, err := lab.Compare(stored(t, targets), broken)
	if err != nil {
		t.Fatal(err)
	}
	if f := in.Claims.Failed; len(f) != 2 || f[0].Run != broken.Manifest().ID || f[0].Failed != 1 {
		t.Errorf("%+v", f)
	}
}
