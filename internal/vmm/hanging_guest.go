package vmm

import (
	"errors"
	"fmt"
	"time"
)

// HangError is a guest of which an awaited mark did not come in time.
type HangError struct {
	After, Awaited Mark
	For            time.Duration
}

func (e *HangError) Error() string {
	return fmt.Sprintf("the guest hangs: after %q, no %q came within %v", e.After, e.Awaited, e.For)
}

// StoppedInKernel reports whether a boot came no farther than into its kernel, which
// says nothing yet of what was booted: of some hundreds of boots under TCG with two
// CPUs one was seen to stop there, and went on when it was made again.
func StoppedInKernel(err error) bool {
	var hang *HangError
	return errors.As(err, &hang) && hang.After == MarkKernel && hang.Awaited == MarkInit
}

// Again makes a boot that is no trial, and once more where its guest stopped in its
// kernel: tell says so. A trial's boot is never made again: its failure is a record.
func Again(tell func(string), boot func() error) error {
	err := boot()
	if err == nil || !StoppedInKernel(err) {
		return err
	}
	tell("the guest stopped in its kernel before its first program: it is booted once more")
	return boot()
}
