package analysis

import (
	"cmp"
	"math"
	"slices"

	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/stats"
	"github.com/tarelab/tare/internal/study"
)

// Data holds the numbers of one run by column: per cell the blocks of its
// finished trials, and per metric one float64 for each of them. A million
// trials of 12 metrics take about 100 MiB. Fill it from one goroutine, in the
// order of the records; do not change it while Analyze runs, nor while the
// Claims are in use (their samples may share its memory).
type Data struct {
	cells    map[string]*column
	hint     int // expected trials of one cell
	trials   int
	failures int
}

// column is what one cell has given.
type column struct {
	blocks  []int32 // of the trials that gave samples, in order of arrival
	metrics map[string]*series
	cold    map[string]float64 // means over copies of the trial before the blocks
	trials  int                // finished, the cold one and the failed ones included
	failed  int
	failure *sample.Failure // the first
	notes   notes
	bad     int           // values that were NaN or infinite: dropped
	rounds  []blockSlices // of a cell that was measured in rounds, in order of arrival
	work    work          // what its slices prove of the work
}

// series is one metric of one cell. It takes no memory for the trials that lack the
// metric: foreign records may name thousands that one trial has.
type series struct {
	values []float64
	rows   []int32   // of values in column.blocks; nil while every trial up to the last value has one
	copies []float64 // every copy's value, only where a trial ran several; arrival order
}

// NewData makes an empty Data for a run of these cells. trials is the length of
// the plan (an estimate is fine; 0 if unknown): columns are allocated once for
// it, so that a large run does not pay for growing them.
func NewData(cells []study.Cell, trials int) *Data {
	return &Data{
		cells: make(map[string]*column, len(cells)),
		hint:  trials/max(1, len(cells)) + 1,
	}
}

// Add takes one record. It copies what it keeps (except the failure).
func (d *Data) Add(r *sample.Record) {
	t := d.Trial([]byte(r.Cell), r.Block)
	if r.Failure != nil {
		t.Fail(r.Failure) // first: there are no values to take back
	}
	for name, values := range r.Values {
		t.Value([]byte(name), values...)
	}
	for _, w := range r.Warnings {
		t.Warn(w)
	}
	if r.Failure == nil && r.Slices != nil {
		t.column.addSlices(r.Block, r.Slices)
	}
}

// Trial is one record while it is being added: the way in for a reader that
// streams records and does not want to build a sample.Record for each. Its
// methods may come in any order; a trial that failed keeps no values.
type Trial struct {
	data   *Data
	column *column
	block  int32
	stored bool // the column has a row for it
	failed bool
}

// Trial begins a record of a cell; block -1 is the cold trial. The slice is not
// kept, and the lookup allocates only for a cell's first trial.
func (d *Data) Trial(cell []byte, block int) Trial {
	c := d.cells[string(cell)]
	if c == nil {
		c = &column{metrics: map[string]*series{}, cold: map[string]float64{}}
		d.cells[string(cell)] = c
	}
	c.trials++
	d.trials++
	return Trial{data: d, column: c, block: int32(block)}
}

// failures is how many trials failed; none of a cell that was not measured.
func (c *column) failures() int {
	if c == nil {
		return 0
	}
	return c.failed
}

// lost reports whether trials failed and no other gave a sample.
func (c *column) lost() bool { return c.failures() > 0 && len(c.blocks) == 0 }

// failed lists the cells of which trials failed.
func (in Input) failed() (out []FailedCell) {
	for _, cell := range in.Cells {
		if c := in.Data.cells[cell.ID]; c.failures() > 0 {
			out = append(out, FailedCell{in.Run, cell.ID, label(cell), cell.Group, c.failed, c.failed + len(c.blocks), c.failure})
		}
	}
	return out
}

// Value stores the numbers of one metric, one per copy. In the analysis the
// trial counts with their mean (the block is the unit of inference, its copies
// are not independent); the single copies are described apart. A number that is
// not finite, or beyond 1e100, is dropped, and Analyze warns of it.
func (t *Trial) Value(metric []byte, copies ...float64) {
	mean, n := finiteMean(copies)
	t.column.bad += len(copies) - n
	switch {
	case t.failed || n == 0:
	case t.block < 0:
		t.column.cold[string(metric)] = mean
	default:
		t.store(metric, mean, copies)
	}
}

func (t *Trial) store(metric []byte, mean float64, copies []float64) {
	c := t.column
	if !t.stored {
		if c.blocks == nil {
			c.blocks = make([]int32, 0, t.data.hint)
		}
		c.blocks = append(c.blocks, t.block)
		t.stored = true
	}
	s := c.metrics[string(metric)]
	if s == nil {
		s = &series{}
		if len(c.metrics) < mostRoom {
			s.values = make([]float64, 0, t.data.hint)
		}
		c.metrics[string(metric)] = s
	}
	s.put(len(c.blocks)-1, mean)
	if len(copies) > 1 {
		s.copies = appendFinite(s.copies, copies)
	}
}

// Warn counts a warning of the record by its kind, once for the trial.
func (t *Trial) Warn(w sample.Warning) { t.column.notes.add(w, t.column.trials) }

// Fail says that the trial gave no sample, and takes back what Value stored.
func (t *Trial) Fail(f *sample.Failure) {
	if t.failed {
		return
	}
	c := t.column
	t.failed = true
	c.failed++
	t.data.failures++
	if c.failure == nil {
		c.failure = f
	}
	if t.block < 0 {
		clear(c.cold)
	}
	if !t.stored {
		return
	}
	last := len(c.blocks) - 1
	c.blocks = c.blocks[:last]
	for _, s := range c.metrics {
		s.cut(last)
	}
}

// mostRoom is how many metrics of a cell get room for the whole plan at once; others
// grow with their values.
const mostRoom = 128

// put stores the value of the last row, again where it has one.
func (s *series) put(row int, value float64) {
	s.cut(row)
	if s.rows == nil && len(s.values) < row { // a trial lacked it
		s.rows = make([]int32, len(s.values), len(s.values)+1)
		for i := range s.rows {
			s.rows[i] = int32(i)
		}
	}
	if s.rows != nil {
		s.rows = append(s.rows, int32(row))
	}
	s.values = append(s.values, value)
}

// cut takes back the value of the last row.
func (s *series) cut(row int) {
	last := len(s.values) - 1
	if s.rows == nil && last == row || s.rows != nil && last >= 0 && int(s.rows[last]) == row {
		s.values, s.rows = s.values[:last], s.rows[:min(last, len(s.rows))]
	}
}

// largest is beyond what any probe can measure; larger numbers are garbage, and
// their squares and ratios would not be finite.
const largest = 1e100

func finite(v float64) bool { return math.Abs(v) <= largest } // false for NaN

func finiteMean(x []float64) (mean float64, n int) {
	for _, v := range x {
		if finite(v) {
			n++
			mean += (v - mean) / float64(n)
		}
	}
	return mean, n
}

func appendFinite(to, x []float64) []float64 {
	for _, v := range x {
		if finite(v) {
			to = append(to, v)
		}
	}
	return to
}

// notes counts trials by the kinds of their warnings and keeps the first of each.
type notes []note

type note struct {
	first sample.Warning
	count int // of trials
	last  int // the trial of its cell that was counted last, from 1
}

// like reports whether two are of one kind; notes, which have none, and ways are where
// they have the same words.
func (n note) like(other note) bool {
	worded := n.first.Kind == sample.Note || n.first.Kind == sample.OtherWay
	return n.first.Kind == other.first.Kind && (!worded || n.first.Text == other.first.Text)
}

// add counts a trial once, however many of its streams or instances warn.
func (n *notes) add(w sample.Warning, trial int) {
	if of := n.of(w); of.last != trial {
		of.count, of.last = of.count+1, trial
	}
}

func (n *notes) merge(more note) { n.of(more.first).count += more.count }

// of is the note that counts a warning, a new one for the first of its kind.
func (n *notes) of(w sample.Warning) *note {
	for i := range *n {
		if (*n)[i].like(note{first: w}) {
			return &(*n)[i]
		}
	}
	if len(*n) < maxKinds { // of texts without a kind the last slot stands for the rest
		*n = append(*n, note{first: w})
	}
	return &(*n)[len(*n)-1]
}

// maxKinds bounds what a cell remembers of its warnings.
const maxKinds = 32

// Series is one metric of one cell with one value per block, by block.
type Series struct {
	blocks []int32
	values []float64
}

// series returns a metric of a cell: blocks ascending, one value each (the median
// where a block holds the cell more than once), without the missing ones. It
// shares the column's memory when nothing had to be moved.
func (c *column) series(metric string) Series {
	b := c.arrived(metric)
	if !b.regular() {
		b = b.tidy()
	}
	return b
}

// arrived is a metric of a cell as it came: one value for each trial that has it.
func (c *column) arrived(metric string) Series {
	if c == nil || c.metrics[metric] == nil {
		return Series{}
	}
	s := c.metrics[metric]
	if s.rows == nil {
		return Series{c.blocks[:len(s.values)], s.values}
	}
	blocks := make([]int32, len(s.rows))
	for i, row := range s.rows {
		blocks[i] = c.blocks[row]
	}
	return Series{blocks, s.values}
}

// each is a metric's value of every trial that has one, in order of arrival.
func (c *column) each(metric string) []float64 { return slices.Clone(c.arrived(metric).values) }

// regular reports whether a series has one value for each of its blocks, ascending.
func (b Series) regular() bool {
	for i, v := range b.values {
		if math.IsNaN(v) || i > 0 && b.blocks[i] <= b.blocks[i-1] {
			return false
		}
	}
	return true
}

func (b Series) tidy() Series {
	order := make([]int, 0, len(b.values))
	for i, v := range b.values {
		if !math.IsNaN(v) {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(b.blocks[i], b.blocks[j]) })
	out := Series{make([]int32, 0, len(order)), make([]float64, 0, len(order))}
	for len(order) > 0 {
		block, n := b.blocks[order[0]], 1
		for n < len(order) && b.blocks[order[n]] == block {
			n++
		}
		same := make([]float64, n)
		for i, at := range order[:n] {
			same[i] = b.values[at]
		}
		out.blocks, out.values = append(out.blocks, block), append(out.values, stats.Median(stats.Sorted(same)))
		order = order[n:]
	}
	return out
}

// pairs calls f for each block that both series have.
func pairs(a, b Series, f func(block int32, x, y float64)) {
	for i, j := 0, 0; i < len(a.blocks) && j < len(b.blocks); {
		switch {
		case a.blocks[i] < b.blocks[j]:
			i++
		case a.blocks[i] > b.blocks[j]:
			j++
		default:
			f(a.blocks[i], a.values[i], b.values[j])
			i++
			j++
		}
	}
}
