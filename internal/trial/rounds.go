package trial

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/sample"
)

// Rounds is one block of cells that are measured in rounds: the instances of all
// targets are alive at once, idle, and take turns, one slice at a time.
type Rounds struct {
	Block   int
	Held    []Held
	Order   [][]Visit     // of the slices, round by round
	Slice   time.Duration // asked of each turn
	Timeout time.Duration // of the start of each instance, and of each turn
	// Loads are what runs next to the instances of targets that name one of them, while
	// these take a turn; else they are idle.
	Loads []Load
	// Prepare runs on the host before the block; nil for none.
	Prepare func(ctx context.Context) error
	// Device reads what devices have moved so far for the instances of a target, in
	// bytes; ok is false where nobody counts it. Nil where no turn asks for it.
	Device func(on []driver.Watch) (bytes float64, ok bool, err error)
}

// Held is one target of a block. All of its instances take each turn at once.
type Held struct {
	Driver driver.Driver
	Spec   driver.Spec // without ID, Cgroup and Stdio
	Copies int         // at least 1
	Load   int         // the place of its load in Rounds.Loads, from 1; 0 for none
	Turns  []Turn
}

// Turn is one cell that a target serves.
type Turn struct {
	Seq    int
	Cell   string
	Name   string // as the payload knows it
	Device bool   // what devices move is its evidence
	Bytes  int64  // payload of one iteration: the rate is then in bytes a second; 0 for none
}

// Visit names one slice: Held[Held] takes its Turns[Turn].
type Visit struct{ Held, Turn int }

// RunRounds does one block and appends its records together, one for each cell.
// The error is as Run's: then nothing is recorded, and the block can be done again.
func (r *Runner) RunRounds(ctx context.Context, rounds Rounds) ([]sample.Record, error) {
	b := &block{runner: r, rounds: rounds, at: time.Now().UnixNano()}
	cause := b.measure(ctx)
	untidy := b.close()
	records := b.records(cause)
	if err := ctx.Err(); err != nil {
		return records, errors.Join(err, untidy)
	}
	for _, err := range append(b.causes(), cause, untidy) {
		if diskFull(err) {
			return records, fmt.Errorf("block %d: %w", rounds.Block, errors.Join(err, untidy))
		}
	}
	return records, r.Sink.Append(records...)
}

// block is one block under way.
type block struct {
	runner *Runner
	rounds Rounds
	at     int64
	held   []*held
	loads  []*loaded
	began  Stamp
}

// held is one target of the block, with its instances and what its cells gave.
type held struct {
	Held
	copies []*replica
	err    error    // why the target has failed; nil while it works
	untidy error    // what could not be removed
	cells  []served // as Turns
}

// served is one cell's slices so far.
type served struct {
	slices []slice
	round  []int
	beside did   // what the load did during these slices
	err    error // why the cell has failed, while its target works
}

// slice is one visit.
type slice struct {
	count, bytes float64
	own, cpu     time.Duration
	from, to     Stamp
	device       float64
	counted      bool // device is known
	said         []string
}

func (b *block) measure(ctx context.Context) error {
	if b.rounds.Prepare != nil {
		if err := b.rounds.Prepare(ctx); err != nil {
			return phased{"prepare", driver.Labf("the prepare command: %w", err)}
		}
	}
	for _, h := range b.rounds.Held {
		b.held = append(b.held, &held{Held: h, cells: make([]served, len(h.Turns))})
	}
	// As many start at once as there are CPUs: a start is bounded by the timeout.
	inTurn(len(b.held), runtime.NumCPU(), func(i int) bool {
		b.held[i].err = b.start(ctx, i, b.held[i])
		return ctx.Err() == nil
	})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	for i, load := range b.rounds.Loads {
		l, err := b.runner.begin(ctx, load, fmt.Sprintf("%d-load-%d", b.rounds.Held[0].Turns[0].Seq, i))
		b.loads = append(b.loads, l)
		if err != nil {
			return err
		}
	}
	for i := range b.held { // the first turn sets things up, and is no sample
		for turn := range b.held[i].Turns {
			b.visit(ctx, -1, Visit{i, turn})
		}
	}
	b.began = Now()
	for round, visits := range b.rounds.Order {
		for _, v := range visits {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			b.visit(ctx, round, v)
		}
	}
	return ctx.Err()
}

// loadOf is what runs next to a target; nil for nothing.
func (b *block) loadOf(h *held) *loaded {
	if h.Load == 0 || len(b.loads) < h.Load {
		return nil
	}
	return b.loads[h.Load-1]
}

// start brings the instances of one target to life, one after another.
func (b *block) start(ctx context.Context, number int, h *held) error {
	for i := range max(1, h.Copies) {
		id := fmt.Sprintf("%s-%s-%d-%d-%d", driver.Label, b.runner.RunID, h.Turns[0].Seq, number, i)
		c, err := newReplica(ctx, b.runner, Job{Driver: h.Driver, Spec: h.Spec, turns: true}, id, id)
		if c != nil {
			h.copies = append(h.copies, c)
		}
		if err != nil {
			return phased{"prepare", err}
		}
		bounded, cancel := context.WithTimeout(ctx, b.rounds.Timeout)
		err = c.hold(ctx, bounded)
		cancel()
		if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
			err = phased{"start", fmt.Errorf("the payload had not acted after %v and was killed: give it more with --timeout or the study's timeout", b.rounds.Timeout)}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// deviceEvery: what devices moved is read in every sixteenth turn of a cell. A read takes
// longer than a slice of 1 ms, and slows the slices after it.
const deviceEvery = 16

// visit has one target take one turn. round is -1 for the warm-up.
func (b *block) visit(ctx context.Context, round int, v Visit) {
	h := b.held[v.Held]
	cell := &h.cells[v.Turn]
	if h.err != nil || cell.err != nil {
		return
	}
	turn := h.Turns[v.Turn]
	turn.Device = turn.Device && round >= 0 && len(cell.slices)%deviceEvery == 0
	load := b.loadOf(h)
	if round < 0 {
		load = nil
	}
	err := load.open(ctx)
	var s slice
	if err == nil {
		s, err = b.slice(ctx, h, turn)
	}
	if shut := load.shut(ctx); err == nil {
		err = shut
	}
	beside := load.take()
	var refused *turnError
	var lying *clockError
	switch {
	case errors.As(err, &refused), errors.As(err, &lying):
		cell.err = err
	case err != nil:
		h.err = err
		h.letGo() // it must not work on while others are measured
	case round >= 0:
		cell.slices, cell.round = append(cell.slices, s), append(cell.round, round)
		cell.beside.add(beside)
	}
}

// letGo ends all instances of a target, and returns when they have ended.
func (h *held) letGo() {
	var all sync.WaitGroup
	for _, c := range h.copies {
		all.Go(c.letGo)
	}
	all.Wait()
}

// slice has all instances of a target take a turn at once.
func (b *block) slice(ctx context.Context, h *held, turn Turn) (slice, error) {
	for _, c := range h.copies {
		if err := c.answers.ready(); err != nil {
			return slice{}, phased{"parse", err}
		}
	}
	before, counted, err := b.device(h, turn)
	if err != nil {
		return slice{}, err
	}
	bounded, cancel := context.WithTimeout(ctx, b.rounds.Timeout+b.rounds.Slice)
	defer cancel()
	text := fmt.Sprintf("%s %d\n", turn.Name, b.rounds.Slice.Microseconds())
	from := make([]Stamp, len(h.copies))
	for i, c := range h.copies {
		from[i] = Now()
		if _, err := c.input.WriteString(text); err != nil {
			return slice{}, cmp.Or[error](c.ends(), phased{"wait", fmt.Errorf("the payload does not take its turn: %w", err)})
		}
	}
	s := slice{from: from[0]}
	var rate float64
	var own time.Duration
	for i, c := range h.copies {
		a, err := c.answer(bounded, from[i])
		if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
			err = phased{"wait", fmt.Errorf("the payload had not answered the turn %q after %v and was killed: give it more with --timeout or the study's timeout", turn.Name, b.rounds.Timeout+b.rounds.Slice)}
		}
		if err != nil {
			return slice{}, err
		}
		s.count, s.bytes, s.cpu, s.to = s.count+a.count, s.bytes+a.bytes, s.cpu+a.cpu, max(s.to, a.at)
		s.said = append(s.said, a.said...)
		rate, own = rate+a.count/a.own.Seconds(), a.own
	}
	switch {
	case len(h.copies) == 1:
		s.own = own
	case rate > 0:
		s.own = time.Duration(math.Round(s.count / rate * 1e9))
	default:
		s.own = s.to.Sub(s.from)
	}
	after, still, err := b.device(h, turn)
	s.device, s.counted = after-before, counted && still
	return s, err
}

// device reads what devices have moved for a target, where the turn asks for it.
func (b *block) device(h *held, turn Turn) (bytes float64, ok bool, err error) {
	if !turn.Device || b.rounds.Device == nil {
		return 0, false, nil
	}
	bytes, ok, err = b.rounds.Device(watchesOf(h.copies))
	if err != nil {
		return 0, false, phased{"wait", driver.Labf("bytes of devices: %w", err)}
	}
	return bytes, ok, nil
}

// clockError is a payload whose clock contradicts the laboratory's.
type clockError struct{ own, bracket time.Duration }

func (e *clockError) Error() string {
	return fmt.Sprintf("the payload's clock counted %v for a turn that took %v on the host's clock: its times cannot be used", e.own, e.bracket)
}

// answer waits for the answer to a turn that was given at from.
func (c *replica) answer(ctx context.Context, from Stamp) (answer, error) {
	var l line
	select {
	case l = <-c.answers.lines:
	case <-c.answers.wrong:
		return answer{}, phased{"parse", c.answers.err()}
	case <-c.over:
		return answer{}, c.ends()
	case <-ctx.Done():
		return answer{}, phased{"wait", ctx.Err()}
	}
	bracket := l.at.Sub(from)
	if bracket < 0 { // it came between the look at what is left over and the turn
		return answer{}, phased{"parse", unasked(l.text)}
	}
	a, err := readAnswer(l.text)
	if err != nil {
		return a, phased{"parse", err}
	}
	a.at = l.at
	switch {
	case a.own == 0:
		a.own = max(bracket, 1)
	case a.own > bracket:
		return a, phased{"parse", &clockError{a.own, bracket}}
	}
	return a, nil
}

// endGrace is how long a payload may take to end at the end of its turns.
const endGrace = 20 * time.Second

// finish ends the input, after which the payload ends by itself, or is ended.
func (c *replica) finish() (warning string) {
	c.input.Close()
	if c.over == nil {
		return ""
	}
	timer := time.NewTimer(endGrace)
	defer timer.Stop()
	select {
	case <-c.over:
		if c.waitErr == nil && (c.exit.Code != 0 || c.exit.Signal != 0) {
			return (&exitError{c.exit}).Error() + " at the end of its turns, not 0"
		}
	case <-timer.C:
		return fmt.Sprintf("the payload had not ended %v after the end of its turns and was killed", endGrace)
	}
	return ""
}

// close ends and removes all instances. The error is of those that are in the
// laboratory's way; each target's own is with its records.
func (b *block) close() error {
	var unload error // first, so that they do not slow the ends of the others
	for _, l := range b.loads {
		unload = errors.Join(unload, l.close())
	}
	var all sync.WaitGroup
	errs := make([]error, len(b.held))
	for i, h := range b.held {
		all.Go(func() { errs[i] = h.close() })
	}
	all.Wait()
	if unload != nil {
		unload = phased{"close", driver.Labf("clean-up of a load: %w", unload)}
		for _, h := range b.held {
			h.untidy = errors.Join(h.untidy, unload)
		}
	}
	return errors.Join(append(errs, unload)...)
}

func (h *held) close() error {
	warnings := make([]string, len(h.copies))
	errs := make([]error, len(h.copies))
	inTurn(len(h.copies), 8, func(i int) bool {
		c := h.copies[i]
		warnings[i] = c.finish()
		errs[i] = c.close()
		return true
	})
	for _, w := range warnings {
		if w != "" && h.err == nil {
			h.err = phased{"close", errors.New(w)}
		}
	}
	h.untidy = errors.Join(distinctErrors(errs)...)
	if h.untidy != nil && !errors.As(h.untidy, new(*driver.RemovalError)) {
		h.untidy = driver.Labf("clean-up: %w", h.untidy)
	}
	return h.untidy
}

// causes are the errors of all targets and cells.
func (b *block) causes() []error {
	var all []error
	for _, h := range b.held {
		all = append(all, h.err)
		for _, c := range h.cells {
			all = append(all, c.err)
		}
	}
	return all
}

// records are the block's, in the order of the plan. cause is what stopped all of it.
func (b *block) records(cause error) []sample.Record {
	var all []sample.Record
	for i, given := range b.rounds.Held {
		for t, turn := range given.Turns {
			r := sample.Record{Seq: turn.Seq, Block: b.rounds.Block, Cell: turn.Cell, At: b.at}
			if cause != nil {
				r.Failure = Fail(phaseOf(cause), cause)
			} else {
				b.held[i].fill(&r, t, b)
			}
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(x, y sample.Record) int { return x.Seq - y.Seq })
	return all
}

// fill puts what a cell gave into its record.
func (h *held) fill(r *sample.Record, turn int, b *block) {
	cell := h.cells[turn]
	err := cmp.Or(cell.err, h.err, h.untidy)
	if err == nil && len(cell.slices) == 0 {
		err = phased{"wait", driver.Labf("no round visited it")}
	}
	if err == nil {
		r.Slices = slicesOf(cell, b)
		if r.Values = valuesOf(r.Slices, max(1, float64(h.Turns[turn].Bytes))); r.Values[sample.SliceRate][0] <= 0 {
			err = phased{"parse", fmt.Errorf("the payload's slices of %v hold no iteration: take longer ones (slice)", b.rounds.Slice)}
		}
		for _, v := range cell.beside.values() {
			r.Values[v.Metric] = []float64{v.Value}
		}
	}
	if err == nil {
		return
	}
	r.Values, r.Slices = nil, nil
	r.Failure = failOf(err)
	r.Failure.Stderr = firstTail(h.copies)
}

// slicesOf puts a cell's slices into columns.
func slicesOf(cell served, b *block) *sample.Slices {
	s := &sample.Slices{Round: cell.round}
	said := map[string]bool{}
	device, moved, counted, cpu := 0.0, 0.0, false, false
	for _, one := range cell.slices {
		s.Count = append(s.Count, one.count)
		s.Own = append(s.Own, one.own.Nanoseconds())
		s.CPU = append(s.CPU, one.cpu.Nanoseconds())
		s.From = append(s.From, one.from.Sub(b.began).Nanoseconds())
		s.To = append(s.To, one.to.Sub(b.began).Nanoseconds())
		s.Bytes += one.bytes
		if one.counted {
			device, moved, counted = device+one.device, moved+one.bytes, true
		}
		cpu = cpu || one.cpu > 0
		for _, word := range one.said {
			if len(said) < mostSaid {
				said[word] = true
			}
		}
	}
	if !cpu {
		s.CPU = nil
	}
	if counted {
		s.Device, s.Bytes = &device, moved
	}
	s.Said = slices.Sorted(maps.Keys(said))
	s.Stalled = stalled(s, b.rounds.Slice)
	return s
}

// A slice has stalled that took so many times what was asked for, beyond the time
// that a turn usually takes to reach the target and come back.
const stallFactor = 3

func stalled(s *sample.Slices, asked time.Duration) []int {
	usual := middle(len(s.Own), func(i int) float64 { return float64(s.To[i] - s.From[i] - s.Own[i]) })
	most := float64(stallFactor * asked.Nanoseconds())
	var out []int
	for i, own := range s.Own {
		if float64(own) > most || float64(s.To[i]-s.From[i]) > most+usual {
			out = append(out, i)
		}
	}
	return out
}

// valuesOf are a cell's numbers of one block; an iteration is worth each.
func valuesOf(s *sample.Slices, each float64) map[string][]float64 {
	n := len(s.Count)
	values := map[string][]float64{
		sample.SliceRate:  {middle(n, func(i int) float64 { return each * s.Count[i] / (float64(s.Own[i]) / 1e9) })},
		sample.Turnaround: {middle(n, func(i int) float64 { return float64(s.To[i]-s.From[i]-s.Own[i]) / 1e9 })},
		sample.Stalled:    {float64(len(s.Stalled))},
	}
	if s.CPU != nil && !slices.Contains(s.Count, 0) {
		values[sample.CPUEach] = []float64{middle(n, func(i int) float64 { return float64(s.CPU[i]) / 1e9 / s.Count[i] })}
	}
	return values
}

// middle is the median of f(0) to f(n-1), n > 0.
func middle(n int, f func(int) float64) float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = f(i)
	}
	slices.Sort(x)
	return (x[(n-1)/2] + x[n/2]) / 2
}
