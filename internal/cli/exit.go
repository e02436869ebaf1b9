package cli

import (
	"context"
	"errors"
	"io/fs"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/fleet"
	"github.com/tarelab/tare/internal/fleet/engine"
	"github.com/tarelab/tare/internal/gate"
	"github.com/tarelab/tare/internal/lab"
	"github.com/tarelab/tare/internal/store"
)

// The exit codes, as the help shows them. This is the only table.
const (
	exitOK            = 0
	exitLaboratory    = 1
	exitUsage         = 2
	exitTarget        = 3
	exitCannot        = 4
	exitNotComparable = 5
	exitBroken        = 6
	exitOpen          = 7
	exitInterrupted   = 130
	exitReaderGone    = 141 // as a shell tells of a program that SIGPIPE has ended
)

const exitHelp = `Exit codes:
  0    done; every limit is met
  1    the laboratory failed: tare or this machine, not what was weighed
  2    bad usage or bad input; nothing was run
  3    a target or its payload failed; the report names it
  4    what was asked for cannot run here: needs root, or something is missing
  5    a limit is not comparable: the machine was too noisy, a control failed, or no such cell
  6    a limit of the study or of tare gate is broken, or tare history check found a change for the worse
  7    a limit is open, or what tare bisect was asked: more blocks or a quieter machine are needed (tare gate --open pass: 0)
  130  interrupted; what was measured is kept, tare resume goes on
  141  all was done, but whoever read standard output has gone (tare report | head)
`

// usageError is bad input: nothing was run.
type usageError struct{ error }

func (u usageError) Unwrap() error { return u.error }

// refusedBy is the error of a store that took no input: bad input, unless it is the store
// that cannot be written.
func refusedBy(err error) error {
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.EROFS) || errors.Is(err, store.ErrNoSpace) {
		return err
	}
	return usageError{err}
}

// gateError is the worst verdict on limits, which becomes an exit code.
type gateError struct{ verdict gate.Verdict }

func (g gateError) Error() string { return "limits: " + string(g.verdict) }

// onlyVerdict reports whether an error is a verdict on limits and nothing else. What is
// joined with one, such as a report that could not be written, counts for more.
func onlyVerdict(err error) bool {
	switch e := err.(type) { //nolint:errorlint // each that is joined must be one
	case interface{ Unwrap() []error }:
		return !slices.ContainsFunc(e.Unwrap(), func(one error) bool { return !onlyVerdict(one) })
	case gateError:
		return true
	}
	return false
}

func exitCode(err error) int {
	var (
		usage  usageError
		input  *lab.InputError
		failed *lab.FailedError
		cannot *driver.CannotError
		lacks  *lab.LackError
		limits gateError
		open   *lab.OpenError
		away   *engine.CannotError
	)
	if of, ok := fleet.AsResult(err); ok {
		return map[fleet.Fault]int{fleet.OfTarget: exitTarget, fleet.OfLaboratory: exitLaboratory, fleet.CannotRun: exitCannot}[of.Fault]
	}
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, context.Canceled):
		return exitInterrupted
	case errors.As(err, &usage), errors.As(err, &input):
		return exitUsage
	case errors.As(err, &failed):
		return exitTarget
	case errors.As(err, &cannot), errors.As(err, &lacks), errors.As(err, &away):
		return exitCannot
	case errors.As(err, &open):
		return exitOpen
	case onlyVerdict(err) && errors.As(err, &limits):
		return map[gate.Verdict]int{
			gate.Failed: exitTarget, gate.Broken: exitBroken, gate.NotComparable: exitNotComparable, gate.Open: exitOpen,
		}[limits.verdict]
	case errors.Is(err, errReaderGone):
		return exitReaderGone
	default:
		return exitLaboratory
	}
}
