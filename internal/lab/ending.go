package lab

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/schedule"
	"github.com/tarelab/tare/internal/store"
	"github.com/tarelab/tare/internal/study"
	"github.com/tarelab/tare/internal/trial"
)

// ending says after each block whether a run has what it was asked for, and which share of
// its rounds the next one has.
type ending struct {
	study study.Study
	began trial.Stamp
	last  trial.Stamp // when the last block ended
	share float64     // of the rounds, from 0 to 1, that the block under way has
	took  []parts     // by the last blocks, at most three
}

// parts are what a block takes with all of its rounds: in them, and besides.
type parts struct{ rounds, besides time.Duration }

// usual is what a block takes: as long as the middle one of the last three, so that one that
// something held up says nothing of the next; of fewer the longest.
func (e *ending) usual() parts {
	sorted := slices.SortedFunc(slices.Values(e.took), func(a, b parts) int { return cmp.Compare(e.length(a), e.length(b)) })
	return sorted[min(1, len(sorted)-1)]
}

// length is how long a block is that has its share of the rounds.
func (e *ending) length(p parts) time.Duration {
	return p.besides + time.Duration(e.share*float64(p.rounds))
}

// newEnding takes what a block of the plan is expected to take.
func newEnding(st study.Study, block time.Duration) *ending {
	now := trial.Now()
	e := &ending{study: st, began: now, last: now, share: 1}
	if fits := e.room(0, st.Budget, block); block > fits {
		e.share = max(leastShare, float64(fits)/float64(block))
	}
	return e
}

// leastShare of its rounds a block has, however little time there is.
const leastShare = 0.1

// budgetBlocks is how many blocks a run with a budget makes room for at least. Each has fewer
// rounds then, and as many blocks say more than fewer longer ones: of 6 blocks an interval is
// nearly as wide as they scatter. What a block takes besides its rounds is paid in each, so yet
// more blocks would leave few rounds.
const budgetBlocks = study.DefaultBlocks

const (
	// givenUp is how much of a block's time the last ones give up together for one more of
	// them: else the budget's end would go unused.
	givenUp = 1.0 / 3
	// keptBack of a block's time is spare, because some blocks take longer than others.
	keptBack = 0.1
)

// room is how long the next block may be: made of them exist, left is the time that remains
// of the budget, and a block with all of its rounds takes whole, or 0 where that is unknown.
// The budget's rest is shared by as many blocks as fit.
func (e *ending) room(made int, left, whole time.Duration) time.Duration {
	if e.study.Budget == 0 {
		return math.MaxInt64
	}
	blocks := budgetBlocks - made
	if whole > 0 {
		blocks = max(blocks, int(float64(left)/float64(whole)+givenUp))
	}
	blocks = max(1, min(blocks, e.study.Blocks-made))
	return time.Duration(float64(left) / (float64(blocks) + keptBack))
}

// begin is called when the first block begins, after trials that belong to none.
func (e *ending) begin() { e.last = trial.Now() }

// after is called when a block is complete, of whose time so much went to the rounds. look
// gives the widest interval of what there is, at an alpha. A run that goes on, or that has
// no more blocks, has no end.
func (e *ending) after(block int, rounds time.Duration, look func(alpha float64) (analysis.Width, error)) (end store.End, over bool, err error) {
	now := trial.Now()
	took := now.Sub(e.last)
	e.last = now
	end = store.End{Blocks: block + 1, Took: now.Sub(e.began)}
	if end.Blocks >= e.study.Blocks {
		return end, false, nil
	}
	seen := func(alpha float64) (half float64, err error) {
		width, err := look(alpha)
		if err != nil {
			return 0, fmt.Errorf("look after %d blocks: %w", end.Blocks, err)
		}
		if width.Cell == "" || math.IsInf(width.Half, 0) {
			return math.Inf(1), nil
		}
		end.Widest, end.Cell = width.Half, width.Cell
		return width.Half, nil
	}
	if e.study.Precision > 0 && slices.Contains(e.study.Looks(), end.Blocks) {
		half, err := seen(e.study.LookAlpha(end.Blocks))
		if err != nil || half <= e.study.Precision {
			end.Reason = store.EndPrecision
			return end, err == nil, err
		}
	}
	e.fit(end.Blocks, e.study.Budget-end.Took, took, rounds)
	if e.study.Budget > 0 && end.Took+e.length(e.usual()) > e.study.Budget {
		end.Reason = store.EndBudget
		_, err := seen(e.study.LastAlpha(end.Blocks))
		return end, err == nil, err
	}
	return end, false, nil
}

// fit settles the share of the next block. made blocks exist, and left is the time that
// remains of the budget. The last block took took, of which rounds were its rounds.
func (e *ending) fit(made int, left, took, rounds time.Duration) {
	e.took = append(e.took, parts{time.Duration(float64(rounds) / e.share), took - rounds})
	if len(e.took) > 3 {
		e.took = e.took[1:]
	}
	whole := e.usual()
	if e.study.Budget > 0 && whole.rounds > 0 {
		room := e.room(made, left, whole.besides+whole.rounds) - whole.besides
		e.share = max(leastShare, min(1, float64(room)/float64(whole.rounds)))
	}
}

// left is how long the run may still take, of what its trials would take.
func (e *ending) left(trials time.Duration) time.Duration {
	if e.study.Budget == 0 {
		return trials
	}
	return max(0, min(trials, e.study.Budget-trial.Now().Sub(e.began)))
}

// look gives the widest interval of what a run has so far.
func (p *Plan) look(alpha float64) (analysis.Width, error) {
	in, err := input(p.Run)
	if err != nil {
		return analysis.Width{}, err
	}
	in.Alpha = alpha
	return analysis.Widest(in), nil
}

// blockEnds says that the trial at i is the last of its block.
func (p *Plan) blockEnds(i int) bool {
	return i+1 == len(p.trials) || p.trials[i+1].Block != p.trials[i].Block
}

// upTo are a plan's trials of its first blocks.
func upTo(trials []schedule.Trial, blocks int) []schedule.Trial {
	i := slices.IndexFunc(trials, func(t schedule.Trial) bool { return t.Block >= blocks })
	if i < 0 {
		return trials
	}
	return trials[:i]
}
