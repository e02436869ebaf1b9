package concurrentstart

import (
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/published"
)

// source is published.yaml: counters of many `docker run` at once.
type source struct {
	published.Source `yaml:",inline"`
	Host             struct {
		CPUs     int    `yaml:"cpus"`
		MemoryGB int    `yaml:"memory_gb"`
		Kernel   string `yaml:"kernel"`
		OS       string `yaml:"os"`
	} `yaml:"host"`
	Method struct {
		Image    string `yaml:"image"`
		Threads  int    `yaml:"threads"`
		Counters string `yaml:"counters"`
	} `yaml:"method"`
	Starts []publishedRow `yaml:"starts"` // by rising number of containers
}

// publishedRow is one row: so many containers started at once. Times are wall time in
// seconds and CPU time in the unit that the name says.
type publishedRow struct {
	Containers      int     `yaml:"containers"`
	Elapsed         float64 `yaml:"elapsed_s"`
	Create          float64 `yaml:"create_ms"` // 0: not given
	TaskClock       float64 `yaml:"task_clock_ms"`
	ContextSwitches int64   `yaml:"context_switches"`
	Migrations      int64   `yaml:"migrations"`
	PageFaults      int64   `yaml:"page_faults"`
	Cycles          int64   `yaml:"cycles"`
	Instructions    int64   `yaml:"instructions"`
	Branches        int64   `yaml:"branches"`
	BranchMisses    int64   `yaml:"branch_misses"`
	User            float64 `yaml:"user_s"`
	System          float64 `yaml:"sys_s"`
}

// publishedStart is a published row, as ratios.
type publishedStart struct {
	N       int     `json:"n"`
	Elapsed float64 `json:"elapsed"` // seconds
	CPU     float64 `json:"cpu"`     // task-clock, seconds
	// Counters are those of perf stat by their names here, in base units.
	Counters       map[string]float64 `json:"counters"`
	ElapsedBy1     float64            `json:"elapsedBy1"`
	ElapsedBy50    float64            `json:"elapsedBy50"` // 0 below 50
	CPUBy50        float64            `json:"cpuBy50"`
	ElapsedPerEach float64            `json:"elapsedPerEach"` // seconds
}

func publishedStartsOf(p *source) []publishedStart {
	if p == nil {
		return nil
	}
	var one, fifty publishedRow
	for _, s := range p.Starts {
		switch s.Containers {
		case 1:
			one = s
		case 50:
			fifty = s
		}
	}
	var out []publishedStart
	for _, s := range p.Starts {
		row := publishedStart{
			N: s.Containers, Elapsed: s.Elapsed, CPU: s.TaskClock / 1e3, Counters: map[string]float64{
				sample.TaskClock: s.TaskClock / 1e3, sample.Switches: float64(s.ContextSwitches), sample.Migrations: float64(s.Migrations),
				sample.PageFaults: float64(s.PageFaults), sample.Cycles: float64(s.Cycles), sample.Instructions: float64(s.Instructions),
				sample.Branches: float64(s.Branches), sample.BranchMisses: float64(s.BranchMisses),
			},
			ElapsedBy1: s.Elapsed / one.Elapsed, ElapsedPerEach: s.Elapsed / float64(s.Containers),
		}
		if s.Containers >= 50 {
			row.ElapsedBy50, row.CPUBy50 = s.Elapsed/fifty.Elapsed, s.TaskClock/fifty.TaskClock
		}
		out = append(out, row)
	}
	return out
}
