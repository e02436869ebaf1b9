package cli

import (
	"context"
	"errors"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/lab"
)

// The exit codes, as the help shows them. This is the only table.
const (
	exitOK            = 0
	exitLaboratory    = 1
	exitUsage         = 2
	exitTarget        = 3
	exitCannot        = 4
	exitNotComparable = 5
	exitDiffers       = 6
	exitOpen          = 7
	exitInterrupted   = 130
	exitReaderGone    = 141 // as a shell tells of a program that SIGPIPE has ended
)

const exitHelp = `Exit codes:
  0    done; with --gate: every target is the same, or differs by less than the margin
  1    the laboratory failed: tare or this machine, not what was weighed
  2    bad usage or bad input; nothing was run
  3    a target or its payload failed; the report names it
  4    what was asked for cannot run here: needs root, or something is missing
  5    with --gate: not comparable, the machine was too noisy or a control failed
  6    with --gate: a target is slower, faster, more or less than the control
  7    with --gate: open, more blocks or a quieter machine are needed
  130  interrupted; what was measured is kept, tare resume goes on
  141  all was done, but whoever read standard output has gone (tare report | head)
`

// usageError is bad input: nothing was run.
type usageError struct{ error }

func (u usageError) Unwrap() error { return u.error }

// gateError is a verdict that --gate turns into an exit code.
type gateError struct{ verdict analysis.Verdict }

func (g gateError) Error() string { return "gate: " + string(g.verdict) }

func exitCode(err error) int {
	var (
		usage  usageError
		input  *lab.InputError
		failed *lab.FailedError
		cannot *driver.CannotError
		lacks  *lab.LackError
		gate   gateError
	)
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, context.Canceled):
		return exitInterrupted
	case errors.As(err, &usage), errors.As(err, &input):
		return exitUsage
	case errors.As(err, &failed):
		return exitTarget
	case errors.As(err, &cannot), errors.As(err, &lacks):
		return exitCannot
	case errors.As(err, &gate):
		return map[analysis.Verdict]int{
			analysis.NotComparable: exitNotComparable, analysis.Open: exitOpen,
			analysis.Slower: exitDiffers, analysis.Faster: exitDiffers, analysis.More: exitDiffers, analysis.Less: exitDiffers,
		}[gate.verdict]
	case errors.Is(err, errReaderGone):
		return exitReaderGone
	default:
		return exitLaboratory
	}
}
