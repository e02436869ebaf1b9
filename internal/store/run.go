package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/tarelab/tare/internal/limit"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/study"
	"github.com/tarelab/tare/internal/sys"
)

// Run is one run directory, open for reading (Open) or for writing too
// (Create, Resume). Its methods are safe for concurrent use.
type Run struct {
	dir      string
	root     *os.Root // of dir; closed when nothing refers to the run any more
	manifest Manifest
	notes    []string
	salvage  bool    // see Salvage
	damaged  []error // see Damaged
	hiding   *hiding // see Share; nil hides nothing

	mu      sync.Mutex
	records *os.File // nil when open for reading
	lock    *os.File
	size    int64              // of the records file, all of it whole lines
	check   *check             // of what may be appended; nil when open for reading
	broken  error              // why nothing can be appended any more
	follow  func(lines []byte) // gets what the disk has; nil for nobody
}

// Create makes a run directory under root for this process to write. It sets the
// manifest's schema and id, and its creation time where that is zero. The id is the time,
// the study's and the tag of the machine, with a number where two runs of one study begin
// in the same second: runs of many machines are kept in one place. A manifest that
// declares a metric of the catalogue with another unit or direction is refused.
func Create(root string, m Manifest) (*Run, error) {
	if m.Created.IsZero() {
		m.Created = time.Now().UTC()
	}
	m.Schema, m.Sums = SchemaVersion, sumName
	for _, workload := range slices.Sorted(maps.Keys(m.Metrics)) {
		for _, metric := range m.Metrics[workload] {
			if err := sample.CheckDeclared(metric); err != nil {
				return nil, fmt.Errorf("store: workload %s: %w", workload, err)
			}
		}
	}
	base := filepath.Join(root, "runs")
	if err := makeDirs(base); err != nil {
		return nil, NoSpace(fmt.Errorf("store: %w", err))
	}
	dir, err := newDir(base, &m)
	if err != nil {
		return nil, NoSpace(fmt.Errorf("store: %w", err))
	}
	r := &Run{dir: dir, check: newCheck(m)}
	if err := r.begin(base, m); err != nil {
		return nil, errors.Join(fmt.Errorf("run %s cannot be made: %w", m.ID, err), r.Close(), os.RemoveAll(dir))
	}
	return r, nil
}

// newDir makes a directory that nobody else has: mkdir(2) is what decides.
func newDir(base string, m *Manifest) (string, error) {
	stem := m.Created.UTC().Format("20060102-150405") + "-" + m.Study.ID + "-" + m.Host.Tag()
	for n := 1; ; n++ {
		m.ID = stem
		if n > 1 {
			m.ID = fmt.Sprintf("%s-%d", stem, n)
		}
		dir := filepath.Join(base, m.ID)
		err := os.Mkdir(dir, 0o755)
		if !errors.Is(err, fs.ErrExist) {
			return dir, err
		}
	}
}

func (r *Run) begin(base string, m Manifest) (err error) {
	if r.root, err = os.OpenRoot(r.dir); err != nil {
		return err
	}
	if err := r.open(os.O_CREATE | os.O_EXCL); err != nil {
		return err
	}
	shown, values := m.hideEnvironment()
	if len(values) > 0 {
		if err := writeJSON(r.root, environmentFile, 0o600, values); err != nil {
			return err
		}
	}
	r.manifest = shown
	if err := writeJSON(r.root, manifestFile, 0o644, shown); err != nil {
		return err
	}
	parent, err := os.OpenRoot(base)
	if err != nil {
		return err
	}
	return errors.Join(syncDir(parent, "."), parent.Close())
}

// open takes the lock and opens the records for appending.
func (r *Run) open(flags int) (err error) {
	if r.lock, err = lock(r.root); err != nil {
		return err
	}
	r.records, err = OpenFile(r.root, recordsFile, os.O_RDWR|os.O_APPEND|flags, 0o644)
	return NoSpace(err)
}

// Open opens a run for reading. It needs no more than the right to read, and
// the run may be being written, or be somebody else's. The errors wrap ErrNotRun and
// ErrNewer.
func Open(dir string) (*Run, error) {
	root, err := openRoot(dir)
	if err != nil {
		return nil, err
	}
	m, err := readManifest(dir, root)
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return &Run{dir: dir, root: root, manifest: m}, nil
}

// Resume opens a broken run to go on with it. A last line that a kill or a full
// disk cut short is removed, and Notes says so: its trial is not done. The
// error wraps ErrBusy, naming the owner's PID, while another process writes
// the run, ErrCorrupt, naming the line, where the records are damaged, and ErrForeign
// where the run is not this user's.
func Resume(dir string) (*Run, error) {
	r, err := Open(dir)
	if err != nil {
		return nil, err
	}
	if err := r.recover(); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

func (r *Run) recover() error {
	if err := r.Ours(); err != nil {
		return err
	}
	if err := r.open(os.O_CREATE); err != nil { // records may be absent after a kill in Create
		return err
	}
	r.check = newCheck(r.manifest)
	var last setLines
	whole, _, err := r.each(func(t *trialLine) error {
		r.check.seen[t.seq] = true
		last.add(t, r.check.sets[string(t.cell)])
		return nil
	})
	if err != nil {
		return err
	}
	if missing := last.lacks(r.manifest.Cells); missing > 0 {
		whole = last.from
		for _, seq := range last.seqs {
			r.check.seen[seq] = false
		}
		r.notes = append(r.notes, fmt.Sprintf("%d of the records of block %d of %s were not written: the block will be done again", missing, last.block+1, last.set))
	}
	info, err := r.records.Stat()
	if err != nil {
		return err
	}
	r.size = whole
	if cut := info.Size() - whole; cut > 0 {
		if err := r.cut(); err != nil {
			return err
		}
		if len(r.notes) == 0 {
			r.notes = append(r.notes, fmt.Sprintf("the last record was cut short (%d bytes of it were written) and is removed; its trial will be done again", cut))
		}
	}
	return nil
}

// setLines are the last lines of a file that are of one block of one set of cells,
// whose records are appended together.
type setLines struct {
	set   string
	block int
	seqs  []int
	from  int64 // where the first of them begins
	end   int64 // of all lines so far
}

func (s *setLines) add(t *trialLine, set string) {
	if set == "" || set != s.set || t.block != s.block {
		*s = setLines{set: set, block: t.block, from: s.end, end: s.end}
	}
	s.seqs = append(s.seqs, t.seq)
	s.end += int64(t.length)
}

// lacks is how many cells of the set and block have no line.
func (s *setLines) lacks(cells []study.Cell) int {
	if s.set == "" {
		return 0
	}
	missing := -len(s.seqs)
	for _, c := range cells {
		if c.Set == s.set && (c.Blocks == 0 || s.block < c.Blocks) {
			missing++
		}
	}
	return missing
}

// Append keeps records together: when it returns nil they are on the disk. A
// run takes each Seq of its plan once. On an error nothing of them stays and every
// earlier record is whole; it wraps ErrNoSpace where the disk is full. A kill may
// leave some of the records of a set; then Resume removes them.
func (r *Run) Append(records ...sample.Record) error {
	line := Line
	if r.manifest.Sums == "" { // an older run goes on as it began
		line = plainLine
	}
	var lines []byte
	for _, record := range records {
		one, err := line(record)
		if err != nil {
			return err
		}
		lines = append(lines, one...)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.records == nil:
		return fmt.Errorf("run %s is not open for writing", r.manifest.ID)
	case r.broken != nil:
		return r.broken
	}
	if err := r.admit(records); err != nil {
		return fmt.Errorf("run %s: %w", r.manifest.ID, err)
	}
	if err := r.write(lines); err != nil {
		for _, record := range records {
			r.check.seen[record.Seq] = false
		}
		return fmt.Errorf("run %s: record %d: %w", r.manifest.ID, records[0].Seq, err)
	}
	return nil
}

// admit marks records as there, all of them or none.
func (r *Run) admit(records []sample.Record) error {
	for i, record := range records {
		if err := errors.Join(r.check.place(record.Seq, record.Block, []byte(record.Cell)), r.check.named(record)); err != nil {
			for _, before := range records[:i] {
				r.check.seen[before.Seq] = false
			}
			return err
		}
		r.check.seen[record.Seq] = true
	}
	return nil
}

// write appends whole lines with one write(2) and waits until it is on the disk.
// Where that fails the file is cut back to whole lines; where even that fails
// the run takes no more records, since the next would join the half line.
func (r *Run) write(lines []byte) error {
	_, err := r.records.Write(lines)
	if err == nil {
		err = datasync(r.records)
	}
	if err == nil {
		r.size += int64(len(lines))
		if r.follow != nil {
			r.follow(lines)
		}
		return nil
	}
	if undo := r.cut(); undo != nil {
		err = errors.Join(err, undo)
		r.broken = NoSpace(err)
	}
	return NoSpace(err)
}

func (r *Run) cut() error {
	if err := r.records.Truncate(r.size); err != nil {
		return fmt.Errorf("cutting off half a record: %w", err)
	}
	return datasync(r.records)
}

func datasync(f *os.File) error {
	for {
		err := syscall.Fdatasync(int(f.Fd()))
		if err == nil {
			return nil
		}
		if !errors.Is(err, syscall.EINTR) {
			return &fs.PathError{Op: "fdatasync", Path: f.Name(), Err: err}
		}
	}
}

// Live reports whether another process is measuring the run.
func (r *Run) Live() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lock == nil && Locked(r.root)
}

// Dir is the run's directory.
func (r *Run) Dir() string { return r.dir }

// Manifest is what was known before the first trial, without the values of workloads'
// environment variables: reports are made of it.
func (r *Run) Manifest() Manifest { return r.manifest }

// Measured is the manifest with those values, for who measures. Only the run's owner can
// read them.
func (r *Run) Measured() (Manifest, error) {
	var values map[string]map[string]string
	data, err := sys.ReadForeignIn(r.root, environmentFile, limit.RunManifest)
	if errors.Is(err, fs.ErrNotExist) {
		return r.manifest, nil // it has none, or is of before they were kept apart
	}
	if err == nil {
		err = limit.RunManifest.CheckJSON(data)
	}
	if err == nil {
		err = json.Unmarshal(data, &values)
	}
	if err != nil {
		return Manifest{}, fmt.Errorf("run %s: %s: %w", r.manifest.ID, environmentFile, err)
	}
	return r.manifest.withEnvironment(values), nil
}

// Salvage leaves damaged records out when the run is read, in place of an error.
func (r *Run) Salvage() { r.salvage = true }

// Damaged are the records that Load left out, each with its place.
func (r *Run) Damaged() []error { return r.damaged }

// Notes say what Resume had to mend, one sentence each.
func (r *Run) Notes() []string { return r.notes }

// Done is the set of Seqs that have a record, the caller's to keep; nil for a
// run that is open for reading only.
func (r *Run) Done() map[int]bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.check == nil {
		return nil
	}
	done := map[int]bool{}
	for seq, seen := range r.check.seen {
		if seen {
			done[seq] = true
		}
	}
	return done
}

// Close lets go of the run. It is idempotent; a closed run can still be read.
func (r *Run) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var err error
	if r.records != nil {
		err = r.records.Close()
	}
	if r.lock != nil {
		err = errors.Join(err, r.lock.Close())
	}
	r.records, r.lock = nil, nil
	return err
}
