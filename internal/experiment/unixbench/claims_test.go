package unixbench

import (
	"math"
	"strings"
	"testing"

	"github.com/tarelab/tare/internal/finding"
)

func same(t *testing.T, what string, got, want float64) {
	t.Helper()
	if !(math.Abs(got-want) <= 1e-9*math.Max(1, math.Abs(want))) {
		t.Errorf("%s = %v, want %v", what, got, want)
	}
}

func TestReduceUnixPasses(t *testing.T) {
	for _, test := range []struct {
		name           string
		scores         []float64
		unixBench, all float64
		dropped        int
	}{
		{"one", []float64{8}, 8, 8, 0},
		{"two: none dropped", []float64{2, 8}, 4, 4, 0},
		{"three: the worst dropped", []float64{8, 1, 2}, 4, math.Cbrt(16), 1},
		{"five: one dropped", []float64{1, 4, 4, 4, 4}, 4, math.Pow(256, 0.2), 1},
		{"ten: three dropped", []float64{1, 1, 1, 3, 3, 3, 3, 3, 3, 3}, 3, math.Pow(3, 0.7), 3},
	} {
		r, err := reducePasses(test.scores)
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		same(t, test.name+", UnixBench", r.UnixBench, test.unixBench)
		same(t, test.name+", all", r.All, test.all)
		if r.Dropped != test.dropped || r.Passes != len(test.scores) {
			t.Errorf("%s: %d of %d dropped, want %d of %d", test.name, r.Dropped, r.Passes, test.dropped, len(test.scores))
		}
		if r.Interval.Low > r.All || r.Interval.High < r.All {
			t.Errorf("%s: %v outside its interval %v", test.name, r.All, r.Interval)
		}
	}
	// Two passes a factor e^2 apart: logs -1 and 1, t(1 degree, 0.975) = 12.7062.
	r, err := reducePasses([]float64{math.Exp(-1), math.Exp(1)})
	if err != nil || math.Abs(math.Log(r.Interval.High)-12.7062) > 1e-4 {
		t.Errorf("interval %v (%v), want exp(+-12.7062)", r.Interval, err)
	}
	for _, bad := range [][]float64{nil, {1, 0}, {1, -2}, {math.NaN()}, {math.Inf(1)}} {
		if _, err := reducePasses(bad); err == nil {
			t.Errorf("%v was reduced", bad)
		}
	}
}

func TestGeometricIndex(t *testing.T) {
	i, err := newIndex(map[string]float64{"b": 8, "a": 2})
	if err != nil {
		t.Fatal(err)
	}
	same(t, "index", i.Value, 4)
	if strings.Join(i.Tests, " ") != "a b" {
		t.Errorf("tests %v", i.Tests)
	}
	if _, err := newIndex(nil); err == nil {
		t.Error("an index over nothing")
	}
}

func TestFairness(t *testing.T) {
	for _, test := range []struct {
		scores []float64
		want   float64
	}{{[]float64{5, 5, 5}, 1}, {[]float64{6, 0, 0}, 1. / 3}, {[]float64{1, 3}, 0.8}} {
		f, err := fairness(test.scores)
		if err != nil {
			t.Fatal(err)
		}
		same(t, "fairness", f, test.want)
	}
	if _, err := fairness([]float64{0, 0}); err == nil {
		t.Error("fairness of nothing")
	}
}

func loongson(t *testing.T) *source {
	t.Helper()
	d, err := publication()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestMachineRatios(t *testing.T) {
	d := loongson(t)
	a, err := d.Scores("platforms-ncopies", "loongson-2way")
	if err != nil {
		t.Fatal(err)
	}
	b, err := d.Scores("platforms-ncopies", "ryzen5")
	if err != nil {
		t.Fatal(err)
	}
	x, y := d.Hosts["loongson-2way"], d.Hosts["ryzen5"]
	ratios := machineRatios(d.Tests, a, b, cpus{x.Cores, x.Threads(), x.ClockGHz}, cpus{y.Cores, y.Threads(), y.ClockGHz})
	if len(ratios) != len(d.Tests) {
		t.Fatalf("%d ratios for %d tests", len(ratios), len(d.Tests))
	}
	for test, want := range map[string]float64{"dhrystone2": 63.6, "whetstone": 44.8, "index": 39.4} {
		for _, r := range ratios {
			if r.Test == test && math.Abs(100*r.Ratio-want) > 0.05 {
				t.Errorf("%s: %.2f %%, want %.1f", test, 100*r.Ratio, want)
			}
		}
	}
	first := ratios[0]
	same(t, "per core (8 against 4)", first.PerCore, first.Ratio/2)
	same(t, "per thread (8 against 8)", first.PerThread, first.Ratio)
	same(t, "per GHz (both 1.45)", first.PerGHz, first.Ratio)
	unknown := machineRatios([]string{"index"}, a, b, cpus{}, cpus{Cores: 4})
	if unknown[0].PerCore != 0 || unknown[0].PerGHz != 0 {
		t.Errorf("what is not known was computed: %+v", unknown[0])
	}
}

func TestLoongsonClaims(t *testing.T) {
	claims, err := publishedClaims(loongson(t))
	if err != nil {
		t.Fatal(err)
	}
	want := []struct {
		text, computed string
		verdict        finding.Verdict
	}{
		{"roughly as 1/n on one CPU", "1.0", finding.BorneOut},
		{"Whetstone does not fall", "797.2 to 801.0", finding.BorneOut},
		{"With 8 containers", "-0.5 %", finding.BorneOut},
		{"about 5 % above the host", "-1.4 % (4 CPUs, 4 copies), +10.8 % (1 CPU), +0.5 %", finding.NotBorne},
		{"whetstone +11.7 %", "+11.70 %", finding.BorneOut},
		{"dhrystone2 +4.0 %", "+3.99 %", finding.BorneOut},
		{"index -1.4 %", "-1.43 %", finding.BorneOut},
		{"process-creation -5.1 %", "-5.05 %", finding.BorneOut},
		{"process-creation -13.4 %", "-13.44 %", finding.BorneOut},
		{"63.6 % of the Ryzen's dhrystone2", "63.6 %", finding.BorneOut},
		{"44.8 % of the Ryzen's whetstone", "44.8 %", finding.BorneOut},
		{"about 50 %", "39.4 % with n copies, 39.9 % with one", finding.NotBorne},
		{"Two tables", "pipe-context-switch: a factor of 2.53", finding.NotBorne},
		{"473.0", "16.57 %", finding.Open},
		{"14.7 %", "+16.9 %", finding.NotBorne},
	}
	if len(claims) != len(want) {
		t.Fatalf("%d claims, want %d", len(claims), len(want))
	}
	for i, w := range want {
		c := claims[i]
		if !strings.Contains(c.Text, w.text) || !strings.Contains(c.Computed, w.computed) || c.Verdict != w.verdict {
			t.Errorf("claim %d: %+v\nwant %q, %q, %q", i, c, w.text, w.computed, w.verdict)
		}
	}
}

// A claim is judged by the cells: with other cells it is judged otherwise.
func TestLoongsonClaimsFollowTheCells(t *testing.T) {
	d := loongson(t)
	table := d.Tables["platforms-ncopies"]
	table.Dhrystone2[1] = 7000
	table.Index[1] = 0.5 * table.Index[3]
	d.Tables["platforms-1copy"].Index[1] = 0.5 * d.Tables["platforms-1copy"].Index[3]
	d.Tables["containers-4cpu-4copies"].Whetstone[4] = 400
	claims, err := publishedClaims(d)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range map[int]finding.Verdict{1: finding.NotBorne, 9: finding.NotBorne, 11: finding.BorneOut} {
		if claims[i].Verdict != want {
			t.Errorf("%s is %q after the cells changed: %s", claims[i].Text, claims[i].Verdict, claims[i].Computed)
		}
	}
	delete(d.Tables, "platforms-1copy")
	if _, err := publishedClaims(d); err == nil {
		t.Error("a missing table went unnoticed")
	}
}
