// Package fleettest makes runs of machines that do not exist, for tests of fleets.
package fleettest

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/hostinfo"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/store"
	"github.com/tarelab/tare/internal/study"
	"github.com/tarelab/tare/internal/workload"
)

// Machine is one that a run is made of.
type Machine struct {
	Host hostinfo.Host
	// Ratios are the true ratios to the control, by target.
	Ratios map[string]float64
	// Noise is the scatter of one trial, as a standard deviation of its logarithm.
	Noise  float64
	Blocks int    // 0: 9
	Cut    int    // records that are missing at the end
	Image  string // "": the same for all
	Seed   uint64
	At     time.Time // zero: a fixed one
	Study  string    // "": weigh
}

// Make writes the run of a machine into the store under root, and gives its directory.
func Make(root string, m Machine) (dir string, err error) {
	if m.Blocks == 0 {
		m.Blocks = 9
	}
	if m.At.IsZero() {
		m.At = time.Date(2026, 11, 23, 4, 39, 50, 0, time.UTC)
	}
	if m.Study == "" {
		m.Study = "weigh"
	}
	if m.Image == "" {
		m.Image = "sha256:9f2c5f0d0a4bb2c3d7e0d65d5b1b2f1f0f3b7c27f0e4f6f5d2f3a1b0c9d8e7f6"
	}
	targets, facts := slices.Sorted(maps.Keys(m.Ratios)), map[string]driver.Facts{}
	for _, t := range targets {
		facts[t] = driver.Facts{Version: "1.0"}
	}
	cold := false
	s := study.Study{ID: m.Study, Title: "What isolation costs", Question: "What does each layer add to a start?", Targets: targets, Cold: &cold, Workloads: []study.Workload{{Kind: workload.KindStart}}, Blocks: m.Blocks}.WithDefaults()
	cells, _ := s.Expand(append([]string{s.Control}, targets...))
	run, err := store.Create(root, store.Manifest{Study: s, Cells: cells, Trials: len(cells) * m.Blocks, Created: m.At, Host: m.Host, Image: m.Image, Targets: facts, Seed: m.Seed, Tool: "test",
		Metrics: map[string][]sample.Metric{workload.KindStart: sample.Describe(sample.Ready, sample.Wall)}})
	if err != nil {
		return "", err
	}
	records := records(m, cells)
	if err := run.Append(records[:len(records)-m.Cut]...); err != nil {
		return "", err
	}
	return run.Dir(), run.Close()
}

func records(m Machine, cells []study.Cell) []sample.Record {
	rng := rand.New(rand.NewPCG(m.Seed, 26))
	var all []sample.Record
	for block := range m.Blocks {
		for _, c := range cells {
			ratio := 1.0
			if r := m.Ratios[c.Target]; r > 0 {
				ratio = r
			}
			ready := 0.010 * ratio * math.Exp(m.Noise*rng.NormFloat64())
			all = append(all, sample.Record{Seq: len(all), Block: block, Cell: c.ID, At: m.At.Add(time.Duration(len(all)) * time.Second).UnixNano(),
				Values: map[string][]float64{sample.Ready: {ready}, sample.Wall: {ready + 0.001}}})
		}
	}
	return all
}

// Host is the n-th of some machines of one kind.
func Host(n int) hostinfo.Host {
	return hostinfo.Host{Hostname: fmt.Sprintf("node%d", n), OS: "Debian GNU/Linux 12 (bookworm)", Kernel: "6.1.0-18-amd64", KernelBuild: "#1 SMP", Arch: "amd64", CPU: "AMD EPYC 7B13",
		CPUs: 8, Cores: 4, Memory: 32 << 30, Virtualization: "none", Cgroup: "v2", Clocksource: "tsc", BootID: fmt.Sprintf("boot-%d", n), Root: true, Machine: fmt.Sprintf("%032x", n+1), Place: hostinfo.PlaceHost}
}
