package analysis

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/tarelab/tare/internal/stats"
)

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
		{"within", AtLeast(around(0.985, 0.005, 30), 0.98, 1), LimitMet},
		{"just not refuted", AtLeast(around(0.98, 0.02, 30), 0.98, 1), LimitOpen},
		{"beyond", AtLeast(around(0.95, 0.01, 30), 0.98, 1), LimitBroken},
		{"five pairs", AtLeast(around(1, 0.001, 5), 0.98, 1), LimitOpen},
		{"six pairs", AtLeast(around(1, 0.001, 6), 0.98, 1), LimitMet},
		{"wide", AtLeast(around(0.97, 0.4, 30), 0.98, 1), LimitOpen},
		{"wide, within", AtLeast(around(8, 0.4, 30), 5, 1), LimitMet},
		{"at most, met", AtMost(around(1.2, 0.02, 30), 1.3, 1), LimitMet},
		{"at most, broken", AtMost(around(1.4, 0.02, 30), 1.3, 1), LimitBroken},
		{"at most, wide", AtMost(around(1.3, 0.5, 30), 1.3, 1), LimitOpen},
		{"a failure among them", AtMost(append(around(1, 0.01, 30), 0), 1.3, 1), LimitOpen},
		{"nothing", AtMost(nil, 1.3, 1), LimitOpen},
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

// An interval that decides nothing leaves every limit open, also one that nobody computed.
func TestLimitWithoutAnInterval(t *testing.T) {
	for _, i := range []stats.Interval{{}, stats.None(0.5), stats.RangeOf([]float64{0.4, 0.5, 0.6})} {
		for _, limit := range []Limit{{0, 1}, {math.Inf(-1), 1.1}, {2, math.Inf(1)}} {
			if met := limit.Judge(i); met != LimitOpen {
				t.Errorf("%+v is %s for %+v, want open", limit, met, i)
			}
		}
	}
}

func TestResidue(t *testing.T) {
	a := Provenance{Run: "A", Kernel: "6.1", CPU: "x", Governor: "performance", Image: "sha256:1", Tool: "1", Compiler: "clang version 22",
		Mitigations: map[string]string{"meltdown": "PTI"}, Targets: map[string]string{"runc": "1.1.5", "crun": "1.8", "youki": "0.5"},
		Programs: map[string]string{"runc": "sha256:6", "youki": "sha256:7"},
		Counters: "counted", Asked: "memory 1GiB", Accels: map[string]string{"qemu/microvm": "kvm", "qemu/q35": "tcg"}, Guests: map[string]string{"qemu/microvm": "sha256:3", "qemu/q35": "sha256:4"}, Systems: map[string]string{"qemu/q35": "1 2"}}
	if got := Residue(a, a); len(got) != 0 {
		t.Errorf("a run against itself: %q", got)
	}
	b := Provenance{Run: "B", Kernel: "6.18", CPU: "x", Image: "sha256:2", Tool: "1", Compiler: "clang version 23",
		Mitigations: map[string]string{"meltdown": "off", "spectre": "IBRS"}, Targets: map[string]string{"runc": "1.5.2", "youki": "0.5"},
		Programs: map[string]string{"runc": "sha256:8", "youki": "sha256:9"},
		Counters: "left out", Asked: "nothing", Accels: map[string]string{"qemu/microvm": "tcg", "qemu/q35": "tcg", "runc": ""}, Guests: map[string]string{"qemu/microvm": "sha256:5"}, Systems: map[string]string{"qemu/q35": "1 3"}}
	got := Residue(a, b)
	want := []string{"kernel", "workbench image", "C compiler", "perf's counters", "mitigation meltdown", "mitigation spectre", "version of runc", "program of youki", "guest kernel of qemu/microvm", "root file system of qemu/q35", "what virtual machines were asked to be"}
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
