package containervmtrim

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/finding"
	"github.com/tarelab/tare/internal/kerneltools/bootlog"
	"github.com/tarelab/tare/internal/kerneltools/bootstudy"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/study"
)

// trimRun is eight blocks of boots in which every stretch of the trimmed arm is
// four times as fast, on a machine that gets slower.
func trimRun(t *testing.T, proof string, tables ...analysis.Table) *description {
	t.Helper()
	d, err := bootstudy.ReadPublished(publishedFile)
	if err != nil {
		t.Fatal(err)
	}
	var cells []study.Cell
	for _, target := range []string{"vm/stock", "vm/trimmed"} {
		cells = append(cells, study.Cell{ID: target + "/boot", Target: target, Workload: "boot", Group: "boot", Copies: 1, Control: target == "vm/stock"})
	}
	data := analysis.NewData(cells, 0)
	for block := range 8 {
		for i, c := range cells {
			scale := 1 + 0.1*float64(block)
			if i == 1 {
				scale /= 4
			}
			values := map[string][]float64{}
			for metric, at := range map[string]float64{"kernel-byte": 1, "kernel": 1.2, "kernel-up": 3, "init": 3.2, "root": 5, "modules": 9, "docker0-up": 20, "engine": 22, "ready": 30, "cpu": 40} {
				values[metric] = []float64{at * scale}
			}
			data.Add(&sample.Record{Seq: 2*block + i, Block: block, Cell: c.ID, Values: values})
		}
	}
	return describe(bootstudy.Describe(bootstudy.Input{
		Input: analysis.Input{Cells: cells, Data: data, Seed: 1}, Control: "vm/stock", Tables: tables,
		Parts: map[string]map[string]string{
			"vm/stock":   {"kernel-bytes": "12000000", "initrd-bytes": "20000000", "proof 01 docker run": "ok"},
			"vm/trimmed": {"kernel-bytes": "5000000", "initrd-bytes": "0", "proof 01 docker run": "ok", "proof 02 crun": proof},
		},
	}), d)
}

func TestTrimStretchesArePairedWithinBlocks(t *testing.T) {
	c := trimRun(t, "ok")
	checked := 0
	for _, s := range c.Spans {
		e, ok := s.Speedup["vm/trimmed"]
		if !ok {
			t.Errorf("%s has no speedup", s.Name)
			continue
		}
		checked++
		if math.Abs(e.Value-4) > 1e-9 || math.Abs(e.Interval.High-4) > 1e-9 {
			t.Errorf("%s: %+v, want 4", s.Name, e)
		}
		if s.Name == "total" && math.Abs(s.Before/s.After-1.2525) > 1e-3 {
			t.Errorf("published total %v", s.Before/s.After)
		}
	}
	if checked < 8 {
		t.Errorf("only %d stretches", checked)
	}
	if all := strings.Join(c.Findings, "\n"); !strings.Contains(all, "4.00 times as fast") || !strings.Contains(all, "each passes it") {
		t.Errorf("findings:\n%s", all)
	}
}

func TestAFailedProofIsTold(t *testing.T) {
	if all := strings.Join(trimRun(t, "failed: no such device").Findings, "\n"); !strings.Contains(all, "vm/trimmed FAILS the proof: crun") {
		t.Errorf("findings:\n%s", all)
	}
}

func judged(t *testing.T, c *description) []finding.Claim {
	t.Helper()
	claims, err := claimsOf(c)
	if err != nil {
		t.Fatal(err)
	}
	return claims
}

// The published numbers are judged by all that the source prints, and this run's are
// compared with them.
func TestPublishedTrimClaims(t *testing.T) {
	want := map[string][2]finding.Verdict{ // as published, and of a machine that gets four times as fast
		`Trimming makes "kernel" 1.72 times as fast`:                             {finding.BorneOut, finding.BorneOut},
		`Trimming makes "initrd" 5.43 times as fast`:                             {finding.NotBorne, finding.NotBorne}, // table 4-1 has 1.45
		`Trimming makes "modules" 1.38 times as fast`:                            {finding.NotBorne, finding.BorneOut}, // table 4-1 has 1.00
		`Trimming makes "total" 1.25 times as fast`:                              {finding.Open, finding.BorneOut},     // the boot of table 4-1 speaks against it
		"Without USB 71 lines of the log are gone":                               {finding.BorneOut, ""},
		"The trimmed log no longer holds SELinux, RTC, USB and parport":          {finding.BorneOut, ""},
		"Loading SELinux's policy takes about 0.6 s of the boot before trimming": {finding.BorneOut, ""},
	}
	for _, c := range judged(t, trimRun(t, "ok")) {
		verdicts := [2]finding.Verdict{c.Verdict}
		if len(c.Here) == 1 {
			verdicts[1] = c.Here[0].Verdict
		}
		if verdicts != want[c.Text] {
			t.Errorf("%s: %q, want %q; %+v", c.Text, verdicts, want[c.Text], c)
		}
		delete(want, c.Text)
	}
	if len(want) > 0 {
		t.Errorf("not among the claims: %v", want)
	}
}

// Lines of a log are asked for where the control has some, of targets with a log.
func TestTrimLines(t *testing.T) {
	c := trimProfiles(t, false)
	c.Causes = append(c.Causes, bootstudy.Subsystem{Name: "USB", Lines: map[string]int{"a": 3, "b": 1}}, bootstudy.Subsystem{Name: "RTC", Lines: map[string]int{"b": 1}})
	cells := c.cells("b")
	if len(cells) != 2 || cells["evidence.before.USB"].Value != 3 || cells["evidence.after.USB"].Value != 1 {
		t.Errorf("%+v", cells)
	}
	if cells := c.cells("c"); len(cells) != 0 {
		t.Errorf("of a target without a log: %+v", cells)
	}
}

// Of a run that was disturbed nothing is claimed.
func TestTrimRefused(t *testing.T) {
	c := trimRun(t, "ok", analysis.Table{Primary: true, Refused: "The machine was busy."})
	if !strings.Contains(c.Findings[0], "claims nothing of the machine: The machine was busy.") {
		t.Errorf("findings: %q", c.Findings[0])
	}
	for _, claim := range judged(t, c)[:4] {
		if len(claim.Here) != 1 || claim.Here[0].Verdict != finding.Refused {
			t.Errorf("%s: %s, here %+v", claim.Text, claim.Verdict, claim.Here)
		}
	}
}

// trimProfiles are two boots of consoles alone, of the first of which another boot told
// of an initcall, a symbol and modules.
func trimProfiles(t *testing.T, own bool) *description {
	t.Helper()
	d, err := bootstudy.ReadPublished(publishedFile)
	if err != nil {
		t.Fatal(err)
	}
	log := func(text string) *bootlog.Profile {
		boots, err := bootlog.Parse(strings.NewReader("[    0.000000] Linux version 6.1.0\n[    0.100000] PCI: start\n[    0.400000] PCI: end\n" + text))
		if err != nil {
			t.Fatal(err)
		}
		return bootlog.New(&boots[0])
	}
	told := log("[    0.500000] calling  pci_init+0x0/0x10 @ 1\n[    0.507000] initcall pci_init+0x0/0x10 returned 0 after 7000 usecs\n")
	told.Attribute(map[string][]bootlog.Origin{"pci_init": {{Object: "drivers/pci/pci.o", Symbol: "PCI"}}})
	var cells []study.Cell
	for i, target := range []string{"a", "b"} {
		cells = append(cells, study.Cell{ID: target, Target: target, Workload: "boot", Group: "boot", Copies: 1, Control: i == 0})
	}
	data := analysis.NewData(cells, 0)
	for _, c := range cells {
		data.Add(&sample.Record{Cell: c.ID, Values: map[string][]float64{"kernel": {1}, "ready": {2}, "cpu": {3}}})
	}
	return describe(bootstudy.Describe(bootstudy.Input{
		Input: analysis.Input{Cells: cells, Data: data, Seed: 1}, Control: "a", Own: own,
		Parts: map[string]map[string]string{"a": {"initrd-bytes": "1"}},
		Boots: map[string]bootstudy.Boot{"a": {Profile: log(""), Told: told, Modules: []string{"ext4"}}, "b": {Profile: log("")}},
	}), d)
}

// The time of initcalls and that before lines are never one number, and a target of
// which no boot told has none of the first.
func TestTrimPartsKeepInitcallsAndStepsApart(t *testing.T) {
	c := trimProfiles(t, false)
	i := slices.IndexFunc(c.Causes, func(s bootstudy.Subsystem) bool { return s.Name == "PCI" })
	if i < 0 {
		t.Fatalf("no PCI among %+v", c.Causes)
	}
	s := c.Causes[i]
	if _, told := s.Own["b"]; told || len(s.Calls) != 1 || s.Calls["a"] != 1 || s.Own["a"] != (7*time.Millisecond).Seconds() {
		t.Errorf("initcalls %v, their seconds %v: want one of 7 ms, of a alone", s.Calls, s.Own)
	}
	for _, target := range []string{"a", "b"} { // the console's, not that of the boot that told
		if s.Lines[target] != 2 || math.Abs(s.Steps[target]-0.4) > 1e-9 {
			t.Errorf("%s: %d lines and %v s before them, want 2 and 0.4", target, s.Lines[target], s.Steps[target])
		}
	}
	p := c.Profiles[0]
	if len(p.Symbols) != 1 || p.Symbols[0].Name != "PCI" || p.Calls[0].Symbol != "PCI" || !slices.Equal(p.Modules, []string{"ext4"}) {
		t.Errorf("symbols %+v, calls %+v, modules %q", p.Symbols, p.Calls, p.Modules)
	}
	if c.Profiles[1].Modules != nil {
		t.Error("of b nobody asked for modules, and it has some")
	}
}

// Boots of a user's own machines say what they measure, beside nothing published.
func TestTrimOfOwnMachines(t *testing.T) {
	c := trimProfiles(t, true)
	if c.Trims || len(judged(t, c)) > 0 || c.Whole != bootstudy.Until {
		t.Errorf("trims %v, %d claims, whole %q", c.Trims, len(judged(t, c)), c.Whole)
	}
	meaning := map[string]string{}
	for _, s := range c.Spans {
		meaning[s.Name] = s.Meaning
	}
	if !strings.Contains(meaning[bootstudy.Until], "--until") || !strings.Contains(meaning["CPU"], "the boot's end") || meaning[bootstudy.FirstContainer] != "" {
		t.Errorf("spans %q", meaning)
	}
	if len(c.Findings) == 0 || !strings.Contains(c.Findings[0], "a: 2.0 s from the exec") {
		t.Errorf("findings %q", c.Findings)
	}
}
