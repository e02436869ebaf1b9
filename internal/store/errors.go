package store

import (
	"errors"
	"fmt"
	"syscall"
)

// What can be wrong with a run, for errors.Is.
var (
	ErrNotRun  = errors.New("no such run")
	ErrNewer   = errors.New("newer schema")
	ErrBusy    = errors.New("the run is being written by another process")
	ErrNoSpace = errors.New("no space left for records; every earlier record is kept: free some space, then go on with tare resume")
	ErrCorrupt = errors.New("damaged")
	ErrThere   = errors.New("the store has this run already")
	ErrForeign = errors.New("the run is not yours to write")
)

// full makes an error that means a full disk or an exhausted quota wrap
// ErrNoSpace; every other error stays as it is.
func full(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return fmt.Errorf("%w (%w)", ErrNoSpace, err)
	}
	return err
}

// NoSpace is full for errors of what a run takes beside its records: it lets what
// wraps ErrNoSpace be.
func NoSpace(err error) error {
	if errors.Is(err, ErrNoSpace) {
		return err
	}
	return full(err)
}
