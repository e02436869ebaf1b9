package lab

// Errors that a verb of any package returns, and that the command line turns into
// its exit codes. A *driver.CannotError is another one.

// InputError is bad input: nothing was run.
type InputError struct{ Err error }

func (e *InputError) Error() string { return e.Err.Error() }

// Unwrap gives the cause.
func (e *InputError) Unwrap() error { return e.Err }

// LackError says that what was asked for is missing here, or that what was looked at
// lacks something. Where a target cannot run, the error is a *driver.CannotError.
type LackError struct{ What string }

func (e *LackError) Error() string { return e.What }

// OpenError says that a question that was asked has no certain answer yet.
type OpenError struct{ What string }

func (e *OpenError) Error() string { return e.What }

// FailedError says that a target or its payload failed; the report names it.
type FailedError struct{ What string }

func (e *FailedError) Error() string { return e.What }
