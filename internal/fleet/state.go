package fleet

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/tarelab/tare/internal/limit"
	"github.com/tarelab/tare/internal/store"
	"github.com/tarelab/tare/internal/sys"
)

// Files of a fleet that an engine runs. The runs themselves are below runs.
const (
	planFile  = "fleet.json"
	jobsFile  = "jobs.jsonl"
	streamDir = "streams" // output of jobs, until it is a run
	runsDir   = "runs"
)

// ErrNoPlan says that a fleet was not begun by tare fleet run.
var ErrNoPlan = errors.New("it was not begun by tare fleet run")

// ErrForeign says that somebody else made the fleet, or can change it: its plan has
// commands, and its directory takes output.
var ErrForeign = errors.New("the fleet is not yours to go on with")

// ErrCollected says that another process collects the fleet.
var ErrCollected = errors.New("another process collects this fleet")

// Begin makes the directory of a fleet, with its plan.
func Begin(dir string, p Plan) (err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("fleet: %w", err)
	}
	p.Schema = planSchema
	text, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return fmt.Errorf("fleet: %w", err)
	}
	root, err := openOurs(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	held, err := takeLock(root)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, held.Close()) }()
	if _, err := root.Lstat(planFile); !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(fmt.Errorf("the fleet in %s was begun already: tare fleet resume goes on with it", dir), err)
	}
	if err = root.Mkdir(streamDir, 0o755); err == nil || errors.Is(err, fs.ErrExist) {
		err = writePlan(root, append(text, '\n'))
	}
	if err != nil {
		return fmt.Errorf("fleet: %w", err)
	}
	return nil
}

// writePlan writes the plan whole or not at all. Who calls it has the fleet's lock: rename
// replaces what is there.
func writePlan(root *os.Root, text []byte) error {
	temporary := fmt.Sprintf(".%s.%d", planFile, os.Getpid())
	f, err := store.OpenFile(root, temporary, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = root.Rename(temporary, planFile)
	}
	if err != nil {
		return errors.Join(err, root.Remove(temporary))
	}
	return syncRoot(root)
}

func syncRoot(root *os.Root) error {
	d, err := root.Open(".")
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// openFleet opens the directory of a fleet; the error is ErrNoPlan where it is not there.
// All its files are opened below it: what others made there may lead anywhere.
func openFleet(dir string) (*os.Root, error) {
	root, err := os.OpenRoot(dir + "/") // which a pipe has not, whose other end would be waited for
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("no fleet is at %s: %w", dir, ErrNoPlan)
	}
	if err != nil {
		return nil, fmt.Errorf("fleet: %w", err)
	}
	return root, nil
}

// openOurs is openFleet of a fleet that this user made; the error of another is ErrForeign.
func openOurs(dir string) (*os.Root, error) {
	root, err := openFleet(dir)
	if err != nil {
		return nil, err
	}
	if err := store.Ours(root, []string{streamDir, runsDir}, []string{planFile, jobsFile, store.LockFile}); err != nil {
		return nil, errors.Join(fmt.Errorf("%w: %w (tare fleet report and status read it)", ErrForeign, err), root.Close())
	}
	return root, nil
}

// ReadPlan reads the plan of the fleet in dir, which this user made; the error is ErrNoPlan
// where it has none, and ErrForeign where somebody else made it.
func ReadPlan(dir string) (Plan, error) {
	root, err := openOurs(dir)
	if err != nil {
		return Plan{}, err
	}
	defer func() { _ = root.Close() }() // only read
	return readPlan(root)
}

func readPlan(root *os.Root) (Plan, error) {
	text, err := sys.ReadForeignIn(root, planFile, limit.FleetPlan)
	if errors.Is(err, fs.ErrNotExist) {
		return Plan{}, fmt.Errorf("%s: %w", filepath.Clean(root.Name()), ErrNoPlan)
	}
	if err != nil {
		return Plan{}, fmt.Errorf("fleet: %w", err)
	}
	return decodePlan(text)
}

// decodePlan checks what others may have written.
func decodePlan(text []byte) (Plan, error) {
	var p Plan
	if err := json.Unmarshal(text, &p); err != nil {
		return p, fmt.Errorf("%s: %w", planFile, err)
	}
	switch {
	case p.Schema != planSchema:
		return p, fmt.Errorf("%s has the schema %d, and this tare reads %d", planFile, p.Schema, planSchema)
	case p.Wanted < 1 || p.Wanted > len(p.Order) || p.AtOnce < 1 || p.Attempts < 1 || p.Time <= 0 || p.WaitAtMost < 0:
		return p, fmt.Errorf("%s is damaged: its numbers make no sense", planFile)
	case p.Token == "" || len(p.Token) > 16 || notLabel.MatchString(p.Token):
		return p, fmt.Errorf("%s is damaged: token %.40q", planFile, p.Token)
	}
	return p, limit.EngineAnswer.CheckItems(len(p.Order)) // an engine's answer named them
}

// readEvents reads what happened so far. whole is how many bytes of the file are whole
// lines: a process that was killed may have left a part of one.
func readEvents(root *os.Root, p Plan) (events []Event, whole int64, err error) {
	f, err := sys.OpenForeignIn(root, jobsFile, limit.FleetJobs)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, fmt.Errorf("fleet: %w", err)
	}
	defer func() { _ = f.Close() }() // only read
	return decodeEvents(f, p)
}

func decodeEvents(in io.Reader, p Plan) (events []Event, whole int64, err error) {
	lines := bufio.NewReader(limit.FleetJobs.Reader(in))
	for n := 1; ; n++ {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return events, whole, nil
		}
		if err == nil {
			err = limit.FleetJobs.CheckItems(n)
		}
		var e Event
		if err == nil {
			err = json.Unmarshal(line, &e)
		}
		if err == nil && e.Job != "" && !p.isJob(e.Job) {
			err = fmt.Errorf("%.100q is not the name of a job of this fleet", e.Job)
		}
		if err != nil {
			return nil, 0, fmt.Errorf("%s, line %d: %w", jobsFile, n, err)
		}
		events, whole = append(events, e), whole+int64(len(line))
	}
}

// Statuses is how far the fleet in dir is, machine by machine, and whether a process
// collects it.
func Statuses(dir string) (p Plan, all []Status, collecting bool, err error) {
	root, err := openFleet(dir)
	if err != nil {
		return p, nil, false, err
	}
	defer func() { _ = root.Close() }() // only read
	if p, err = readPlan(root); err != nil {
		return p, nil, false, err
	}
	events, _, err := readEvents(root, p)
	if err != nil {
		return p, nil, false, err
	}
	all = statuses(p, events)
	for i := range all {
		all[i].Records = records(root, all[i].Event)
	}
	return p, all, store.Locked(root), nil
}

// journal is the fleet's file of events, of which this process is the only writer.
type journal struct {
	file *os.File
	lock *os.File
}

// openJournal takes the lock of the fleet, and reads what happened so far.
func openJournal(root *os.Root, p Plan) (*journal, []Event, error) {
	held, err := takeLock(root)
	if err != nil {
		return nil, nil, err
	}
	events, whole, err := readEvents(root, p)
	if err != nil {
		return nil, nil, errors.Join(err, held.Close())
	}
	f, err := store.OpenFile(root, jobsFile, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("fleet: %w", err), held.Close())
	}
	err = f.Truncate(whole)
	if err == nil {
		_, err = f.Seek(whole, io.SeekStart)
	}
	if err = errors.Join(err, syncRoot(root)); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("fleet: %w", err), f.Close(), held.Close())
	}
	return &journal{f, held}, events, nil
}

// write puts an event on the disk before anything follows from it.
func (j *journal) write(e Event) error {
	line, err := json.Marshal(e)
	if err == nil {
		_, err = j.file.Write(append(line, '\n'))
	}
	if err = errors.Join(err, j.file.Sync()); err != nil {
		return fmt.Errorf("fleet: %w", err)
	}
	return nil
}

func (j *journal) close() error { return errors.Join(j.file.Close(), j.lock.Close()) }

// takeLock makes this process the only one that collects the fleet.
func takeLock(root *os.Root) (*os.File, error) { return store.Lock(root, "fleet", ErrCollected) }

// streamOf is the file that holds what came of a job, below the fleet's directory.
func streamOf(job string) string { return filepath.Join(streamDir, job) }
