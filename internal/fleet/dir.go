package fleet

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"sync"

	"github.com/tarelab/tare/internal/lab"
	"github.com/tarelab/tare/internal/store"
	"github.com/tarelab/tare/internal/study"
)

// A fleet is a directory of runs, as a store has them: DIR/runs/ID. All of them were
// imported, so that none is ever resumed.

// Add takes a run, as an archive or a stream, into the fleet in dir. The error wraps
// store.ErrThere where the fleet has it; run is then the directory of that one.
func Add(dir string, in io.Reader) (run string, err error) {
	first, err := firstOf(dir)
	if err != nil {
		return "", err
	}
	id := ""
	run, err = store.ImportIf(dir, in, func(m store.Manifest) error {
		id = m.ID
		return admit(dir, first, m)
	})
	if errors.Is(err, store.ErrThere) {
		run = filepath.Join(dir, runsDir, id)
	}
	return run, err
}

// AddRun takes a run of a store.
func AddRun(dir string, run *store.Run) (string, error) {
	from, to := io.Pipe()
	go func() { _ = to.CloseWithError(run.Export(to)) }() // never fails: the reader gets the error
	added, err := Add(dir, from)
	return added, errors.Join(err, from.Close())
}

// firstOf is the manifest of a run that the fleet has, nil for an empty one.
func firstOf(dir string) (*store.Manifest, error) {
	entries, err := os.ReadDir(filepath.Join(dir, runsDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("fleet: %w", err)
	}
	for _, e := range entries {
		if r, err := store.Open(filepath.Join(dir, runsDir, e.Name())); err == nil {
			m := r.Manifest()
			return &m, r.Close()
		}
	}
	return nil, nil
}

// admit refuses a run of another study than the fleet's, and one whose id another run has.
func admit(dir string, first *store.Manifest, m store.Manifest) error {
	if have, err := store.Open(filepath.Join(dir, runsDir, m.ID)); err == nil {
		same := reflect.DeepEqual(have.Manifest(), m)
		if err := have.Close(); err != nil {
			return err
		}
		if !same {
			return fmt.Errorf("another run of the fleet has the id %s", m.ID)
		}
		return fmt.Errorf("%w: %s", store.ErrThere, m.ID)
	}
	if first == nil {
		return nil
	}
	if first.Study.ID != m.Study.ID {
		return fmt.Errorf("run %s is of study %s, and the fleet's runs are of %s: begin another fleet", m.ID, m.Study.ID, first.Study.ID)
	}
	if studyDigest(*first) != studyDigest(m) {
		return fmt.Errorf("run %s is of study %s with other workloads, parameters, environments, control or margin than the fleet's run %s: begin another fleet", m.ID, m.Study.ID, first.ID)
	}
	return nil
}

// readRun is a run of the directory while a fleet is read.
type readRun struct {
	machine Machine
	study   store.Manifest // without cells and metrics
	digest  string
	problem string
}

// Read analyses the fleet in dir; by are the facts to group machines by, nil for
// GroupFacts.
func Read(dir string, by []string) (Report, error) {
	summaries, err := os.ReadDir(filepath.Join(dir, runsDir))
	if errors.Is(err, fs.ErrNotExist) {
		return Report{}, fmt.Errorf("there is no fleet in %s; tare fleet add begins one", dir)
	}
	if err != nil {
		return Report{}, fmt.Errorf("fleet: %w", err)
	}
	names := make([]string, 0, len(summaries))
	for _, e := range summaries {
		if e.Name()[0] != '.' { // it is being imported or removed
			names = append(names, e.Name())
		}
	}
	runs := readAll(filepath.Join(dir, runsDir), names)
	first := mostOf(runs)
	if first == nil {
		return Report{}, fmt.Errorf("the fleet in %s has no run that can be read", dir)
	}
	if by == nil {
		by = GroupFacts()
	}
	var machines []Machine
	var left []LeftOut
	for _, r := range runs {
		switch {
		case r.problem != "":
			left = append(left, LeftOut{Run: r.machine.Run, Why: r.problem})
		case r.digest != first.digest:
			left = append(left, LeftOut{Run: r.machine.Run, Machine: r.machine.Name, Why: fmt.Sprintf("its study (%s) is not that of most runs", short(r.study.Study.ID))})
		default:
			machines = append(machines, r.machine)
		}
	}
	known := factNames(machines)
	for _, name := range by {
		if !slices.Contains(known, name) {
			return Report{}, fmt.Errorf("machines have no fact %q to group by: take some of %v%s", name, known, study.Meant(name, known))
		}
	}
	s := first.study.Study
	report := Analyze(machines, s.Margin, by)
	report.Study, report.Title, report.Question, report.Control = s.ID, s.Title, s.Question, s.Control
	report.LeftOut = slices.Concat(left, report.LeftOut)
	return report, nil
}

// readAll reads runs on all CPUs, in the order of their names.
func readAll(base string, names []string) []readRun {
	runs := make([]readRun, len(names))
	var all sync.WaitGroup
	room := make(chan struct{}, runtime.GOMAXPROCS(0))
	for i, name := range names {
		room <- struct{}{}
		all.Go(func() {
			runs[i] = read(filepath.Join(base, name))
			<-room
		})
	}
	all.Wait()
	return runs
}

func read(dir string) readRun {
	out := readRun{machine: Machine{Run: filepath.Base(dir)}}
	run, err := store.Open(dir)
	if err != nil {
		out.problem = err.Error()
		return out
	}
	defer func() { _ = run.Close() }() // only read
	_, in, err := lab.Report(run)
	if err != nil {
		out.problem = err.Error()
		return out
	}
	m := run.Manifest()
	out.machine, out.digest = Of(m, in.Claims), studyDigest(m)
	out.study.Study.ID, out.study.Study.Title, out.study.Study.Question = m.Study.ID, m.Study.Title, m.Study.Question
	out.study.Study.Control, out.study.Study.Margin = m.Study.Control, m.Study.Margin
	return out
}

// mostOf is a run of the study that most runs are of; nil for none.
func mostOf(runs []readRun) *readRun {
	count := map[string]int{}
	var best *readRun
	for i, r := range runs {
		if r.problem != "" {
			continue
		}
		count[r.digest]++
		if best == nil || count[r.digest] > count[best.digest] {
			best = &runs[i]
		}
	}
	return best
}
