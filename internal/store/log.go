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

// KeepBootSymbols keeps where the code of the initcalls of a target's boot is.
func (r *Run) KeepBootSymbols(target string, symbols []byte) error {
	return r.keepLog(target+symbolsSuffix, symbols)
}

// KeepSeries keeps what a trial's containers used over time, as its payload told it.
func (r *Run) KeepSeries(seq int, series []byte) error { return r.keepLog(seriesName(seq), series) }

// Series reads what was kept of the trial seq. ok is false where nothing was.
func (r *Run) Series(seq int) (series []byte, ok bool, err error) {
	series, ok, err = r.log(seriesName(seq))
	if errors.Is(err, io.ErrUnexpectedEOF) { // its writer was killed, or still writes
		err = nil
	}
	return series, ok, err
}

// SeriesWriter keeps a series while it comes: what was written before a kill can be
// read. The caller closes it.
func (r *Run) SeriesWriter(seq int) (io.WriteCloser, error) {
	file := r.logFile(seriesName(seq))
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return nil, full(fmt.Errorf("series: %w", err))
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return nil, full(fmt.Errorf("series: %w", err))
	}
	return &seriesWriter{f, gzip.NewWriter(f)}, nil
}

type seriesWriter struct {
	file   *os.File
	packed *gzip.Writer
}

// Write keeps whole readings: each is on its way to the disk when it returns.
func (w *seriesWriter) Write(reading []byte) (int, error) {
	n, err := w.packed.Write(reading)
	if err == nil {
		err = w.packed.Flush()
	}
	return n, full(err)
}

func (w *seriesWriter) Close() error { return full(errors.Join(w.packed.Close(), w.file.Close())) }

func seriesName(seq int) string { return fmt.Sprintf("%d-series", seq) }

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

// BootSymbols reads where the code of the initcalls of a target's boot is. ok is false
// where that was not kept.
func (r *Run) BootSymbols(target string) (symbols []byte, ok bool, err error) {
	return r.log(target + symbolsSuffix)
}

const symbolsSuffix = "-symbols"

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
		return log, true, fmt.Errorf("log %s: %w: %w", f.Name(), err, ErrCorrupt)
	}
	return log, true, nil
}
