package store

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"math"
	"os"
	"runtime"
	"slices"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/limit"
	"github.com/tarelab/tare/internal/sample"
)

// batchBytes is how much text one batch decodes: large against the cost of
// handing it over, small against the memory of a report.
const batchBytes = 1 << 20

// batchLines is more than the records that batchBytes have room for. A decoded line takes
// some 100 bytes, also where it is empty.
const batchLines = batchBytes / shortestLine

// Load reads all records into columns, decoding on all CPUs. The order of the
// file decides, not the CPUs', so that a report is the same every time. A last
// line that is still being written, or was cut short, is left out. The error
// wraps ErrCorrupt and names the line where the records are damaged.
func (r *Run) Load() (*analysis.Data, error) {
	data := analysis.NewData(r.manifest.Cells, r.roomFor())
	_, damaged, err := r.each(func(t *trialLine) error {
		if t.full != nil {
			data.Add(t.full)
			return nil
		}
		trial := data.Trial(t.cell, t.block)
		for _, m := range t.metrics {
			trial.Value(m.name, m.values...)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	r.damaged = damaged.errors(r.path(recordsFile))
	return data, nil
}

// roomFor is how many records to make room for: the plan's, but not more than the file
// has bytes for.
func (r *Run) roomFor() int {
	info, err := r.root.Stat(recordsFile)
	if err != nil {
		return 0
	}
	return min(r.manifest.Trials, int(info.Size()/shortestLine))
}

// shortestLine is less than the bytes of any record.
const shortestLine = 32

// errStop ends a walk early; it reaches nobody.
var errStop = errors.New("stop")

// Records walks the records in the order of the file. The last element carries
// the error, if there is one; Load is the fast way to read a large run.
func (r *Run) Records() iter.Seq2[sample.Record, error] {
	return func(yield func(sample.Record, error) bool) {
		_, _, err := r.each(func(t *trialLine) error {
			if !yield(t.record(), nil) {
				return errStop
			}
			return nil
		})
		if err != nil && !errors.Is(err, errStop) {
			yield(sample.Record{}, err)
		}
	}
}

// each calls f for every record in the order of the file, after checking that
// it belongs to the plan and stands there once. It returns the length of the
// whole lines, and, of a run that is salvaged, why damaged ones were left out.
func (r *Run) each(f func(*trialLine) error) (whole int64, damaged damages, err error) {
	file, err := OpenFile(r.root, recordsFile, os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, damages{}, nil // killed, or not yet there, between the directory and its first record
	}
	if err != nil {
		return 0, damages{}, fmt.Errorf("records: %w", err)
	}
	defer func() { _ = file.Close() }() // only read
	check := newCheck(r.manifest)
	number := 0
	err = batches(file, r.manifest.Sums != "", func(b *batch) error {
		for i := range b.lines {
			number++
			t := &b.lines[i]
			err := t.err
			r.hiding.record(t)
			if err == nil {
				err = check.place(t.seq, t.block, t.cell)
			}
			if err != nil {
				named := func() error { return fmt.Errorf("%s:%d: %w: %w", r.path(recordsFile), number, ErrCorrupt, err) }
				if !r.salvage {
					return fmt.Errorf("%w (tare verify lists all that is damaged; tare report --salvage leaves it out)", named())
				}
				damaged.add(named)
				continue
			}
			check.seen[t.seq] = true
			if err := f(t); err != nil {
				return err
			}
		}
		whole += int64(len(b.text))
		return nil
	})
	return whole, damaged, err
}

// mostDamaged is how many damaged places are named: a damaged run can have millions.
const mostDamaged = 1000

// damages are what is damaged of a run: the first of many, and how many others.
type damages struct {
	first []error
	more  int
}

// add notes one more, and calls why where it is kept.
func (d *damages) add(why func() error) {
	if len(d.first) < mostDamaged {
		d.first = append(d.first, why())
	} else {
		d.more++
	}
}

// errors are those that were kept, and one that counts the others, which are at path.
func (d *damages) errors(path string) []error {
	if d.more == 0 {
		return d.first
	}
	return append(d.first, fmt.Errorf("%s: %w: %d more like these", path, ErrCorrupt, d.more))
}

// check knows which records a run may hold.
type check struct {
	cells map[string]bool
	sets  map[string]string // of cells that have one
	seen  []bool            // by Seq
	// declared are the metrics that the manifest has besides the catalogue.
	declared map[string]bool
}

func newCheck(m Manifest) *check {
	c := &check{cells: make(map[string]bool, len(m.Cells)), sets: map[string]string{}, seen: make([]bool, m.Trials), declared: map[string]bool{}}
	for _, metrics := range m.Metrics {
		for _, metric := range metrics {
			c.declared[metric.Name] = true
		}
	}
	for _, cell := range m.Cells {
		c.cells[cell.ID] = true
		if cell.Set != "" {
			c.sets[cell.ID] = cell.Set
		}
	}
	return c
}

// place refuses a record that has no place in the plan, or whose place is taken.
func (c *check) place(seq, block int, cell []byte) error {
	switch {
	case seq < 0 || seq >= len(c.seen):
		return fmt.Errorf("record %d is not in the plan, which has %d trials", seq, len(c.seen))
	case c.seen[seq]:
		return fmt.Errorf("record %d is there already", seq)
	case block < -1 || block > math.MaxInt32:
		return fmt.Errorf("record %d is of block %d, which no plan has", seq, block)
	case !c.cells[string(cell)]:
		return fmt.Errorf("record %d is of cell %q, which is not in the manifest", seq, cell)
	}
	return nil
}

// named refuses a record with a metric that is neither in the catalogue nor
// declared by the manifest: a report could say neither its unit nor its direction.
func (c *check) named(record sample.Record) error {
	for _, values := range []map[string][]float64{record.Values, record.Survivors} {
		for name := range values {
			if !sample.Known(name) && !c.declared[name] {
				return fmt.Errorf("record %d has the metric %q, which is neither in the catalogue of metrics nor declared in the manifest", record.Seq, name)
			}
		}
	}
	return nil
}

// pipeline decodes a file in stretches of whole lines on all CPUs and hands
// them on in the file's order.
type pipeline struct {
	sums        bool        // every line has one
	free        chan *batch // to be used again: their number bounds the memory
	todo, order chan job    // every job is sent to both
	quit        chan struct{}
	err         error // of reading; valid once order is closed
}

type job struct {
	batch *batch
	ready chan struct{} // closed when the batch is decoded
}

// mostWorkers decode a file at once. Each may have two of the longest records in memory,
// and more would wait for who reads the file.
const mostWorkers = 8

// batches calls f with each stretch of a file. A last line without its end is
// left out.
func batches(file io.Reader, sums bool, f func(*batch) error) error {
	workers := min(runtime.GOMAXPROCS(0), mostWorkers)
	n := 2 * workers
	p := &pipeline{
		sums: sums,
		free: make(chan *batch, n), todo: make(chan job, n), order: make(chan job, n),
		quit: make(chan struct{}),
	}
	for range n {
		p.free <- new(batch)
	}
	for range workers {
		go p.decode()
	}
	go p.read(file)
	var err error
	for j := range p.order {
		<-j.ready
		if err == nil {
			if err = f(j.batch); err != nil {
				close(p.quit)
			}
		}
		p.free <- j.batch
	}
	return errors.Join(err, p.err)
}

func (p *pipeline) decode() {
	for j := range p.todo {
		j.batch.decode(p.sums)
		close(j.ready)
	}
}

// read ends with the file, at an error, or when nobody wants more.
func (p *pipeline) read(file io.Reader) {
	defer close(p.order)
	defer close(p.todo)
	var tail []byte
	for more := true; more; {
		var b *batch
		select {
		case b = <-p.free:
		case <-p.quit:
			return
		}
		if tail, more, p.err = b.fill(file, tail); p.err != nil {
			return
		}
		j := job{b, make(chan struct{})}
		p.todo <- j
		p.order <- j
	}
}

// fill takes the next stretch: of the tail of the one before, and of the file where the
// tail ends no line. It gives the tail behind the stretch, in the memory of that before.
func (b *batch) fill(file io.Reader, before []byte) (tail []byte, more bool, err error) {
	b.text = append(b.text[:0], before...)
	for ended := false; ; {
		if end := wholeLines(b.text); end > 0 || ended {
			tail = append(before[:0], b.text[end:]...)
			b.text = b.text[:end]
			return tail, !ended || wholeLines(tail) > 0, nil
		}
		if err := tooLong(len(b.text)); err != nil {
			return nil, false, err
		}
		n := len(b.text)
		b.text = slices.Grow(b.text, batchBytes)[:n+batchBytes]
		got, err := io.ReadFull(file, b.text[n:])
		b.text = b.text[:n+got]
		ended = errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		if err != nil && !ended {
			return nil, false, fmt.Errorf("records: %w", err)
		}
	}
}

// wholeLines is where the last of the first batchLines whole lines ends.
func wholeLines(text []byte) (end int) {
	if bytes.Count(text, []byte{'\n'}) <= batchLines {
		return bytes.LastIndexByte(text, '\n') + 1
	}
	for range batchLines {
		end += bytes.IndexByte(text[end:], '\n') + 1
	}
	return end
}

// tooLong refuses a line that is longer than any record.
func tooLong(length int) error {
	if err := limit.RunRecord.CheckBytes(int64(length)); err != nil {
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return nil
}
