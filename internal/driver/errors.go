package driver

import (
	"errors"
	"fmt"
	"slices"
)

// CannotError means that a target cannot run on this machine. It says what to do.
type CannotError struct {
	Target string // the driver's name
	Lacks  string // what is missing: "runc is not installed", "needs root"
	Remedy string // what to do: "tare setup installs it"; "" where nothing helps
}

func (e *CannotError) Error() string {
	if e.Remedy == "" {
		return fmt.Sprintf("%s cannot run here: %s", e.Target, e.Lacks)
	}
	return fmt.Sprintf("%s cannot run here: %s (%s)", e.Target, e.Lacks, e.Remedy)
}

// LabError marks a failure of the laboratory: tare or the machine failed, not the
// target. Every other error of a driver is the target's fault.
type LabError struct{ Err error }

func (e *LabError) Error() string { return "laboratory: " + e.Err.Error() }

// Unwrap returns the cause.
func (e *LabError) Unwrap() error { return e.Err }

// Labf makes a LabError with fmt.Errorf's formatting; %w wraps.
func Labf(format string, args ...any) error {
	return &LabError{fmt.Errorf(format, args...)}
}

// RemovalError means that a target did not remove what it was asked to: its engine
// refuses, has died, or hangs. It is the target's fault. Other errors of a clean-up
// are the laboratory's.
type RemovalError struct{ Err error }

func (e *RemovalError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *RemovalError) Unwrap() error { return e.Err }

// RestartError means that an engine of tare's own did not let go of something, and is
// started again by the next trial that needs it. The trial that is over stands.
type RestartError struct{ Err error }

func (e *RestartError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *RestartError) Unwrap() error { return e.Err }

// IsRestart reports whether err is a RestartError, or nothing else is joined in it.
func IsRestart(err error) bool {
	switch e := err.(type) { //nolint:errorlint // each that is joined must be one
	case *RestartError:
		return true
	case interface{ Unwrap() []error }:
		return !slices.ContainsFunc(e.Unwrap(), func(one error) bool { return !IsRestart(one) })
	case interface{ Unwrap() error }:
		return IsRestart(e.Unwrap())
	}
	return false
}

// IsLab reports whether err is the laboratory's fault.
func IsLab(err error) bool {
	var l *LabError
	return errors.As(err, &l)
}
