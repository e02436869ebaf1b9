package lab

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/sample"
)

// Failures is the error that claims stand for where trials failed: a *FailedError
// where a target or its payload is to blame for one.
func Failures(claims analysis.Claims) error {
	if claims.Failures > 0 && !blamesTarget(claims) {
		return fmt.Errorf("%d of %d trials failed by the laboratory's fault; the report says how", claims.Failures, claims.Trials)
	}
	if claims.Failures > 0 {
		return &FailedError{fmt.Sprintf("%d of %d trials failed; the report names them", claims.Failures, claims.Trials)}
	}
	return nil
}

// blamesTarget reports whether any failure was a target's or its payload's.
func blamesTarget(claims analysis.Claims) bool {
	for _, t := range claims.Tables {
		for _, r := range t.Rows {
			if r.Failure != nil && r.Failure.Fault == sample.FaultTarget {
				return true
			}
		}
	}
	return len(claims.Tables) == 0 // without a table nobody is cleared
}

// WriteOutput writes what the user named a file for. A device, a FIFO or a link, such as
// /dev/stdout, is written to and stays, for a rename would replace the link itself; a
// file is replaced as WriteReport does it.
func WriteOutput(path string, write func(io.Writer) error) error {
	if info, err := os.Lstat(path); err != nil || info.Mode().IsRegular() {
		return WriteReport(path, write)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return fmt.Errorf("output: %w", err)
	}
	return errors.Join(write(f), f.Close())
}

// WriteReport writes a file through a temporary name, so that a report is whole or
// absent.
func WriteReport(path string, write func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("report file: %w", err)
	}
	err = errors.Join(write(f), f.Chmod(0o644), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("report file %s: %w", path, err), os.Remove(f.Name()))
	}
	return nil
}
