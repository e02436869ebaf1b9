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

// NoSpace makes an error that means a full disk or an exhausted quota wrap ErrNoSpace,
// once; every other error stays as it is.
func NoSpace(err error) error {
	if !errors.Is(err, ErrNoSpace) && (errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)) {
		return fmt.Errorf("%w (%w)", ErrNoSpace, err)
	}
	return err
}
