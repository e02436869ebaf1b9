package fleet

import (
	"context"
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

// following is a job's output on its way into a file.
type following struct {
	job    string
	cancel context.CancelFunc
	done   chan struct{}
	err    error // once done
}

// begin has a job's output come into its file, from where that ends.
func (c *Collector) begin(ctx context.Context, job string) *following {
	ctx, cancel := context.WithCancel(ctx)
	f := &following{job: job, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(f.done)
		defer cancel()
		f.err = c.copyOutput(ctx, job)
	}()
	return f
}

func (c *Collector) copyOutput(ctx context.Context, job string) error {
	to, err := store.OpenFile(c.root, streamOf(job), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("fleet: %w", err)
	}
	info, err := to.Stat()
	if err != nil {
		return errors.Join(err, to.Close())
	}
	from, err := c.Engine.Follow(ctx, job, info.Size())
	if err != nil {
		return errors.Join(err, to.Close())
	}
	_, err = io.Copy(to, io.LimitReader(from, max(0, limit.RunArchive.Bytes-info.Size())))
	return errors.Join(err, from.Close(), to.Sync(), to.Close())
}

// take adds the stream of a job to the fleet's runs, as far as it is a run.
func (c *Collector) take(job string) (collected, error) {
	var got collected
	f, err := sys.OpenForeignIn(c.root, streamOf(job), limit.RunArchive)
	if errors.Is(err, fs.ErrNotExist) {
		return got, nil
	}
	if err != nil {
		return got, fmt.Errorf("fleet: %w", err)
	}
	defer func() { _ = f.Close() }() // only read
	if got.view, err = store.ViewStream(f); err != nil {
		return got, fmt.Errorf("fleet: %w", err)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return got, fmt.Errorf("fleet: %w", err)
	}
	if !got.view.Begun {
		return got, nil
	}
	run, err := Add(c.Dir, f)
	switch {
	case err == nil, errors.Is(err, store.ErrThere):
		got.run = filepath.Base(run)
	case errors.Is(err, store.ErrNoSpace):
		return got, err
	default:
		got.added = err
	}
	return got, nil
}

// records counts what a job has brought so far.
func records(root *os.Root, e Event) int {
	if e.Run != "" {
		return recordsOfRun(filepath.Join(root.Name(), runsDir, filepath.Base(e.Run)))
	}
	if e.Job == "" {
		return 0
	}
	f, err := sys.OpenForeignIn(root, streamOf(e.Job), limit.RunArchive)
	if err != nil {
		return 0
	}
	defer func() { _ = f.Close() }() // only read
	view, err := store.ViewStream(f)
	if err != nil {
		return 0
	}
	return view.Records
}

// recordsOfRun is how many records a run has, 0 for one that cannot be read.
func recordsOfRun(dir string) int {
	run, err := store.Open(dir)
	if err != nil {
		return 0
	}
	defer func() { _ = run.Close() }() // only read
	n := 0
	for _, err := range run.Records() {
		if err == nil { // an error is the last element, not a record
			n++
		}
	}
	return n
}
