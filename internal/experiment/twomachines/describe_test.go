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
	splits := describe(recorded(map[string]float64{"host@loopback": 20e-6, "native@bridge": 50e-6, "native@remote": 320e-6}))
	if len(splits) != 2 {
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
	got := section(splits)
	if len(got.Headline) != 1 || !strings.HasPrefix(got.Headline[0], "native@remote, rtt: a call takes 300") || !strings.Contains(got.Headline[0], "less than 3.00 ms") || len(got.Tables[0].Rows) != 2 {
		t.Errorf("%q, %+v", got.Headline, got.Tables)
	}
}

// A call whose extra cost is not shown gives no advice.
func TestNothingShown(t *testing.T) {
	splits := describe(recorded(map[string]float64{"host@loopback": 20e-6, "native@remote": 20e-6}))
	if len(splits) != 1 || splits[0].Work != 0 {
		t.Fatalf("%+v", splits)
	}
	if got := section(splits); len(got.Headline) != 0 || !strings.Contains(got.Findings[0], "not shown") {
		t.Errorf("%+v", got)
	}
	if splits := describe(recorded(map[string]float64{"native@remote": 20e-6})); len(splits) != 0 {
		t.Errorf("without a control: %+v", splits)
	}
}
