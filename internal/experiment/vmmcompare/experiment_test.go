package vmmcompare

import (
	"testing"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/experiment"
	"github.com/tarelab/tare/internal/experiment/experimenttest"
	"github.com/tarelab/tare/internal/hostinfo"
	"github.com/tarelab/tare/internal/store"
	"github.com/tarelab/tare/internal/study"
	"github.com/tarelab/tare/published"
)

// The recorded run is of two blocks, on the host and in an emulated QEMU.
func TestReports(t *testing.T) {
	experimenttest.Reports(t, experiment.List{Experiment()})
}

func publication(t *testing.T) *source {
	t.Helper()
	d, err := published.Read(repeated, publishedFile, new(source))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// One number of each part, so that a part that is silently not read shows.
func TestNumbersArrive(t *testing.T) {
	d := publication(t)
	for _, test := range []struct {
		what      string
		got, want float64
	}{
		{"boot of QEMU", d.Boot.QEMU[9][3], 6.389},
		{"RSS of StratoVirt", float64(d.Footprint.StratoVirt[0][1]), 126988},
		{"random write fsyncs of QEMU", d.IOPS.QEMU.RandomWrite[1][1], 9693.21},
		{"latency of QEMU, seqwr, max", d.IOLatency.QEMU["seqwr"][0][1], 25.19},
	} {
		if test.got != test.want {
			t.Errorf("%s: %v, want %v", test.what, test.got, test.want)
		}
	}
}

// Any study may stand beside the publication; the folder's other study does not.
func TestApplies(t *testing.T) {
	for id, want := range map[string]bool{repeated: true, name: false} {
		text, err := experiment.List{Experiment()}.StudyText(id)
		if err != nil {
			t.Fatal(err)
		}
		s, err := study.Parse(id+".yaml", text)
		if err != nil {
			t.Fatal(err)
		}
		s.ID = "copied"
		if got := applies(store.Manifest{Study: s}); got != want {
			t.Errorf("%s: %v, want %v", id, got, want)
		}
	}
}

// Why StratoVirt has no numbers is said to who asked for it.
func TestWithoutStratoVirt(t *testing.T) {
	asked := study.Study{Targets: []string{"host", "stratovirt/microvm", "stratovirt/q35"}, Optional: []string{"stratovirt/microvm", "stratovirt/q35"}}
	for want, m := range map[string]store.Manifest{
		"":                           {Study: study.Study{Targets: []string{"host", "qemu/microvm"}}},
		"no KVM":                     {Study: asked, LeftOut: map[string]string{"stratovirt/q35": "no KVM"}},
		"its trials gave no numbers": {Study: asked, Targets: map[string]driver.Facts{"stratovirt/microvm": {}}},
		"tare knows none for z80":    {Study: asked, Host: hostinfo.Host{Arch: "z80"}},
	} {
		if got := withoutStratoVirt(m); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
