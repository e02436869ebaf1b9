package store

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
)

// logFile is where a log is kept, below the run's directory.
func (r *Run) logFile(name string) string {
	return filepath.Join(r.dir, "logs", url.PathEscape(name)+".log.gz")
}

// KeepLog keeps the console of an instance of the trial seq. A trial that is done
// again replaces its log.
func (r *Run) KeepLog(seq int, log []byte) error { return r.keepLog(strconv.Itoa(seq), log) }

// KeepBootLog keeps how a target's machine boots, which is no trial's.
func (r *Run) KeepBootLog(target string, log []byte) error { return r.keepLog(target, log) }

func (r *Run) keepLog(name string, log []byte) error {
	file := r.logFile(name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return full(fmt.Errorf("log: %w", err))
	}
	f, err := os.CreateTemp(filepath.Dir(file), ".log.*")
	if err != nil {
		return full(fmt.Errorf("log: %w", err))
	}
	packed := gzip.NewWriter(f)
	_, err = packed.Write(log)
	err = errors.Join(err, packed.Close(), f.Chmod(0o644), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), file)
	}
	if err != nil {
		return full(errors.Join(fmt.Errorf("log %s: %w", file, err), os.Remove(f.Name())))
	}
	return nil
}

// Log reads what was kept of the trial seq. ok is false where nothing was.
func (r *Run) Log(seq int) (log []byte, ok bool, err error) { return r.log(strconv.Itoa(seq)) }

// BootLog reads what was kept of a target's boot. ok is false where nothing was.
func (r *Run) BootLog(target string) (log []byte, ok bool, err error) { return r.log(target) }

func (r *Run) log(name string) (log []byte, ok bool, err error) {
	f, err := os.Open(r.logFile(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("log: %w", err)
	}
	defer f.Close()
	unpacked, err := gzip.NewReader(f)
	if err == nil {
		log, err = io.ReadAll(unpacked)
	}
	if err != nil {
		return nil, false, fmt.Errorf("log %s: %w: %w", f.Name(), err, ErrCorrupt)
	}
	return log, true, nil
}
