package twomachines

import (
	"math"
	"strings"
	"testing"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/study"
)

// recorded is a run of eight blocks whose calls take these seconds, with a machine that
// is slower from block to block: only the blocks' differences are the same.
func recorded(calls map[string]float64) analysis.Input {
	in := analysis.Input{Seed: 1}
	for _, target := range []string{"host@loopback", "native@bridge", "native@remote"} {
		in.Cells = append(in.Cells, study.Cell{ID: target, Target: target, Workload: "rtt", Group: "rtt", Control: target == "host@loopback"})
	}
	in.Data = analysis.NewData(in.Cells, 0)
	for block := range 8 {
		for target, seconds := range calls {
			in.Data.Add(&sample.Record{Cell: target, Block: block + 1, Values: map[string][]float64{sample.RTT: {seconds + float64(block)*1e-3}}})
		}
	}
	return in
}

func TestSplits(t *testing.T) {
	splits, refused := describe(recorded(map[string]float64{"host@loopback": 20e-6, "native@bridge": 50e-6, "native@remote": 320e-6}), nil)
	if len(splits) != 2 || len(refused) != 0 {
		t.Fatalf("%+v", splits)
	}
	for i, want := range []struct {
		target string
		added  float64
	}{{"native@bridge", 30e-6}, {"native@remote", 300e-6}} {
		s := splits[i]
		if s.Target != want.target || math.Abs(s.Added-want.added) > 1e-9 || math.Abs(s.Work-10*want.added) > 1e-8 || s.Blocks != 8 {
			t.Errorf("%+v, want %+v", s, want)
		}
	}
	got := section(splits, nil)
	if len(got.Headline) != 1 || !strings.HasPrefix(got.Headline[0], "native@remote, rtt: a call takes 300") || !strings.Contains(got.Headline[0], "less than 3.00 ms") || len(got.Tables[0].Rows) != 2 {
		t.Errorf("%q, %+v", got.Headline, got.Tables)
	}
}

// A call whose extra cost is not shown gives no advice.
func TestNothingShown(t *testing.T) {
	splits, _ := describe(recorded(map[string]float64{"host@loopback": 20e-6, "native@remote": 20e-6}), nil)
	if len(splits) != 1 || splits[0].Work != 0 {
		t.Fatalf("%+v", splits)
	}
	if got := section(splits, nil); len(got.Headline) != 0 || !strings.Contains(got.Findings[0], "not shown") {
		t.Errorf("%+v", got)
	}
	if splits, _ := describe(recorded(map[string]float64{"native@remote": 20e-6}), nil); len(splits) != 0 {
		t.Errorf("without a control: %+v", splits)
	}
}

// What the run's tables refuse has no numbers in the section: all of it, or the emulated guest.
func TestRefusedPlacements(t *testing.T) {
	in := recorded(map[string]float64{"host@loopback": 20e-6, "native@bridge": 50e-6, "native@remote": 320e-6})
	in.Metrics = map[string][]sample.Metric{"rtt": sample.Describe(sample.RTT)}
	in.Emulated = "QEMU TCG"
	if splits, refused := describe(in, analysis.Analyze(in).Tables); len(splits) != 0 || len(refused) != 2 {
		t.Errorf("an emulated CPU: %+v, %+v", splits, refused)
	}
	in.Emulated, in.Accels = "", map[string]string{"native@remote": "tcg"}
	splits, refused := describe(in, analysis.Analyze(in).Tables)
	if len(splits) != 1 || splits[0].Target != "native@bridge" || len(refused) != 1 {
		t.Fatalf("an emulated guest: %+v, %+v", splits, refused)
	}
	got := section(splits, refused)
	if said := strings.Join(got.Findings, " "); len(got.Headline) != 0 || len(got.Tables[0].Rows) != 1 || !strings.Contains(said, "native@remote, rtt: nothing is claimed. The CPU of native@remote is emulated") {
		t.Errorf("%q, %q", got.Headline, got.Findings)
	}
}
