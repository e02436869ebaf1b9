// Package workload says what a payload runs and what its output means: one
// file per workload, each the maker of a command line and the parser of what
// that command prints. It knows nothing of targets, and it reads no clock.
package workload

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/agext/levenshtein"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/sample"
)

// Workload is one kind of payload. Implementations hold no state.
type Workload interface {
	// Kind is the workload's name in studies: lower case and dashes.
	Kind() string
	// Help says in one sentence what runs and what it tells.
	Help() string
	// Params are the parameters that a study may set, in the order of help.
	Params() []Param
	// Metrics are those that Parse gives, the primary one first; nil where the
	// workload prints nothing of its own.
	Metrics() []sample.Metric
	// Command is the payload's command line for checked parameters and, for
	// workloads that take one, the user's argv.
	Command(v Values, argv []string) (Command, error)
	// Parse reads the payload's whole standard output. It gives the metrics of
	// Metrics in base units, each once, the primary one always, one that this
	// program or kernel cannot tell not at all; or an error that names what was
	// not found. It never panics and never guesses.
	Parse(stdout []byte) ([]sample.Value, error)
}

// Command is what is run inside a target.
type Command struct {
	// Args is the argv; Args[0] is an absolute path in the workbench image, or
	// a bare name for the user's own command. Empty: the mark alone.
	Args []string
	// Env is what the command needs beside the laboratory's environment.
	Env []string
	// Needs are the programs of the workbench image that Args uses, by name.
	Needs []string
	// Commands are programs of this machine, by name, that Args calls besides: the
	// workbench takes them along at their own places, before its own of these names.
	Commands []string
	// Files are files of this machine, of a directory that the user named, for the root.
	Files []File
	// Dynamic is a program of the workbench that Args runs with the C library of this
	// machine; "" for none. Where the root has none that it can run with, the workload
	// is measured with the parameters of Otherwise instead, and the run says so.
	Dynamic   string
	Otherwise map[string]string
	// Gives are the metrics that these parameters have the workload give besides its
	// own.
	Gives []sample.Metric
	// Length is how long the payload runs at least; 0 where that is not known
	// beforehand.
	Length time.Duration
	// Memory is what the payload needs at least, in bytes; 0 where that is not
	// known beforehand.
	Memory int64
	// OwnMachine says that the payload changes what belongs to the whole machine,
	// so that it may run in a virtual one alone.
	OwnMachine bool
	// Modules are what the payload uses of the kernel that may be a module of it, by
	// name. A guest loads them before the payload, since nothing else there does.
	Modules []string
	// Hold says that the payload acts and then waits to be ended. Args is what it
	// does before, and ends by executing the arguments that follow; empty for nothing.
	Hold bool
	// Settle is how long all that are held are idle before they are counted.
	Settle time.Duration
	// Own says that the payload is the own command of the user's image, run without
	// the mark; Args is empty until the image is known.
	Own bool
	// Beside says that the payload starts containers itself, on the machine of the
	// target's Docker (driver.Spec.Beside).
	Beside bool
	// Peer is the argv of the other end, for a payload that talks to one; nil for
	// none. driver.PeerAddress and driver.PeerPort stand for where it listens.
	Peer []string
	// Disk is the directory whose files the payload measures, "" for none: it
	// must lie on a disk, also where the target's root lies in memory.
	Disk string
	// Direct says that those files are accessed past the page cache (O_DIRECT).
	Direct bool
	// Barrier is how many parties of this instance wait for those of the
	// trial's other instances at the page mounted at UnixBarrier; 0 for none.
	Barrier int
	// User is whom the payload runs as, for programs that refuse root; the zero value
	// is root.
	User driver.User
	// Lifecycle says which verbs are done to the instance while it is alive; nil for none.
	Lifecycle *Lifecycle
	// Turns says how the payload takes turns, so that it can be measured in rounds;
	// nil where it cannot.
	Turns *Turns
}

// File is one file for the root.
type File struct {
	Dir  string // of the user's, absolute
	Name string // of the file below it
	Path string // absolute, in the root
	Hint string // what to look at where it does not exist, "" for nothing
}

// All is every workload, in the order of help.
func All() []Workload {
	return append([]Workload{
		start{},
		hold{},
		command{},
		turns{},
		image{},
		sysbenchCPU{},
		sysbenchMemory{},
		sysbenchFileIO{},
		fio{},
		iperf3{},
		netTCP{},
		netUDP{},
		netUnix{},
		netLatency{},
		netConnections{},
		load{},
		lifecycle{},
	}, slices.Concat(openLoops(), asWorkloads(unixTests()), asWorkloads(sliceTests()), churnWorkloads())...)
}

func asWorkloads[T Workload](tests []T) []Workload {
	all := make([]Workload, len(tests))
	for i, t := range tests {
		all[i] = t
	}
	return all
}

// ByKind finds a workload; the error of an unknown kind names the nearest.
func ByKind(kind string) (Workload, error) {
	all := All()
	for _, w := range all {
		if w.Kind() == kind {
			return w, nil
		}
	}
	names := make([]string, len(all))
	for i, w := range all {
		names[i] = w.Kind()
	}
	return nil, fmt.Errorf("unknown workload %q%s", kind, hint(kind, names))
}

// together is a workload that tells something only when the trial's other
// readings are known.
type together interface {
	Together(from, to float64, values map[string][]float64) ([]sample.Value, []sample.Warning)
	// Derived are the metrics that Together gives.
	Derived() []sample.Metric
}

// Job is one workload with its parameters settled: all that a trial needs.
type Job struct {
	Kind string
	Command
	// Metrics are all metrics that a trial of this job may record, the primary
	// one first: the workload's own, then the general ones.
	Metrics []sample.Metric
	// Parse is the workload's parser. Where it is nil, nothing is to be parsed.
	Parse func(stdout []byte) ([]sample.Value, error)
	// Together gives what only all instances of a trial together tell, one value
	// a trial, and warnings. values has one number per instance, by metric; from
	// and to bound the trial on the host's CLOCK_MONOTONIC, in seconds. Nil
	// where there is nothing of the kind.
	Together func(from, to float64, values map[string][]float64) ([]sample.Value, []sample.Warning)
}

// Resolve checks a study's workload and makes its job. params may be nil; argv
// is the user's command, and only kind "command" takes one.
func Resolve(kind string, params map[string]string, argv []string) (Job, error) {
	w, err := ByKind(kind)
	if err != nil {
		return Job{}, err
	}
	if len(argv) > 0 && kind != KindCommand && kind != KindTurns {
		return Job{}, fmt.Errorf("workload %q takes no args: they are for the kinds %q and %q", kind, KindCommand, KindTurns)
	}
	values, err := Check(w.Params(), params)
	if err != nil {
		return Job{}, fmt.Errorf("workload %q: %w", kind, err)
	}
	cmd, err := w.Command(values, argv)
	if err != nil {
		return Job{}, fmt.Errorf("workload %q: %w", kind, err)
	}
	job := Job{Kind: kind, Command: cmd, Metrics: withGeneral(w)}
	job.Metrics = slices.Insert(job.Metrics, len(w.Metrics()), cmd.Gives...)
	if len(w.Metrics()) > 0 {
		job.Parse = w.Parse
	}
	if t, ok := w.(together); ok {
		job.Together = t.Together
		job.Metrics = slices.Insert(job.Metrics, len(w.Metrics()), t.Derived()...)
	}
	if job.Barrier > 0 {
		job.Together = unixTogether
		job.Metrics = slices.Insert(job.Metrics, len(w.Metrics()), sample.Describe(sample.UnixContainersOverlap)...)
	}
	return job, nil
}

// withGeneral lists a workload's metrics and then the general ones. Where the
// workload has none of its own, the primary metric is the time to ready for
// the starts and the wall time for anything else. A command runs without the mark,
// so that nobody knows when it was ready: kind start tells that.
func withGeneral(w Workload) []sample.Metric {
	metrics := general()
	if w.Kind() == KindCommand {
		metrics = slices.DeleteFunc(metrics, func(m sample.Metric) bool { return m.Name == sample.Ready || m.Name == sample.Run })
	}
	if !slices.Contains([]string{KindStart, KindHold, KindImage}, w.Kind()) {
		i := slices.IndexFunc(metrics, func(m sample.Metric) bool { return m.Name == sample.Wall })
		wall := metrics[i]
		metrics = slices.Insert(slices.Delete(metrics, i, i+1), 0, wall)
	}
	return append(slices.Clone(w.Metrics()), metrics...)
}

// hint is " (did you mean ...?)" or the list of what there is.
func hint(name string, known []string) string {
	best, distance := "", 3
	for _, k := range known {
		if d := levenshtein.Distance(name, k, nil); d < distance {
			best, distance = k, d
		}
	}
	if best != "" {
		return fmt.Sprintf(" (did you mean %q?)", best)
	}
	if len(known) == 0 {
		return " (none exists)"
	}
	return fmt.Sprintf(" (there are: %s)", strings.Join(known, ", "))
}
