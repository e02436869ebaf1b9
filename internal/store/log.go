package store

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"strconv"
)

// logFile is where a log is kept, below the run's directory.
func logFile(name string) string { return "logs/" + url.PathEscape(name) + ".log.gz" }

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
	if err := r.root.Mkdir("logs", 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, NoSpace(fmt.Errorf("series: %w", err))
	}
	f, err := r.root.OpenFile(logFile(seriesName(seq)), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return nil, NoSpace(fmt.Errorf("series: %w", err))
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
	return n, NoSpace(err)
}

func (w *seriesWriter) Close() error { return NoSpace(errors.Join(w.packed.Close(), w.file.Close())) }

func seriesName(seq int) string { return fmt.Sprintf("%d-series", seq) }

func (r *Run) keepLog(name string, log []byte) error {
	return r.writePacked(logFile(name), func(w io.Writer) error {
		_, err := w.Write(log)
		return err
	})
}

// Log reads what was kept of the trial seq. ok is false where nothing was.
func (r *Run) Log(seq int) (log []byte, ok bool, err error) { return r.log(strconv.Itoa(seq)) }

// BootLog reads what was kept of a target's boot. ok is false where nothing was.
func (r *Run) BootLog(target string) (log []byte, ok bool, err error) {
	return r.log(r.hiding.target(target))
}

// BootSymbols reads where the code of the initcalls of a target's boot is. ok is false
// where that was not kept.
func (r *Run) BootSymbols(target string) (symbols []byte, ok bool, err error) {
	return r.log(r.hiding.target(target) + symbolsSuffix)
}

const symbolsSuffix = "-symbols"

func (r *Run) log(name string) (log []byte, ok bool, err error) { return r.readPacked(logFile(name)) }
