package store

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tarelab/tare/internal/study"
)

// Summary is one run in a list.
type Summary struct {
	ID      string    `json:"id"`
	Dir     string    `json:"dir"`
	Name    string    `json:"name,omitempty"` // that the user gave it
	Study   string    `json:"study"`
	Created time.Time `json:"created"`
	Done    int       `json:"done"`              // records on disk
	Trials  int       `json:"trials"`            // of the plan
	Ended   Reason    `json:"ended,omitempty"`   // why it ended before the last of them, "" where it did not
	Bytes   int64     `json:"bytes"`             // of all files
	Live    bool      `json:"live,omitempty"`    // a process is writing it
	Problem string    `json:"problem,omitempty"` // why it cannot be read, "" when it can
}

// List gives the runs under root, the oldest first. A directory that is no
// readable run is listed with its Problem, unless a process is just making it.
// A store that does not exist yet has no runs.
func List(root string) ([]Summary, error) {
	runs, err := find(root)
	for i := range runs {
		runs[i].measure()
	}
	return runs, err
}

// find is List without what takes reading all of each run: Done and Bytes, which a
// look-up by name does not need.
func find(root string) ([]Summary, error) {
	base := filepath.Join(root, "runs")
	entries, err := os.ReadDir(base)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	var runs []Summary
	for _, e := range entries {
		if temporaryName.MatchString(e.Name()) {
			continue // it is being imported or removed
		}
		s := summary(filepath.Join(base, e.Name()))
		if s.Problem == "" || !s.Live {
			runs = append(runs, s)
		}
	}
	slices.SortStableFunc(runs, func(a, b Summary) int {
		return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(len(a.ID), len(b.ID)), cmp.Compare(a.ID, b.ID))
	})
	return runs, nil
}

// Beside gives the other runs below root that processes are writing, without Done and Bytes.
func (r *Run) Beside(root string) ([]Summary, error) {
	own, err := os.Stat(r.dir)
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	runs, err := find(root)
	return slices.DeleteFunc(runs, func(s Summary) bool {
		there, err := os.Stat(s.Dir)
		return !s.Live || err == nil && os.SameFile(own, there)
	}), err
}

func summary(dir string) Summary {
	s := Summary{ID: filepath.Base(dir), Dir: dir}
	root, err := openRoot(dir)
	if err != nil {
		s.Problem = err.Error()
		return s
	}
	defer func() { _ = root.Close() }() // only read
	s.Live, s.Name = Locked(root), nameOf(root)
	m, err := readManifest(dir, root)
	if err != nil {
		s.Problem = err.Error()
		return s
	}
	s.Study, s.Created, s.Trials = m.Study.ID, m.Created, m.Trials
	return s
}

// measure counts a run's records and bytes.
func (s *Summary) measure() {
	root, err := openRoot(s.Dir)
	if err != nil {
		return // find has said why, or it was removed since
	}
	defer func() { _ = root.Close() }() // only read
	s.Bytes = size(root)
	if s.Problem != "" {
		return
	}
	if s.Done, err = countLines(root); err == nil {
		var end End
		end, _, err = readEnd(root)
		s.Ended = end.Reason
	}
	if err != nil {
		s.Problem = err.Error()
	}
}

func countLines(root *os.Root) (int, error) {
	f, err := OpenFile(root, recordsFile, os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }() // only read
	return linesOf(f)
}

// linesOf counts the lines of records. One that is longer than any record ends it: the
// hole of a sparse file is read for years.
func linesOf(in io.Reader) (int, error) {
	buffer, lines, length := make([]byte, 1<<18), 0, 0
	for {
		n, err := in.Read(buffer)
		lines += bytes.Count(buffer[:n], []byte{'\n'})
		length += n
		if end := bytes.LastIndexByte(buffer[:n], '\n'); end >= 0 {
			length = n - end - 1
		}
		if errors.Is(err, io.EOF) {
			return lines, nil
		}
		if err == nil {
			err = tooLong(length)
		}
		if err != nil {
			return lines, err
		}
	}
}

// Resolve finds the directory of a run by what people call it: "last", its id or name,
// the beginning of one id only, or a path.
func Resolve(root, name string) (string, error) {
	if strings.ContainsRune(name, filepath.Separator) || name == "." || name == ".." {
		return filepath.Clean(name), nil
	}
	runs, err := find(root)
	if err != nil {
		return "", err
	}
	if name == "last" {
		return last(root, runs)
	}
	var found []string
	for _, r := range runs {
		if r.ID == name || r.Name == name && name != "" {
			return r.Dir, nil
		}
		if name != "" && strings.HasPrefix(r.ID, name) {
			found = append(found, r.ID)
		}
	}
	switch len(found) {
	case 1:
		return filepath.Join(root, "runs", found[0]), nil
	case 0:
		if _, err := os.Stat(filepath.Join(name, manifestFile)); name != "" && err == nil {
			return name, nil
		}
		return "", fmt.Errorf("%w: %q is none of those in %s, which tare runs lists%s", ErrNotRun, name, root, study.Meant(name, names(runs)))
	}
	return "", fmt.Errorf("%q begins the ids of %d runs: %s: give more of it", name, len(found), strings.Join(found, ", "))
}

// names are what runs can be called by.
func names(runs []Summary) []string {
	all := []string{"last"}
	for _, r := range runs {
		all = append(all, r.ID)
		if r.Name != "" {
			all = append(all, r.Name)
		}
	}
	return all
}

func last(root string, runs []Summary) (string, error) {
	for _, r := range slices.Backward(runs) {
		if r.Problem == "" {
			return r.Dir, nil
		}
	}
	return "", fmt.Errorf("%w: no readable run exists in %s yet", ErrNotRun, root)
}
