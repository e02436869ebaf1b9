package schedule

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/tarelab/tare/internal/study"
)

func TestEveryBlockIsComplete(t *testing.T) {
	const cells, blocks = 7, 40
	plan := Plan(make([]study.Cell, cells), blocks, 1)
	if len(plan) != cells*(blocks+1) {
		t.Fatalf("%d trials, want %d", len(plan), cells*(blocks+1))
	}
	for i, trial := range plan {
		if want := i/cells - 1; trial.Seq != i || trial.Block != want {
			t.Fatalf("trial %d is %+v, want block %d", i, trial, want)
		}
	}
	for block := range slices.Chunk(plan, cells) {
		seen := map[int]bool{}
		for _, trial := range block {
			seen[trial.Cell] = true
		}
		if len(seen) != cells {
			t.Errorf("block %d holds cells %v", block[0].Block, seen)
		}
	}
}

func TestSeedDecidesTheOrder(t *testing.T) {
	cells := make([]study.Cell, 5)
	if !slices.Equal(Plan(cells, 20, 9), Plan(cells, 20, 9)) {
		t.Error("the same seed gave two orders")
	}
	if slices.Equal(Plan(cells, 20, 9), Plan(cells, 20, 10)) {
		t.Error("two seeds gave the same order")
	}
}

// A resumed run relies on this order on every machine and with every build: if
// the test fails, the schedule has changed and the store's schema must too.
func TestGoldenOrder(t *testing.T) {
	var got []int
	for _, trial := range Plan(make([]study.Cell, 6), 2, 2026) {
		got = append(got, trial.Cell)
	}
	want := []int{2, 5, 1, 0, 3, 4, 4, 1, 0, 2, 5, 3, 5, 0, 3, 2, 1, 4}
	if !slices.Equal(got, want) {
		t.Errorf("order %v, want %v", got, want)
	}
}

// Every cell must be as likely in every position: a chi-square test of the
// table cell x position. Rows and columns of a permutation's table are fixed,
// hence (n-1)^2 degrees of freedom and the factor (n-1)/n. The seed is fixed,
// so the test is not random; it fails for a shuffle with a bias of a percent.
func TestPositionsAreUniform(t *testing.T) {
	const n, blocks = 8, 40_000
	statistic := chiSquare(Plan(make([]study.Cell, n), blocks, 42), n, blocks)
	if p := (distuv.ChiSquared{K: (n - 1) * (n - 1)}).Survival(statistic); p < 0.001 {
		t.Errorf("chi-square %.1f, p = %.2g: positions are not uniform", statistic, p)
	}
}

// The test above can fail: the well-known wrong shuffle is found out.
func TestBiasedShuffleIsFound(t *testing.T) {
	const n, blocks = 8, 40_000
	random := rand.New(rand.NewPCG(1, 2))
	plan := make([]Trial, n, n*(blocks+1))
	for range blocks {
		p := make([]int, n)
		for i := range p {
			p[i] = i
		}
		for i := range p {
			j := random.IntN(n) // the mistake: not from the rest alone
			p[i], p[j] = p[j], p[i]
		}
		for _, cell := range p {
			plan = append(plan, Trial{Cell: cell})
		}
	}
	statistic := chiSquare(plan, n, blocks)
	if p := (distuv.ChiSquared{K: (n - 1) * (n - 1)}).Survival(statistic); p > 0.001 {
		t.Errorf("chi-square %.1f, p = %.2g: the biased shuffle was not found", statistic, p)
	}
}

// chiSquare compares how often each cell stood in each position with blocks/n.
func chiSquare(plan []Trial, n, blocks int) float64 {
	counts := make([]float64, n*n)
	for i, trial := range plan[n:] { // without the cold trials
		counts[trial.Cell*n+i%n]++
	}
	expected, sum := float64(blocks)/float64(n), 0.0
	for _, c := range counts {
		sum += (c - expected) * (c - expected) / expected
	}
	return sum * float64(n-1) / float64(n)
}

func TestNothingToPlan(t *testing.T) {
	if plan := Plan(nil, 5, 1); len(plan) != 0 {
		t.Errorf("no cells gave %d trials", len(plan))
	}
}

// Cells of a set stand together in each block, in an order of blocks that is random,
// and have no cold trial.
func TestSetsStandTogether(t *testing.T) {
	cells := []study.Cell{{}, {Set: "a"}, {}, {Set: "a"}, {Set: "b"}, {Set: "a"}, {Set: "b", Blocks: 3}}
	plan := Plan(cells, 40, 5)
	places := map[int]bool{} // of set a in its block
	for block := range 40 {
		var sets []string
		for i, trial := range plan {
			if trial.Seq != i {
				t.Fatalf("trial %d is %+v", i, trial)
			}
			if trial.Block == block {
				sets = append(sets, cells[trial.Cell].Set)
			}
		}
		at := slices.Index(sets, "a")
		places[at] = true
		if want := map[bool]int{true: 7, false: 6}[block < 3]; len(sets) != want || !slices.Equal(sets[at:at+3], []string{"a", "a", "a"}) {
			t.Errorf("block %d: %q", block, sets)
		}
	}
	if len(places) < 3 {
		t.Errorf("set a began at %v alone", places)
	}
	for _, trial := range plan {
		if trial.Block == Cold && cells[trial.Cell].Set != "" {
			t.Errorf("%+v is a cold trial of a set", trial)
		}
	}
}

// The trials of cells of several runs are spread evenly over a block: each cell has its
// share of any part of it, up to a trial.
func TestRunsAreSpreadOverABlock(t *testing.T) {
	cells := []study.Cell{{Runs: 12}, {}, {Runs: 12}, {Set: "a"}, {Set: "a"}, {Runs: 5}}
	const cold, ofBlock, passes = 4, 12 + 1 + 12 + 1 + 1 + 5, 12
	plan := Plan(cells, 20, 9)
	if want := cold + 20*ofBlock; len(plan) != want {
		t.Fatalf("%d trials, want %d", len(plan), want)
	}
	for i, trial := range plan[:cold] {
		if trial.Block != Cold || cells[trial.Cell].Set != "" {
			t.Errorf("trial %d is %+v, want a cold one of each cell alone", i, trial)
		}
	}
	for block := range slices.Chunk(plan[cold:], ofBlock) {
		count := map[int]int{}
		for _, trial := range block {
			for i, c := range cells { // by how many of the passes have begun with the first cell
				share := float64(count[0]) / passes * float64(max(1, c.Runs))
				if off := math.Abs(float64(count[i]) - share); off > 2 {
					t.Errorf("block %d: after %d of %d trials of the first cell there are %d of cell %d", block[0].Block, count[0], passes, count[i], i)
				}
			}
			count[trial.Cell]++
		}
		for i, c := range cells {
			if want := max(1, c.Runs); count[i] != want {
				t.Errorf("block %d has %d trials of cell %d, want %d", block[0].Block, count[i], i, want)
			}
		}
	}
}

// A round visits every target of every workload once, those of a workload one after
// another, each as often first as any other.
func TestRoundsVisitNeighbours(t *testing.T) {
	const rounds = 5000
	workloads := []Slices{{rounds, rounds, rounds}, {rounds}, {rounds, rounds, rounds, rounds, rounds}}
	first := make([]int, 5)
	for _, round := range Rounds(workloads, 3) {
		if len(round) != 9 {
			t.Fatalf("a round of %d visits", len(round))
		}
		seen := map[Visit]bool{}
		changes := 0
		for i, v := range round {
			seen[v] = true
			if i == 0 || round[i-1].Workload != v.Workload {
				changes++
				if v.Workload == 2 {
					first[v.Target]++
				}
			}
		}
		if len(seen) != 9 || changes != 3 {
			t.Fatalf("visits %v", round)
		}
	}
	for target, n := range first { // 6 standard deviations
		if n < 1000-170 || n > 1000+170 {
			t.Errorf("target %d was first in %d of %d rounds", target, n, rounds)
		}
	}
	if !slices.EqualFunc(Rounds(workloads, 1), Rounds(workloads, 1), slices.Equal) {
		t.Error("the same seed gave two orders")
	}
}

// A workload with fewer rounds takes part in so many of the others', evenly spread.
func TestRoundsOfUnequalWorkloads(t *testing.T) {
	for _, most := range []int{1, 7, 60, 100} {
		for few := 1; few <= most; few++ {
			var taken []int
			for i, round := range Rounds([]Slices{{most, most}, {few, few, few}}, 1) {
				of := map[int]int{}
				for _, v := range round {
					of[v.Workload]++
				}
				if of[0] != 2 || of[1] != 0 && of[1] != 3 {
					t.Fatalf("round %d of %d visits %v", i, most, round)
				}
				if of[1] > 0 {
					taken = append(taken, i)
				}
			}
			if len(taken) != few || taken[0] != 0 {
				t.Fatalf("%d of %d rounds: taken in %v", few, most, taken)
			}
			for i := 1; i < few; i++ {
				if gap := taken[i] - taken[i-1]; gap != most/few && gap != (most+few-1)/few {
					t.Errorf("%d of %d rounds: %d rounds between %v", few, most, gap, taken[i-1:i+1])
				}
			}
		}
	}
}

// A target with fewer rounds than the others of its workload is visited in some of theirs.
func TestRoundsOfUnequalTargets(t *testing.T) {
	for few := 1; few <= 20; few++ {
		visited := []int{0, 0}
		for _, round := range Rounds([]Slices{{60}, {20, few}}, 1) {
			here := map[Visit]bool{}
			for _, v := range round {
				here[v] = true
			}
			if here[Visit{1, 1}] && !here[Visit{1, 0}] {
				t.Fatalf("%d of 20 rounds: %v has no other to be compared with", few, round)
			}
			for target := range visited {
				if here[Visit{1, target}] {
					visited[target]++
				}
			}
		}
		if !slices.Equal(visited, []int{20, few}) {
			t.Errorf("%d of 20 rounds: %v visits", few, visited)
		}
	}
}
