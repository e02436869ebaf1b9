package vmmcompare

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/study"
)

// heldRun is a run of guests of two sizes, one of which also reports its free pages
// and then takes four fifths; the machine drifts from block to block. Trials from
// so many on were disturbed.
func heldRun(t *testing.T, blocks, disturbed int, without ...string) *comparison {
	t.Helper()
	d := publication(t)
	levels := []study.Environment{{Name: "small", Memory: 256 << 20}, {Name: "big", Memory: 1 << 30}, {Name: "reporting", Memory: 1 << 30, Guest: &study.Guest{PageReporting: true}}}
	factor := map[string]float64{"small": 0.5, "big": 1, "reporting": 0.8}
	var cells []study.Cell
	for _, workload := range []string{"footprint", "footprint-load"} {
		for _, l := range levels {
			for _, target := range []string{"host", "qemu/microvm"} {
				group := workload + "+" + l.Name
				cells = append(cells, study.Cell{ID: target + "/" + group, Target: target, Workload: workload, Environment: l.Name, Limits: l, Group: group, Copies: 1, Control: target == "host"})
			}
		}
	}
	data := analysis.NewData(cells, 0)
	for block := range blocks {
		for i, c := range cells {
			guest := 200e6 * factor[c.Environment] * (1 + 0.01*float64(block)) * (1 + 0.001*float64((block*7+i*3)%5))
			if c.Workload == "footprint-load" {
				guest *= 2
			}
			r := &sample.Record{Seq: block*len(cells) + i, Block: block, Cell: c.ID, Values: map[string][]float64{"payload-pss": {guest + 50e6}, "payload-rss": {guest + 60e6}, "guest-resident": {guest}, "vmm-overhead": {60e6}}}
			for _, metric := range without {
				delete(r.Values, metric)
			}
			if r.Seq >= disturbed {
				r.Warnings = []sample.Warning{{Kind: sample.Busy, Share: 0.9}}
			}
			data.Add(r)
		}
	}
	metrics := sample.Describe(sample.PayloadPSS, sample.PayloadRSS, sample.GuestResident, sample.VMMOverhead)
	in := analysis.Input{Cells: cells, Data: data, Seed: 1, Blocks: blocks, Margin: 0.02,
		Metrics: map[string][]sample.Metric{"footprint": metrics, "footprint-load": metrics}}
	c, err := describe(in, analysis.Analyze(in).Tables, "host", nil, d)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Instances are told by level, idle and after their load, and a level that gives
// something to guests stands beside the one that differs in nothing else.
func TestHeldByLevel(t *testing.T) {
	c := heldRun(t, 10, math.MaxInt)
	if len(c.Held) != 12 || !c.Levels() || c.Held[0].Loaded || !c.Held[11].Loaded {
		t.Fatalf("held %+v", c.Held)
	}
	idle, loaded := c.Held[1], c.Held[7]
	if idle.Target != "qemu/microvm" || idle.Level != "small" || idle.Here["vmm-overhead"].Value != 60e6 || math.Abs(loaded.Here["guest-resident"].Value/idle.Here["guest-resident"].Value-2) > 0.05 {
		t.Errorf("idle %+v, after its load %+v", idle, loaded)
	}
	if len(c.Factors) != 2 {
		t.Fatalf("factors %+v", c.Factors)
	}
	for _, f := range c.Factors {
		if f.What != "free page reporting" || f.Level != "reporting" || f.Base != "big" || f.Effect.Verdict != analysis.Less || f.Effect.Ratio > 0.86 || f.Effect.Interval.Level != 1-0.05/2 {
			t.Errorf("%+v", f)
		}
	}
	said := strings.Join(c.Findings, "\n")
	for _, want := range []string{"memory after boot at the level small: qemu/microvm holds 57.2 MiB", "free page reporting, memory after the load: qemu/microvm at the level reporting gives 0.8"} {
		if !strings.Contains(said, want) {
			t.Errorf("no finding has %q:\n%s", want, said)
		}
	}
	// The publication stands beside one level, the first.
	for _, r := range c.Rows {
		if e, ok := r.Here["qemu/microvm"]; r.Metric.Name == "payload-rss" && (!ok || e.Value > 180e6) {
			t.Errorf("%s is %v", r.Name, e)
		}
	}
}

// A guest's memory that was not found is said to be, of machines alone.
func TestHeldWithoutItsGuest(t *testing.T) {
	said := strings.Join(heldRun(t, 10, math.MaxInt, "guest-resident", "vmm-overhead").Findings, "\n")
	if !strings.Contains(said, "what qemu/microvm holds for its guest cannot be told from its own") || strings.Contains(said, "what host holds") {
		t.Errorf("the findings are:\n%s", said)
	}
}

// Too few blocks and a machine that was not left alone give no claim.
func TestFactorsKnowRefusal(t *testing.T) {
	for name, c := range map[string]struct {
		blocks, disturbed int
		want              analysis.Verdict
	}{"few": {3, math.MaxInt, analysis.Open}, "disturbed": {10, 0, analysis.NotComparable}} {
		for _, f := range heldRun(t, c.blocks, c.disturbed).Factors {
			if f.Effect.Verdict != c.want {
				t.Errorf("%s: %s", name, fmt.Sprintf("%+v, want %s", f, c.want))
			}
		}
	}
}

func TestGivenNamesEveryDevice(t *testing.T) {
	all := reflect.ValueOf(&study.Guest{}).Elem()
	for i := range all.NumField() {
		all.SetZero()
		switch f := all.Field(i); f.Kind() {
		case reflect.Bool:
			f.SetBool(true)
		default:
			f.SetInt(1)
		}
		if g := all.Interface().(study.Guest); given(&g) == "" {
			t.Errorf("%s has no name", all.Type().Field(i).Name)
		}
	}
}
