package driver

import "context"

// Verb is something that is done to an instance while it is alive.
type Verb string

// The verbs, in the order of their use.
const (
	VerbExec    Verb = "exec"    // run another process inside
	VerbPause   Verb = "pause"   // stop all of its processes from running
	VerbUnpause Verb = "unpause" // let them run again
	VerbStop    Verb = "stop"    // ask the payload to end, by SIGTERM
)

// Verbs are all verbs.
func Verbs() []Verb { return []Verb{VerbExec, VerbPause, VerbUnpause, VerbStop} }

// Exec is what VerbExec runs: an argv, whose first word is an absolute path inside the
// instance, and its standard streams. Its environment is the payload's.
type Exec struct {
	Args  []string
	Stdio Stdio
}

// Act is a verb that was made ready and is then done once.
type Act interface {
	// Do is the timed part. It returns when the target's command or request has
	// returned; that of VerbExec returns when the process has ended, and an exit code
	// other than 0 is an error. When ctx is cancelled, Do returns soon.
	Do(ctx context.Context) error
	// Close removes what was made for the verb. It is idempotent.
	Close() error
}
