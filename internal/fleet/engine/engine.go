// Package engine is the seam between a fleet and somebody else's scheduler, such as a
// batch system or a cluster of containers. It knows no engine and no laboratory.
package engine

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// Engine puts one exclusive job on one named machine, reports what became of it, and
// gives its output while the job writes it. Jobs are known by their names, so that
// whoever comes back after a kill -9 finds its own.
//
// An engine is made with its own options (a partition, an image, a namespace) and with
// the program that jobs run. All methods may be called at the same time. An error that
// is not a RefusedError is of the moment: the same call may succeed later.
type Engine interface {
	// Machines lists the machines that where selects, in the order of their names, also
	// those that take no jobs now. A key that the engine does not know is a SelectorError.
	Machines(ctx context.Context, where Selector) ([]Machine, error)
	// Show returns what Submit would hand to the engine, as text for a person.
	Show(ctx context.Context, job Job) (string, error)
	// Submit asks the engine to run a job. A name that the engine has already, waiting,
	// running or over, is not run again, and is no error. A job that the engine does not
	// take is a RefusedError with the engine's own words.
	Submit(ctx context.Context, job Job) error
	// States asks for all of the named jobs with one request. A job that the engine does
	// not know, or no longer knows, is not in the result.
	States(ctx context.Context, names []string) (map[string]State, error)
	// Follow reads the standard output of a job from a byte on, while the job writes it,
	// with standard error in it where the engine does not keep them apart.
	// It waits for a job that has not begun. The reader ends with io.EOF once the job is
	// over and all was read, and with an error when ctx ends.
	Follow(ctx context.Context, name string, from int64) (io.ReadCloser, error)
	// Remove ends a job, with SIGTERM first and Grace to finish, and takes away what the
	// engine keeps of it, output included. It returns when the job is over. A job that is
	// not there is no error.
	Remove(ctx context.Context, name string) error
}

// Kind is an engine that a user can name. internal/fleet/all lists them.
type Kind struct {
	// Name is what --engine takes.
	Name string
	// Options defines the engine's own flags. What it returns makes the engine, once they
	// are parsed; its error is of what the user gave. A fleet keeps the flags that were
	// given, so that another process makes the same engine.
	Options func(flags *pflag.FlagSet) func(Site) (Engine, error)
}

// Site is what an engine may need of where the fleet is.
type Site struct {
	Tool string // path of this program
	Dir  string // the fleet's own directory, which exists once a job is submitted
}

// Grace is how long a job has between SIGTERM and SIGKILL, where the engine lets the
// user choose that.
const Grace = 60 * time.Second

// Job is what an engine runs: one program, alone on one machine, once.
type Job struct {
	// Name is unique in the engine: a DNS label (RFC 1123), at most 63 bytes.
	Name string
	// Fleet is a DNS label that all jobs of a fleet have.
	Fleet string
	// Machine is the engine's name of the machine.
	Machine string
	// Where is what the machine was selected by.
	Where Selector
	// Args are the arguments of the program that the engine was made with.
	Args []string
	// Time is the last resort: the engine ends a job that runs longer, as Remove does. It
	// may round up to its own unit.
	Time time.Duration
}

// Phase says what became of a job.
type Phase string

// The phases. Waiting, Running and Unknown are asked for again, all others are final.
const (
	Waiting     Phase = "waiting"       // not begun; Reason says why
	Running     Phase = "running"       // or about to begin, or about to end
	Ended       Phase = "ended"         // by itself, with State.Exit
	Lost        Phase = "lost"          // its machine failed or cannot be reached
	Taken       Phase = "taken"         // preempted or evicted: the machine was given to somebody else
	TooLong     Phase = "too long"      // Job.Time was over
	OutOfMemory Phase = "out of memory" // it was killed for its use of memory
	Cancelled   Phase = "cancelled"     // somebody ended it through the engine
	Unknown     Phase = "unknown"       // a word that this package does not know, in Reason; never a verdict
)

// Over reports whether a job in this phase will not run any more.
func (p Phase) Over() bool { return p != Waiting && p != Running && p != Unknown }

// State is what an engine says of a job.
type State struct {
	Phase Phase `json:"phase"`
	// ID is the engine's own name of the job, to ask the engine for more.
	ID string `json:"id,omitempty"`
	// Machine is where it runs or ran, "" while it waits.
	Machine string `json:"machine,omitempty"`
	// Reason is the engine's own word, such as NODE_FAIL, and Message its own sentence.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Exit is the exit code of the program, 128 and the number of a signal that ended it;
	// nil where the engine does not know.
	Exit *int `json:"exit,omitempty"`
}

// Words are what the engine said, on one line.
func (s State) Words() string {
	words := slices.DeleteFunc([]string{s.Reason, s.Message}, func(w string) bool { return w == "" })
	return strings.Join(words, ": ")
}

// Machine is one that an engine has.
type Machine struct {
	Name string `json:"name"`
	// Arch is the architecture as Go names it, "" where the engine does not know.
	Arch string `json:"arch,omitempty"`
	CPUs int    `json:"cpus,omitempty"`
	// State is in the engine's own words.
	State string `json:"state"`
	// Up is whether it takes jobs, now or after those that run there; Idle is whether it
	// is up and nobody's job runs on it.
	Up   bool `json:"up"`
	Idle bool `json:"idle"`
	// Others is what runs there beside fleets' jobs, by the engine's names; none where the
	// engine gives whole machines.
	Others []string `json:"others,omitempty"`
	// Labels are what a Selector selects by, for people.
	Labels map[string]string `json:"labels,omitempty"`
}

// Selector are what machines must have, by the engine's own keys, such as partition.
type Selector map[string]string

// ParseSelector reads KEY=VALUE,KEY=VALUE.
func ParseSelector(text string) (Selector, error) {
	where := Selector{}
	for pair := range strings.SplitSeq(text, ",") {
		key, value, ok := strings.Cut(pair, "=")
		if !ok || key == "" || value == "" {
			return nil, fmt.Errorf("%q is not KEY=VALUE", pair)
		}
		if _, twice := where[key]; twice {
			return nil, fmt.Errorf("%s is given twice", key)
		}
		where[key] = value
	}
	return where, nil
}

func (s Selector) String() string {
	var pairs []string
	for _, key := range slices.Sorted(maps.Keys(s)) {
		pairs = append(pairs, key+"="+s[key])
	}
	return strings.Join(pairs, ",")
}

// SelectorError says that an engine cannot select machines so.
type SelectorError struct{ Why string }

func (e *SelectorError) Error() string { return e.Why }

// RefusedError says that an engine does not take a job.
type RefusedError struct {
	Job   string
	Words string // the engine's own
	// Full says that it may take the job once others have ended.
	Full bool
}

func (e *RefusedError) Error() string { return "the engine refused job " + e.Job + ": " + e.Words }

// CannotError says that the engine is not there: a command is missing, or a server
// cannot be reached, or does not let the user in.
type CannotError struct{ Err error }

func (e *CannotError) Error() string { return e.Err.Error() }

func (e *CannotError) Unwrap() error { return e.Err }
