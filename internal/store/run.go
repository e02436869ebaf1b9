package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/tarelab/tare/internal/sample"
)

// Run is one run directory, open for reading (Open) or for writing too
// (Create, Resume). Its methods are safe for concurrent use.
type Run struct {
	dir      string
	manifest Manifest
	notes    []string

	mu      sync.Mutex
	records *os.File // nil when open for reading
	lock    *os.File
	size    int64  // of the records file, all of it whole lines
	check   *check // of what may be appended; nil when open for reading
	broken  error  // why nothing can be appended any more
}

// Create makes a run directory under root for this process to write. It sets
// the manifest's schema and id, and its creation time where that is zero. The
// id is the time and the study's, with a number where two runs of one study
// begin in the same second.
func Create(root string, m Manifest) (*Run, error) {
	if m.Created.IsZero() {
		m.Created = time.Now().UTC()
	}
	m.Schema = SchemaVersion
	base := filepath.Join(root, "runs")
	if err := os.MkdirAll(base, 0o755); err != nil {
		return nil, full(fmt.Errorf("store: %w", err))
	}
	dir, err := newDir(base, &m)
	if err != nil {
		return nil, full(fmt.Errorf("store: %w", err))
	}
	r := &Run{dir: dir, manifest: m, check: newCheck(m)}
	if err := r.begin(base); err != nil {
		return nil, errors.Join(fmt.Errorf("run %s cannot be made: %w", m.ID, err), r.Close(), os.RemoveAll(dir))
	}
	return r, nil
}

// newDir makes a directory that nobody else has: mkdir(2) is what decides.
func newDir(base string, m *Manifest) (string, error) {
	stem := m.Created.UTC().Format("20060102-150405") + "-" + m.Study.ID
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

func (r *Run) begin(base string) error {
	if err := r.open(os.O_CREATE | os.O_EXCL); err != nil {
		return err
	}
	if err := writeManifest(r.dir, r.manifest); err != nil {
		return err
	}
	return syncDir(base)
}

// open takes the lock and opens the records for appending.
func (r *Run) open(flags int) (err error) {
	if r.lock, err = lock(r.dir); err != nil {
		return err
	}
	r.records, err = os.OpenFile(filepath.Join(r.dir, recordsFile), os.O_RDWR|os.O_APPEND|flags, 0o644)
	return full(err)
}

// Open opens a run for reading. It needs no more than the right to read, and
// the run may be being written. The errors wrap ErrNotRun and ErrNewer.
func Open(dir string) (*Run, error) {
	m, err := readManifest(dir)
	if err != nil {
		return nil, err
	}
	return &Run{dir: dir, manifest: m}, nil
}

// Resume opens a broken run to go on with it. A last line that a kill or a full
// disk cut short is removed, and Notes says so: its trial is not done. The
// error wraps ErrBusy, naming the owner's PID, while another process writes
// the run, and ErrCorrupt, naming the line, where the records are damaged.
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
	if err := r.open(os.O_CREATE); err != nil { // records may be absent after a kill in Create
		return err
	}
	r.check = newCheck(r.manifest)
	whole, err := r.each(func(t *trialLine) error {
		r.check.seen[t.seq] = true
		return nil
	})
	if err != nil {
		return err
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
		r.notes = append(r.notes, fmt.Sprintf("the last record was cut short (%d bytes of it were written) and is removed; its trial will be done again", cut))
	}
	return nil
}

// Append keeps one record: when it returns nil the record is on the disk. A
// run takes each Seq of its plan once. On an error nothing of the record stays
// and every earlier one is whole; it wraps ErrNoSpace where the disk is full.
func (r *Run) Append(record sample.Record) error {
	line, err := json.Marshal(record)
	if err != nil {
		return fmt.Errorf("record %d (%s) cannot be written: %w", record.Seq, record.Cell, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.records == nil:
		return fmt.Errorf("run %s is not open for writing", r.manifest.ID)
	case r.broken != nil:
		return r.broken
	}
	if err := r.check.place(record.Seq, record.Block, []byte(record.Cell)); err != nil {
		return fmt.Errorf("run %s: %w", r.manifest.ID, err)
	}
	if err := r.write(append(line, '\n')); err != nil {
		return fmt.Errorf("run %s: record %d: %w", r.manifest.ID, record.Seq, err)
	}
	r.check.seen[record.Seq] = true
	return nil
}

// write appends one line with one write(2) and waits until it is on the disk.
// Where that fails the file is cut back to whole lines; where even that fails
// the run takes no more records, since the next would join the half line.
func (r *Run) write(line []byte) error {
	_, err := r.records.Write(line)
	if err == nil {
		err = datasync(r.records)
	}
	if err == nil {
		r.size += int64(len(line))
		return nil
	}
	if undo := r.cut(); undo != nil {
		err = errors.Join(err, undo)
		r.broken = full(err)
	}
	return full(err)
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

// Dir is the run's directory.
func (r *Run) Dir() string { return r.dir }

// Manifest is what was known before the first trial.
func (r *Run) Manifest() Manifest { return r.manifest }

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
