package lab

import (
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

// ending says after each block whether a run has what it was asked for.
type ending struct {
	study  study.Study
	began  trial.Stamp
	last   trial.Stamp
	longer time.Duration // the longest of them
}

func newEnding(st study.Study) *ending {
	now := trial.Now()
	return &ending{study: st, began: now, last: now}
}

// after is called when a block is complete. look gives the widest interval after
// so many blocks. A run that goes on, or that has no more blocks, has no end.
func (e *ending) after(block int, look func(blocks int) (analysis.Width, error)) (end store.End, over bool, err error) {
	now := trial.Now()
	e.longer, e.last = max(e.longer, now.Sub(e.last)), now
	end = store.End{Blocks: block + 1, Took: now.Sub(e.began)}
	looked := e.study.Precision > 0 && slices.Contains(e.study.Looks(), end.Blocks)
	spent := e.study.Budget > 0 && end.Took+e.longer > e.study.Budget
	if end.Blocks >= e.study.Blocks || !looked && !spent {
		return end, false, nil
	}
	width, err := look(end.Blocks)
	if err != nil {
		return end, false, fmt.Errorf("look after %d blocks: %w", end.Blocks, err)
	}
	if width.Cell != "" && !math.IsInf(width.Half, 0) {
		end.Widest, end.Cell = width.Half, width.Cell
	}
	switch {
	case looked && end.Cell != "" && width.Half <= e.study.Precision:
		end.Reason = store.EndPrecision
	case spent:
		end.Reason = store.EndBudget
	default:
		return end, false, nil
	}
	return end, true, nil
}

// left is how long the run may still take, of what its trials would take.
func (e *ending) left(trials time.Duration) time.Duration {
	if e.study.Budget == 0 {
		return trials
	}
	return max(0, min(trials, e.study.Budget-trial.Now().Sub(e.began)))
}

// look gives the widest interval of a run that has so many blocks.
func (p *Plan) look(blocks int) (analysis.Width, error) {
	in, err := input(p.Run)
	if err != nil {
		return analysis.Width{}, err
	}
	in.Alpha = p.Manifest.Study.LookAlpha(blocks)
	return analysis.Widest(in), nil
}

// blockEnds says that the trial at i is the last of its block.
func (p *Plan) blockEnds(i int) bool {
	return p.trials[i].Block != schedule.Cold && (i+1 == len(p.trials) || p.trials[i+1].Block != p.trials[i].Block)
}

// upTo are a plan's trials of its first blocks.
func upTo(trials []schedule.Trial, blocks int) []schedule.Trial {
	i := slices.IndexFunc(trials, func(t schedule.Trial) bool { return t.Block >= blocks })
	if i < 0 {
		return trials
	}
	return trials[:i]
}
