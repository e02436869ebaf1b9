package analysis

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func levels(n []float64, blocks int, sd float64, law func(n float64) float64) []Level {
	r := rand.New(rand.NewPCG(1, 3))
	out := make([]Level, len(n))
	for i := range n {
		out[i].N = n[i]
		for range blocks {
			out[i].Values = append(out[i].Values, law(n[i])*math.Exp(sd*r.NormFloat64()))
		}
	}
	return out
}

var concurrencies = []float64{1, 2, 4, 8, 16, 32, 64}

func TestUSLRecoversItsLaw(t *testing.T) {
	for _, c := range []uslPoint{{1000, 0.02, 0.0005}, {50, 0.3, 0}, {7, 0, 0.001}, {9, 0, 0}} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			fit, err := FitUSL(levels(concurrencies, 15, 0, c.throughput), 1)
			if err != nil {
				t.Fatal(err)
			}
			near(t, "rate", fit.Rate.Value, c.rate, 1e-6*c.rate)
			near(t, "serial", fit.Serial.Value, c.serial, 1e-8)
			near(t, "crosstalk", fit.Crosstalk.Value, c.crosstalk, 1e-8)
		})
	}
}

func TestUSLIntervalsCover(t *testing.T) {
	law := uslPoint{1000, 0.05, 0.0008}
	knee, _ := law.knee()
	covered := [4]int{}
	const runs = 60
	for seed := range uint64(runs) {
		r := rand.New(rand.NewPCG(seed, 9))
		in := levels(concurrencies, 15, 0, law.throughput)
		for i := range in {
			for k := range in[i].Values {
				in[i].Values[k] *= math.Exp(0.03 * r.NormFloat64())
			}
		}
		fit, err := FitUSL(in, seed)
		if err != nil {
			t.Fatal(err)
		}
		for i, c := range []struct {
			e    Estimate
			want float64
		}{{fit.Rate, law.rate}, {fit.Serial, law.serial}, {fit.Crosstalk, law.crosstalk}, {*fit.Knee, knee}} {
			if c.e.Interval.Low <= c.want && c.want <= c.e.Interval.High {
				covered[i]++
			}
		}
	}
	for i, n := range covered {
		if n < 51 { // 85 %: a bootstrap of 15 blocks, less two standard errors of 60 runs
			t.Errorf("parameter %d: %d of %d intervals cover", i, n, runs)
		}
	}
}

// Linear scaling has no knee, and a fit must not invent one.
func TestUSLWithoutKnee(t *testing.T) {
	fit, err := FitUSL(levels(concurrencies, 8, 0, func(n float64) float64 { return 10 * n }), 1)
	if err != nil || fit.Knee != nil || fit.KneeShare != 0 {
		t.Errorf("%+v, %v: want no knee", fit, err)
	}
}

// A knee that only some replicates have is none: its interval would be of those.
func TestUSLKneeOfSomeReplicates(t *testing.T) {
	law := uslPoint{10, 0.02, 1e-5} // a knee at 313, far beyond what is measured
	fit, err := FitUSL(levels(concurrencies, 8, 0.05, law.throughput), 1)
	if err != nil {
		t.Fatal(err)
	}
	if fit.KneeShare <= 0 || fit.KneeShare >= kneeShown || fit.Knee != nil {
		t.Errorf("a share of %g has the knee %+v", fit.KneeShare, fit.Knee)
	}
}

func TestScalingRefusesBadInput(t *testing.T) {
	ok := []float64{1, 2}
	for name, in := range map[string][]Level{
		"3 or more":     {{1, ok, nil}, {2, ok, nil}},
		"and a block":   {{1, ok, nil}, {2, ok, nil}, {3, nil, nil}},
		"given twice":   {{1, ok, nil}, {2, ok, nil}, {2, ok, nil}},
		"zero or negat": {{1, ok, nil}, {2, ok, nil}, {3, []float64{1, 0}, nil}},
		"positive size": {{0, ok, nil}, {2, ok, nil}, {3, ok, nil}},
	} {
		if _, err := FitUSL(in, 1); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%v, want an error with %q", err, name)
		}
		if _, err := FitLaws(in, 1); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%v, want an error with %q", err, name)
		}
	}
}

func TestLawsNameTheTruth(t *testing.T) {
	sizes := []float64{10, 50, 100, 200, 300, 500}
	for name, law := range map[string]func(n float64) float64{
		LawLinear:      func(n float64) float64 { return 0.5 + 0.02*n },
		LawPower:       func(n float64) float64 { return 0.03 * math.Pow(n, 1.6) },
		LawExponential: func(n float64) float64 { return 0.7 * math.Exp(0.006*n) },
	} {
		t.Run(name, func(t *testing.T) {
			fit, err := FitLaws(levels(sizes, 10, 0.03, law), 1)
			if err != nil {
				t.Fatal(err)
			}
			if fit.Best != name {
				t.Fatalf("best %q: %s", fit.Best, fit.Why)
			}
			for _, n := range sizes {
				near(t, fmt.Sprint("at ", n), fit.Fits[0].At(n)/law(n), 1, 0.05)
			}
		})
	}
}

// A falling line fits too, and one through the origin is a power as well: then
// neither may be called the best.
func TestLawsAtTheirLimits(t *testing.T) {
	falling, err := FitLaws(levels([]float64{1, 2, 3, 4, 5}, 6, 0.001, func(n float64) float64 { return 10 - n }), 1)
	if err != nil || falling.Best != LawLinear {
		t.Errorf("%q: %s, %v", falling.Best, falling.Why, err)
	}
	near(t, "intercept", falling.Fits[0].A.Value, 10, 0.05)
	near(t, "slope", falling.Fits[0].B.Value, -1, 0.02)
	both, err := FitLaws(levels([]float64{1, 2, 4, 8}, 8, 0.05, func(n float64) float64 { return 3 * n }), 1)
	if err != nil || both.Best != "" {
		t.Errorf("%q: %s, %v; want no choice between a line through 0 and a power", both.Best, both.Why, err)
	}
}

func TestBars(t *testing.T) {
	around := func(at, sd float64, n int) []float64 {
		r := rand.New(rand.NewPCG(2, 2))
		out := make([]float64, n)
		for i := range out {
			out[i] = at * math.Exp(sd*r.NormFloat64())
		}
		return out
	}
	for _, c := range []struct {
		name string
		got  Bar
		want Met
	}{
		{"reached", AtLeast(around(0.985, 0.01, 30), 0.98, 1), BarMet},
		{"just not refuted", AtLeast(around(0.98, 0.02, 30), 0.98, 1), BarMet},
		{"clearly below", AtLeast(around(0.95, 0.01, 30), 0.98, 1), BarNotMet},
		{"19 pairs", AtLeast(around(1, 0.001, 19), 0.98, 1), BarInconclusive},
		{"wide", AtLeast(around(0.97, 0.4, 30), 0.98, 1), BarInconclusive},
		{"wide, beyond doubt", AtLeast(around(8, 0.4, 30), 5, 1), BarMet},
		{"at most, met", AtMost(around(1.2, 0.02, 30), 1.3, 1), BarMet},
		{"at most, not met", AtMost(around(1.4, 0.02, 30), 1.3, 1), BarNotMet},
		{"at most, wide", AtMost(around(1.3, 0.5, 30), 1.3, 1), BarInconclusive},
		{"a failure among them", AtMost(append(around(1, 0.01, 30), 0), 1.3, 1), BarInconclusive},
		{"nothing", AtMost(nil, 1.3, 1), BarInconclusive},
	} {
		if c.got.Met != c.want {
			t.Errorf("%s: %s (%s), want %s", c.name, c.got.Met, c.got.Why, c.want)
		}
	}
	once, thrice := AtLeast(around(1, 0.02, 30), 1, 1).Interval, AtLeast(around(1, 0.02, 30), 1, 3).Interval
	if thrice.Low >= once.Low || thrice.High <= once.High {
		t.Errorf("three looks have %+v, one has %+v", thrice, once)
	}
}

func TestResidue(t *testing.T) {
	a := Provenance{Run: "A", Kernel: "6.1", CPU: "x", Governor: "performance", Image: "sha256:1", Tool: "1", Compiler: "clang version 22",
		Mitigations: map[string]string{"meltdown": "PTI"}, Targets: map[string]string{"runc": "1.1.5", "crun": "1.8"},
		Counters: "counted", Asked: "memory 1GiB", Accels: map[string]string{"qemu/microvm": "kvm", "qemu/q35": "tcg"}, Guests: map[string]string{"qemu/microvm": "sha256:3", "qemu/q35": "sha256:4"}}
	if got := Residue(a, a); len(got) != 0 {
		t.Errorf("a run against itself: %q", got)
	}
	b := Provenance{Run: "B", Kernel: "6.18", CPU: "x", Image: "sha256:2", Tool: "1", Compiler: "clang version 23",
		Mitigations: map[string]string{"meltdown": "off", "spectre": "IBRS"}, Targets: map[string]string{"runc": "1.5.2"},
		Counters: "left out", Asked: "nothing", Accels: map[string]string{"qemu/microvm": "tcg", "qemu/q35": "tcg", "runc": ""}, Guests: map[string]string{"qemu/microvm": "sha256:5"}}
	got := Residue(a, b)
	want := []string{"kernel", "workbench image", "C compiler", "perf's counters", "mitigation meltdown", "mitigation spectre", "version of runc", "guest kernel of qemu/microvm", "what virtual machines were asked to be"}
	if len(got) != len(want) {
		t.Fatalf("%q, want %q", got, want)
	}
	for _, w := range want {
		if !slices.ContainsFunc(got, func(s string) bool { return strings.Contains(s, w+":") }) {
			t.Errorf("%q does not name %q", got, w)
		}
	}
	if unlike := Unlike(a, b); len(unlike) != 1 || !strings.Contains(unlike["qemu/microvm"], "KVM in A and under TCG in B") {
		t.Errorf("KVM against TCG: %q", unlike)
	}
}
