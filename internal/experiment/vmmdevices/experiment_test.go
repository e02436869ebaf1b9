package vmmdevices

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/experiment"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/store"
	"github.com/tarelab/tare/internal/study"
)

// A level is set against the one that differs from it in what guests get alone, and is
// not crossed with another memory or another workload.
func TestGains(t *testing.T) {
	plain := study.Environment{Name: "plain", Memory: 512 << 20}
	small := study.Environment{Name: "small", Memory: 256 << 20}
	balloon := study.Environment{Name: "balloon", Memory: 512 << 20, Guest: &study.Guest{Balloon: 128 << 20}}
	in := analysis.Input{Blocks: 12, Seed: 1, Margin: 0.05, Alpha: 0.05, Metrics: map[string][]sample.Metric{"memory": sample.Describe(sample.PayloadPSS)}}
	pss := map[string]float64{"plain": 300, "small": 200, "balloon": 150}
	for _, e := range []study.Environment{small, plain, balloon} {
		in.Cells = append(in.Cells, study.Cell{ID: "qemu/q35/memory@" + e.Name, Target: "qemu/q35", Workload: "memory", Environment: e.Name, Limits: e, Copies: 1, Group: "memory@" + e.Name, Control: true})
	}
	in.Data = analysis.NewData(in.Cells, 0)
	for block := range 12 {
		for i, c := range in.Cells {
			in.Data.Add(&sample.Record{Seq: block*3 + i, Block: block, Cell: c.ID, Values: map[string][]float64{sample.PayloadPSS: {pss[c.Environment] + float64(block%3)}}})
		}
	}
	gains := describe(in, analysis.Analyze(in).Tables)
	if len(gains) != 1 || gains[0].Level != "balloon" || gains[0].Base != "plain" || gains[0].Effect.Ratio > 0.55 || gains[0].Effect.Ratio < 0.45 || gains[0].There.Value < 299 {
		t.Fatalf("%+v", gains)
	}
	s := section(gains)
	if text := fmt.Sprint(s.Tables[0].Rows); !strings.Contains(text, "balloon") || !strings.Contains(text, string(gains[0].Effect.Verdict)) {
		t.Errorf("%s", text)
	}
}

// The section is for runs with such a level, and not where a publication's experiment
// reports it.
func TestApplies(t *testing.T) {
	text, err := experiment.List{Experiment()}.StudyText(name)
	if err != nil {
		t.Fatal(err)
	}
	own, err := study.Parse(name+".yaml", text)
	if err != nil {
		t.Fatal(err)
	}
	with := study.Environment{Name: "a", Guest: &study.Guest{IOThread: true}}
	for want, studies := range map[bool][]study.Study{
		true:  {own, {Environments: []study.Environment{{}, with}}},
		false: {{}, {Environments: []study.Environment{{Guest: &study.Guest{}}}}, {Published: "stratovirt-vs-qemu", Environments: []study.Environment{with}}},
	} {
		for _, s := range studies {
			if got := applies(store.Manifest{Study: s}); got != want {
				t.Errorf("%+v: %v", s.Environments, got)
			}
		}
	}
}
