package study

import (
	"math"
	"strings"
	"testing"

	"github.com/tarelab/tare/internal/sample"
)

func TestParseBound(t *testing.T) {
	for text, want := range map[string]Bounds{
		"+10 %": {Most: 1.1}, "-5%": {Most: 0.95}, "98 %": {Most: 0.98}, "1.10": {Most: 1.1}, "25 x": {Most: 25}, " 2 ": {Most: 2},
		"20 ms": {Most: 0.02, Unit: sample.Seconds}, "3MiB": {Most: 3 << 20, Unit: sample.Bytes}, "500 /s": {Most: 500, Unit: sample.PerSecond},
		"2 MiB/s": {Most: 2 << 20, Unit: sample.BytesPerSecond}, "1.5 Gbit/s": {Most: 1.5e9, Unit: sample.BitsPerSecond}, "0 count": {Unit: sample.Count},
	} {
		value, unit, err := parseBound(text)
		if err != nil || math.Abs(value-want.Most) > 1e-9*math.Abs(want.Most) || unit != want.Unit {
			t.Errorf("%q: %g %q, %v", text, value, unit, err)
		}
	}
	for text, says := range map[string]string{
		"": "is not a bound", "fast": "is not a bound", "+5": "a sign needs %", "-5 ms": "a sign needs %", "0": "a ratio is above 0", "-100 %": "a ratio is above 0",
		"5 apples": `"apples" is not a unit`, "3 M": `"M" is not a unit`, "1e9": `is not a unit`, strings.Repeat("9", 400): "is not a bound",
	} {
		if value, _, err := parseBound(text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %g, %v, want %q", text, value, err, says)
		}
	}
}

func TestLimits(t *testing.T) {
	known := Known{Targets: []string{"host", "runc", "native/spawn"}, Kinds: []string{"start"}}
	s, err := Parse("demo.yaml", []byte(minimal+"limits: [{cell: start/runc:ready, at-most: +10 %}, {cell: start/*, at-least: 98 %, against: control}, {cell: start+x4/native/spawn, at-most: 3 MiB}]"))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Validate(known); err != nil || len(s.Limits) != 3 || len(s.Notes) > 0 {
		t.Errorf("%+v, notes %q, %v", s.Limits, s.Notes, err)
	}
	if name, err := s.Limits[2].Name(); err != nil || name != (CellName{"start+x4", "native/spawn", ""}) {
		t.Errorf("%+v, %v", name, err)
	}
	for text, says := range map[string]string{
		"{cell: start, at-most: 2}":                           "demo.yaml:3:17: limits[0].cell: cell \"start\": write WORKLOAD/TARGET",
		"{at-most: 2}":                                        "write WORKLOAD/TARGET",
		"{cell: start/runc}":                                  "no bound: set at-most or at-least",
		"{cell: start/runc, at-most: 5 ms, at-least: 2}":      "are not in the same unit",
		"{cell: start/runc, at-most: 1, at-least: 2}":         "nothing lies between",
		"{cell: start/runc, at-most: 5 ms, against: control}": "only a ratio is against something",
		"{cell: start/runc, at-most: 2, against: yesterday}":  `unknown word "yesterday"`,
		"{cell: start/runc, at-mots: 2}":                      `did you mean "at-most"?`,
		"{cell: start/rumc, at-most: 2}":                      `did you mean "runc"?`,
		"{cell: strat/runc, at-most: 2}":                      `did you mean "start"?`,
		"{cell: start/runc, at-most: 2, against: baseline}":   "a study has no baseline",
	} {
		s, err := Parse("demo.yaml", []byte(minimal+"limits: ["+text+"]"))
		if err == nil {
			err = s.Validate(known)
		}
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", text, err, says)
		}
	}
	if _, err := ParseLimits("l.yaml", []byte("limits: []")); err == nil || !strings.Contains(err.Error(), "no limit is named") {
		t.Error(err)
	}
	l, err := ParseMin("start/native/spawn:ready:98 %")
	if err != nil || l != (Limit{Cell: "start/native/spawn:ready", AtLeast: "98 %"}) {
		t.Errorf("%+v, %v", l, err)
	}
	if _, err := ParseMin("start/native:fast"); err == nil || !strings.HasPrefix(err.Error(), "at-least: ") {
		t.Errorf("a lower bound that cannot be read: %v", err)
	}
}
