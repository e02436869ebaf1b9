package unixbench

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"

	"github.com/tarelab/tare/internal/stats"
)

// passes is one test's score over its passes, reduced in two ways. They
// answer different questions, so a report shows both with their labels.
type passes struct {
	// UnixBench is what UnixBench 5.1.3 would print: the worst third of the
	// passes (rounded down) dropped, the geometric mean of the others. It is
	// there to be compared with published scores, and it is optimistic.
	UnixBench float64 `json:"unixBench"`
	Dropped   int     `json:"dropped"` // passes that UnixBench leaves out
	// All is the geometric mean of all passes, Interval its 95 % interval by
	// Student's t on the logarithms; from two passes on.
	All      float64        `json:"all"`
	Interval stats.Interval `json:"interval"`
	Passes   int            `json:"passes"`
}

// reducePasses reduces the scores of a test's passes, each above 0.
func reducePasses(scores []float64) (passes, error) {
	logs, err := logsOf(scores)
	if err != nil {
		return passes{}, err
	}
	slices.Sort(logs)
	drop := len(logs) / 3
	r := passes{
		UnixBench: math.Exp(stat.Mean(logs[drop:], nil)),
		Dropped:   drop,
		All:       math.Exp(stat.Mean(logs, nil)),
		Passes:    len(logs),
	}
	r.Interval = stats.StudentLog(r.All, logs)
	return r, nil
}

func logsOf(scores []float64) ([]float64, error) {
	if len(scores) == 0 {
		return nil, errors.New("there is no score")
	}
	logs := make([]float64, len(scores))
	for i, s := range scores {
		if !(s > 0) || math.IsInf(s, 0) {
			return nil, fmt.Errorf("%v is no score: it must be above 0", s)
		}
		logs[i] = math.Log(s)
	}
	return logs, nil
}

// indexScore is a number over several tests and the tests it holds: two indexes
// can only be compared when they hold the same tests.
type indexScore struct {
	Value float64  `json:"value"` // geometric mean of the scores
	Tests []string `json:"tests"` // sorted
}

// newIndex is the index over the tests that were run, as UnixBench's
// index is the geometric mean of its tests' scores.
func newIndex(scores map[string]float64) (indexScore, error) {
	tests := slices.Sorted(maps.Keys(scores))
	values := make([]float64, len(tests))
	for i, t := range tests {
		values[i] = scores[t]
	}
	logs, err := logsOf(values)
	if err != nil {
		return indexScore{}, fmt.Errorf("index: %w", err)
	}
	return indexScore{Value: math.Exp(stat.Mean(logs, nil)), Tests: tests}, nil
}

// Fairness is Jain's index of how evenly containers were served: 1 when all got
// the same, 1/n when one got everything (Jain, Chiu, Hawe, DEC-TR-301, 1984).
func fairness(scores []float64) (float64, error) {
	sum, squares := 0., 0.
	for _, s := range scores {
		if s < 0 {
			return 0, fmt.Errorf("%v is no score", s)
		}
		sum, squares = sum+s, squares+s*s
	}
	if squares == 0 {
		return 0, errors.New("nobody got anything")
	}
	return sum * sum / (float64(len(scores)) * squares), nil
}

// cpus is what two machines' scores are brought to a common measure by.
type cpus struct {
	Cores   int     `json:"cores"`   // physical
	Threads int     `json:"threads"` // hardware threads
	GHz     float64 `json:"ghz"`     // while running
}

// machineRatio is one test on a machine by the same test on another.
type machineRatio struct {
	Test      string  `json:"test"`
	Ratio     float64 `json:"ratio"`
	PerCore   float64 `json:"perCore,omitempty"`   // of scores by cores; 0 where one is not known
	PerThread float64 `json:"perThread,omitempty"` // of scores by hardware threads
	PerGHz    float64 `json:"perGHz,omitempty"`    // of scores by clock
}

// machineRatios sets a's scores against b's, over the tests that both have,
// in the order of tests. Without a common test it is empty.
func machineRatios(tests []string, a, b map[string]float64, of, against cpus) []machineRatio {
	var ratios []machineRatio
	for _, t := range tests {
		x, inA := a[t]
		y, inB := b[t]
		if !inA || !inB || y <= 0 {
			continue
		}
		r := x / y
		ratios = append(ratios, machineRatio{
			Test: t, Ratio: r,
			PerCore:   r * by(float64(against.Cores), float64(of.Cores)),
			PerThread: r * by(float64(against.Threads), float64(of.Threads)),
			PerGHz:    r * by(against.GHz, of.GHz),
		})
	}
	return ratios
}

// by is x/y, 0 where one of them is not known.
func by(x, y float64) float64 {
	if x <= 0 || y <= 0 {
		return 0
	}
	return x / y
}
