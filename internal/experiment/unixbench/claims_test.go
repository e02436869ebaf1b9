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

func judged(t *testing.T, d *source) map[string]finding.Claim {
	t.Helper()
	all, err := claimsOf(d)
	if err != nil {
		t.Fatal(err)
	}
	by := map[string]finding.Claim{}
	for _, c := range all.Judge(nil) {
		by[c.Text] = c
	}
	return by
}

func TestLoongsonClaims(t *testing.T) {
	claims := judged(t, loongson(t))
	other := map[string]struct { // the others are borne out
		computed string
		verdict  finding.Verdict
	}{
		"One container scores about 5 % above the host":                            {"4 copies: -1.4 %, 1 CPU: +10.8 %, 4 CPUs, 1 copy: +0.5 %", finding.NotBorne},
		"Over all tests it reaches about 50 %":                                     {"39.4 %, with one: 39.9 %", finding.NotBorne},
		"Two tables give the same scores for the same machine in one container":    {"pipe-context-switch 2.53", finding.NotBorne},
		"The mean of Dhrystone is 473.0 with one copy and 492.2 with n copies":     {"16.57 %", finding.Open},
		"Dhrystone's 473.0 is 14.7 % above the score of two containers on one CPU": {"+16.9 %", finding.NotBorne},
		"Dhrystone reaches 96.17 % and Whetstone 96.0 %":                           {"96.17 %", finding.Open},
	}
	if len(claims) != 24 {
		t.Errorf("%d claims", len(claims))
	}
	own := 0
	for text, c := range claims {
		want, ok := other[text]
		if !ok {
			want.verdict = finding.BorneOut
		}
		if !strings.Contains(c.Computed, want.computed) || c.Verdict != want.verdict {
			t.Errorf("%+v\nwant %q, %q", c, want.computed, want.verdict)
		}
		delete(other, text)
		if c.Own {
			own++
		}
	}
	if len(other) > 0 || own != 7 {
		t.Errorf("%d of tare's own; not among the claims: %v", own, other)
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
	claims := judged(t, d)
	for text, want := range map[string]finding.Verdict{
		"Whetstone does not fall at all with the containers on four CPUs":            finding.NotBorne,
		"With n copies the 8-core Loongson reaches 63.6 % of the Ryzen's dhrystone2": finding.NotBorne,
		"Over all tests it reaches about 50 %":                                       finding.BorneOut,
	} {
		if claims[text].Verdict != want {
			t.Errorf("%s is %q after the cells changed: %s", text, claims[text].Verdict, claims[text].Computed)
		}
	}
	delete(d.Tables, "platforms-1copy")
	if _, err := claimsOf(d); err == nil {
		t.Error("a missing table went unnoticed")
	}
}
