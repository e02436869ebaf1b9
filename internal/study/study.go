// Package study says WHAT is measured: it parses, defaults and validates a
// study (YAML) and expands its factors into cells. It is pure: no files, no
// clock; the built-in studies reach it as bytes.
package study

import (
	"cmp"
	"time"
)

// Study is one experiment: a question, its factors and its rules.
type Study struct {
	ID       string `yaml:"id" json:"id"`             // lower case, digits and dashes
	Title    string `yaml:"title" json:"title"`       // one line
	Question string `yaml:"question" json:"question"` // what the study answers, one or two sentences
	// Targets are names of drivers, or "all" for every driver that works here
	// (variants, whose names hold a slash, are named one by one). Their order is
	// the report's; a ladder's rungs are in this order.
	Targets []string `yaml:"targets" json:"targets"`
	// Optional targets may be missing: they are left out, and listed as left
	// out. One that stands in Targets too keeps its place there; the others
	// follow at the end. A target that is neither optional nor from "all" must run.
	Optional []string `yaml:"optional,omitempty" json:"optional,omitempty"`
	// Paths put each target on each path between two places: "native" and
	// "bridge" give "native@bridge". Those of OptionalPaths may be missing. A
	// target that names its path itself, and the control, stay as they are.
	Paths         []string `yaml:"paths,omitempty" json:"paths,omitempty"`
	OptionalPaths []string `yaml:"optional-paths,omitempty" json:"optionalPaths,omitempty"`
	// Kernels is a factor: each target, a virtual machine, is measured with each of these
	// kernels, as releases ("debian/6.1") or paths. "qemu/microvm" gives
	// "qemu/microvm=debian/6.1". A target that names its kernel stays as it is. The
	// control is by default the first target, with the first kernel.
	Kernels   []string   `yaml:"kernels,omitempty" json:"kernels,omitempty"`
	Workloads []Workload `yaml:"workloads" json:"workloads"`
	// Params are parameters of all workloads that have one of that name; a
	// workload's own stand above them, a level's above those.
	Params       map[string]string `yaml:"params,omitempty" json:"params,omitempty"`
	Environments []Environment     `yaml:"environments,omitempty" json:"limits,omitempty" was:"limits"` // factor; default one level without limits
	// OptionalEnvironments are levels that a machine may be unable to give, such as more
	// CPUs than it has: these are skipped, each with the reason. The others follow
	// Environments.
	OptionalEnvironments []Environment `yaml:"optional-environments,omitempty" json:"optionalEnvironments,omitempty"`
	// DistinctEnvironments has levels that come to the same on the machine measured
	// once: the first of them, which then stands for the others.
	DistinctEnvironments bool  `yaml:"distinct-environments,omitempty" json:"distinctLimits,omitempty" was:"distinct-limits"`
	Copies               []int `yaml:"instances,omitempty" json:"copies,omitempty" was:"copies"` // factor: instances per trial; default [1]
	// Concurrency is a factor: at most how many instances of a trial are under
	// way at one moment; default all of them. A trial with a bound is measured as
	// one: how long all of it took, and what all of it used.
	Concurrency []int  `yaml:"concurrency,omitempty" json:"concurrency,omitempty"`
	Control     string `yaml:"control,omitempty" json:"control,omitempty"` // target that ratios refer to; default "host"
	// ControlCopies are the levels of instances at which the control is measured;
	// default those of Copies. The groups of other levels have no control.
	ControlCopies []int         `yaml:"control-instances,omitempty" json:"controlCopies,omitempty" was:"control-copies"`
	AA            *bool         `yaml:"aa,omitempty" json:"aa,omitempty"`                         // run the control twice a block, to know the noise floor; default true
	Cold          *bool         `yaml:"cold,omitempty" json:"cold,omitempty"`                     // measure every cell once before the blocks; default true
	Counters      *bool         `yaml:"counters,omitempty" json:"counters,omitempty"`             // perf's counters where instances are measured as one, which make starts some percent slower; default true
	Blocks        int           `yaml:"blocks,omitempty" json:"blocks,omitempty"`                 // complete blocks; default 12
	FewerBlocks   FewerBlocks   `yaml:"fewer-blocks,omitempty" json:"fewerBlocks,omitzero"`       // for trials that take very long; default none
	Margin        float64       `yaml:"margin,omitempty" json:"margin,omitempty" as:"fraction"`   // equivalence margin as a fraction; default 0.02
	Alpha         float64       `yaml:"alpha,omitempty" json:"alpha,omitempty" as:"fraction"`     // family-wise error of a table; default 0.05
	Timeout       time.Duration `yaml:"timeout,omitempty" json:"timeout,omitempty" as:"duration"` // of one trial; default 60 s
	// Rounds measures the workloads that can take turns in so many rounds a block;
	// default 0, a window of its own for each trial. Slice is the length of a turn;
	// default 1 ms.
	Rounds int           `yaml:"rounds,omitempty" json:"rounds,omitempty"`
	Slice  time.Duration `yaml:"slice,omitempty" json:"slice,omitempty" as:"duration"`
	// Precision ends the run at the first look at which the interval of every primary
	// effect is at most so wide to either side, as a fraction of a ratio; default 0, no
	// such end. Blocks is then the most.
	Precision float64 `yaml:"precision,omitempty" json:"precision,omitempty" as:"fraction"`
	// Budget ends the run before the first block that would not end in this time;
	// default 0, no such end.
	Budget time.Duration `yaml:"budget,omitempty" json:"budget,omitempty" as:"duration"`
	View   View          `yaml:"view,omitempty" json:"view,omitempty"` // how the report shows it; default price-list
	// Beside are targets that stand beside the chain of a ladder: each is an
	// alternative to the next target that does not, measured from the same rung.
	Beside []string `yaml:"beside,omitempty" json:"beside,omitempty"`
	// Probes are measured besides: each cell has, for each, a twin that is
	// watched by it. Times come from the trials that are not watched.
	Probes []string `yaml:"probes,omitempty" json:"probes,omitempty"`
	// OptionalProbes are measured too where they work; where they do not, the run
	// says why.
	OptionalProbes []string `yaml:"optional-probes,omitempty" json:"optionalProbes,omitempty"`
	// WatchedBlocks is how many of the blocks hold these twins, the first ones;
	// default all.
	WatchedBlocks int `yaml:"watched-blocks,omitempty" json:"watched-blocks,omitempty"`
	// WatchedFrom is from how many copies on a cell has such twins; default 1.
	WatchedFrom int    `yaml:"watched-from,omitempty" json:"watchedFrom,omitempty"`
	Published   string `yaml:"published,omitempty" json:"published,omitempty"` // id of a publication that is shown beside
	// Interventions are causes that are put in or taken away, with what is
	// expected of each.
	Interventions []Intervention `yaml:"interventions,omitempty" json:"interventions,omitempty"`
	// Limits are promises about the numbers: a run is judged by them at its end.
	Limits []Limit `yaml:"limits,omitempty" json:"gates,omitempty"` // in JSON, limits are the environments of older runs
	// Variants are other settings of the same study, by name: "quick", "published". In
	// YAML each is a merge patch over the study. Vary takes one.
	Variants map[string]Study `yaml:"variants,omitempty" json:"-"`
	// Taken is the variant that the study was made by; "" for none.
	Taken string `json:"variant,omitempty"`
	// Notes name the keys of the text that have another name by now, a sentence each.
	Notes []string `json:"-"`

	src *source // where the values were written; nil for a study made by a program
}

// View is the kind of page that a study gets.
type View string

// The views.
const (
	ViewPriceList View = "price-list" // ratios to the control per workload and metric
	ViewLadder    View = "ladder"     // differences between neighbouring targets, telescoping
)

// Workload is one payload with its parameters.
type Workload struct {
	Name    string            `yaml:"name" json:"name"`                           // unique in the study; default the kind
	Kind    string            `yaml:"kind" json:"kind"`                           // a registered workload: "start", "command", "sysbench-cpu", ...
	Params  map[string]string `yaml:"params,omitempty" json:"params,omitempty"`   // the workload validates them
	Args    []string          `yaml:"args,omitempty" json:"args,omitempty"`       // kind "command": argv
	Prepare []string          `yaml:"prepare,omitempty" json:"prepare,omitempty"` // argv run on the host before each trial, outside the clock
	Env     map[string]string `yaml:"env,omitempty" json:"env,omitempty"`
	Metrics []string          `yaml:"metrics,omitempty" json:"metrics,omitempty"` // those shown first; default the workload's own order
	// Readings take numbers from the command's standard output; kind "command". The
	// first is what the command is judged by.
	Readings []Reading `yaml:"readings,omitempty" json:"readings,omitempty"`
	// Copies and Concurrency are the workload's own levels, instead of the study's.
	Copies      []int `yaml:"instances,omitempty" json:"copies,omitempty" was:"copies"`
	Concurrency []int `yaml:"concurrency,omitempty" json:"concurrency,omitempty"`
	// Blocks is how many of the study's blocks hold the workload, the first ones;
	// default all.
	Blocks int `yaml:"blocks,omitempty" json:"blocks,omitempty"`
	// Runs is how many trials of each target a block holds, 1 to 100; default 1. The
	// block then counts with the ratios of all pairs with the control's.
	Runs int `yaml:"runs,omitempty" json:"runs,omitempty"`
	// Within is about how long a target's trials in a block may take together: of one whose
	// trials are longer a block holds fewer than Runs, but one at least. 0 is any time.
	Within time.Duration `yaml:"within,omitempty" json:"within,omitempty" as:"duration"`
	// Optional: its programs may be missing on the machine. It is then skipped, and the
	// run says so.
	Optional bool `yaml:"optional,omitempty" json:"optional,omitempty"`
	// Rounds is the workload's own number of rounds, instead of the study's. One that
	// does nothing but take turns has 100 where neither says more than 0.
	Rounds *int `yaml:"rounds,omitempty" json:"rounds,omitempty"`
	// Except are targets that this workload is not measured on, unless they are
	// chosen by name (--on): those whose start takes longer than it is worth.
	Except []string `yaml:"except,omitempty" json:"except,omitempty"`
	// Targets are those of the study's that the workload is measured on, beside
	// the control; default all.
	Targets []string `yaml:"targets,omitempty" json:"targets,omitempty"`
	// Environments are the names of those that the workload is measured in; default all
	// that are not Extra.
	Environments []string `yaml:"environments,omitempty" json:"environments,omitempty"`
	Extra        bool     `yaml:"extra,omitempty" json:"extra,omitempty"` // off by default: measured only where it is named (Select)
}

// Reading is a metric that a study defines: a number in a command's standard output.
type Reading struct {
	Name   string `yaml:"name" json:"name"`                         // of the metric: lower-case words and dashes
	Unit   string `yaml:"unit,omitempty" json:"unit,omitempty"`     // of the number as printed (sample.ReadUnit): s, ms, B, MiB, 1/s, Gbit/s; default that of tare's metric of this name
	Better string `yaml:"better,omitempty" json:"better,omitempty"` // lower or higher; the same default
	Match  string `yaml:"match,omitempty" json:"match,omitempty"`   // regular expression with one group, the number; of several matches the last counts
	JSON   string `yaml:"json,omitempty" json:"json,omitempty"`     // instead: its place in a JSON document, as jobs.0.read.iops
}

// Intervention is an experiment on a cause: one thing is done in another way,
// and the study says beforehand what that will do.
type Intervention struct {
	Name   string `yaml:"name" json:"name"`                         // "network namespaces made beforehand"
	Target string `yaml:"target,omitempty" json:"target,omitempty"` // the arm, a target of the study; default the control
	// Concurrency is the arm's; default the study's.
	Concurrency int `yaml:"concurrency,omitempty" json:"concurrency,omitempty"`
	// Workload is the arm's where it is not its target that differs but what runs
	// there, and Against the workload that it is compared with. Without Workload,
	// Against is the target that it is compared with; default the control.
	Workload string `yaml:"workload,omitempty" json:"workload,omitempty"`
	Against  string `yaml:"against,omitempty" json:"against,omitempty"`
	Expect   Expect `yaml:"expect" json:"expect"`
	// Wait is the metric of the lock probe that must change with it, as
	// wait-rtnl; "" where no wait is expected to.
	Wait   string `yaml:"wait,omitempty" json:"wait,omitempty"`
	Why    string `yaml:"why,omitempty" json:"why,omitempty"`       // the cause in a few words
	Advice string `yaml:"advice,omitempty" json:"advice,omitempty"` // what a user of an engine would change
}

// Expect is what an intervention does to the time of the starts.
type Expect string

// The expectations.
const (
	ExpectFaster Expect = "faster" // a cause is taken away
	ExpectSlower Expect = "slower" // a cause is put in
	ExpectNone   Expect = "none"
)

// Environment is one level of the resource factor: what an instance gets of the
// machine.
type Environment struct {
	Name   string  `yaml:"name,omitempty" json:"name,omitempty"`               // of the level, in ids and reports: "1cpu-1copy"; default made of the limits
	CPUs   float64 `yaml:"cpus,omitempty" json:"cpus,omitempty"`               // CPU time per wall time
	CPUSet string  `yaml:"cpuset,omitempty" json:"cpuset,omitempty"`           // as "0-1"; or "first", "first-4": so many of the CPUs that are allowed; "rest": all but the first; "node-0": those of a NUMA node
	Mems   string  `yaml:"mems,omitempty" json:"mems,omitempty"`               // NUMA nodes that memory may come from, as "0" or "0-1"
	Shares int64   `yaml:"shares,omitempty" json:"shares,omitempty"`           // weight of its CPU time next to others', 2 to 262144; the kernel's default is 1024
	Idle   bool    `yaml:"idle,omitempty" json:"idle,omitempty"`               // it gets CPU time that nobody else wants (cpu.idle)
	Memory int64   `yaml:"memory,omitempty" json:"memory,omitempty" as:"size"` // bytes; YAML takes "512MiB" (ParseSize)
	Pids   int64   `yaml:"pids,omitempty" json:"pids,omitempty"`
	// Network is what stands between and around two ends, for targets on a path.
	Network *Network `yaml:"network,omitempty" json:"network,omitempty"`
	// Guest is what a virtual machine's memory gets of its host; others are as
	// they are without it.
	Guest *Guest `yaml:"guest,omitempty" json:"guest,omitempty"`
	// Image is the root file system of the level: a directory, an image, or one of the
	// words ImageHost and ImageWorkbench; "" for that of the run.
	Image string `yaml:"image,omitempty" json:"image,omitempty"`
	// PageCache is "cold" where the files that a start opens are not in the page cache
	// when it begins; "" for as they are.
	PageCache string `yaml:"page-cache,omitempty" json:"pageCache,omitempty"`
	// Load is what runs next to the instances, nil for nothing.
	Load *Load `yaml:"load,omitempty" json:"load,omitempty"`
	// Params override workloads' parameters at this level, in those that have
	// one of that name. For a whole number "cpus" stands for the number of CPUs
	// that the level may use.
	Params map[string]string `yaml:"params,omitempty" json:"params,omitempty"`
	// Extra: only the workloads that name the level are measured at it.
	Extra bool `yaml:"extra,omitempty" json:"extra,omitempty"`
	// Same are the names of the study's other levels that come to the same as this
	// one on the machine of the run, so that they are not measured: its numbers
	// hold for them. A plan finds them where the study has DistinctEnvironments.
	Same []string `json:"same,omitempty"`
}

// Network is what stands between and around two ends. An absent key leaves what
// the kernel has by default.
type Network struct {
	Containers int    `yaml:"containers,omitempty" json:"containers,omitempty"`           // attached in all, the two ends among them; default 2
	Neighbours string `yaml:"neighbours,omitempty" json:"neighbours,omitempty"`           // of the ends' tables: empty, permanent (every container), learned
	Limit      int    `yaml:"neighbour-limit,omitempty" json:"neighbour-limit,omitempty"` // of learned neighbours of the whole machine, a host-wide setting
	Others     string `yaml:"others,omitempty" json:"others,omitempty"`                   // what the others are: namespaces, containers of the target; default: the target's usual kind
	Pairs      int    `yaml:"pairs,omitempty" json:"pairs,omitempty"`                     // pairs of containers that do the workload at once, the measured one among them; default 1
	Chatter    bool   `yaml:"chatter,omitempty" json:"chatter,omitempty"`                 // the others send a little
	MTU        int    `yaml:"mtu,omitempty" json:"mtu,omitempty"`                         // bytes, of every link
	Offload    string `yaml:"offload,omitempty" json:"offload,omitempty"`                 // on, off, no-checksums, no-tso or no-gso, of every link
	Rules      int    `yaml:"rules,omitempty" json:"rules,omitempty"`                     // of a network policy that every packet passes on the bridge's host
	Qdisc      string `yaml:"qdisc,omitempty" json:"qdisc,omitempty"`                     // queueing discipline of every link
	RPS        bool   `yaml:"rps,omitempty" json:"rps,omitempty"`                         // receive packet steering over all CPUs
	Pin        string `yaml:"pin,omitempty" json:"pin,omitempty"`                         // the ends to CPUs: free, apart, same
	Range      string `yaml:"range,omitempty" json:"range,omitempty"`                     // of addresses, as 10.213.0.0/16; one of IPv6 makes a network of IPv6
}

// The images of a level that are not files of the user's.
const (
	ImageHost      = "host"      // this machine's own files
	ImageWorkbench = "workbench" // tare's
)

// PageCacheCold is the page cache without the files that a start opens.
const PageCacheCold = "cold"

// Load is what runs next to the instances of a level: noisy neighbours, each an
// instance of its own.
type Load struct {
	Kind   string            `yaml:"kind" json:"kind"` // of a workload that takes turns
	Params map[string]string `yaml:"params,omitempty" json:"params,omitempty"`
	// Instances is how many there are, or "cpus" for one for each CPU that the load may
	// use; default 1.
	Instances string  `yaml:"instances,omitempty" json:"instances,omitempty"`
	Target    string  `yaml:"target,omitempty" json:"target,omitempty"` // where they run; default LoadTarget
	CPUs      float64 `yaml:"cpus,omitempty" json:"cpus,omitempty"`     // of each instance, as the next ones: see Environment
	CPUSet    string  `yaml:"cpuset,omitempty" json:"cpuset,omitempty"`
	Mems      string  `yaml:"mems,omitempty" json:"mems,omitempty"`
	Shares    int64   `yaml:"shares,omitempty" json:"shares,omitempty"`
	Idle      bool    `yaml:"idle,omitempty" json:"idle,omitempty"`
	Memory    int64   `yaml:"memory,omitempty" json:"memory,omitempty" as:"size"`
}

// Environment is what each instance of the load gets of the machine.
func (l Load) Environment() Environment {
	return Environment{CPUs: l.CPUs, CPUSet: l.CPUSet, Mems: l.Mems, Shares: l.Shares, Idle: l.Idle, Memory: l.Memory}
}

// LoadTarget is where a load runs that names no target: a bare container.
const LoadTarget = "native"

// On is the target that the load runs on.
func (l Load) On() string { return cmp.Or(l.Target, LoadTarget) }

// Guest is what a virtual machine gets of its host besides what every guest has.
type Guest struct {
	// PageReporting has the guest say which of its pages are free, and the VMM give
	// them back (virtio-balloon's free page reporting).
	PageReporting bool `yaml:"page-reporting,omitempty" json:"pageReporting,omitempty"`
	// KSM has the host's kernel merge equal pages of guests, a host-wide setting.
	KSM bool `yaml:"ksm,omitempty" json:"ksm,omitempty"`
	// HugePages has the guest's memory come from the host's pool of huge pages, a
	// host-wide setting.
	HugePages bool `yaml:"huge-pages,omitempty" json:"hugePages,omitempty"`
	// IOThread has a thread of the VMM serve the disks, and nothing else.
	IOThread bool `yaml:"iothread,omitempty" json:"iothread,omitempty"`
	// Vhost has the host's kernel move the packets of the guest's link.
	Vhost bool `yaml:"vhost,omitempty" json:"vhost,omitempty"`
	// VirtioFS has workloads that measure files do so in a directory of the host's.
	VirtioFS bool `yaml:"virtio-fs,omitempty" json:"virtioFS,omitempty"`
	// Balloon is memory that is taken from the guest before the payload, Hotplug memory
	// that is added then; bytes.
	Balloon int64 `yaml:"balloon,omitempty" json:"balloon,omitempty" as:"size"`
	Hotplug int64 `yaml:"hotplug,omitempty" json:"hotplug,omitempty" as:"size"`
}

// FewerBlocks lets cells of many copies have fewer blocks than the others: they
// are in the first ones. The zero value lets none.
type FewerBlocks struct {
	From   int `yaml:"from" json:"from"`     // copies from which on
	Blocks int `yaml:"blocks" json:"blocks"` // at least 1
}

// Cell is one combination of the factors' levels: the thing that is repeated.
type Cell struct {
	ID       string `json:"id"` // "host/start", "runc/start", "host~aa/start": unique, stable, readable
	Target   string `json:"target"`
	Workload string `json:"workload"` // Workload.Name
	// Environment is the name of the environment, "" where it has none.
	Environment string      `json:"environment,omitempty"`
	Limits      Environment `json:"limits"`
	Copies      int         `json:"copies"` // instances of a trial
	// Concurrency is at most how many of them are under way at once; 0 is all.
	Concurrency int `json:"concurrency,omitempty"`
	// Blocks is how many blocks hold the cell, the first ones; 0 is all.
	Blocks int `json:"blocks,omitempty"`
	// Runs is how many trials of the cell a block holds; 0 is 1. A run's plan has fewer than
	// the study asks for where they take longer than Workload.Within.
	Runs int `json:"runs,omitempty"`
	// Group names the comparison that the cell belongs to: all cells of a group
	// differ only in their target, so a group holds exactly one control, or none
	// where the study does not measure the control with so many copies.
	Group   string `json:"group"`
	Control bool   `json:"control,omitempty"` // the group's control
	AA      bool   `json:"aa,omitempty"`      // the control's twin: same target, measured only for the noise floor
	// Probe watches the cell's trials; "" for none. The cell of which it is a
	// twin has the id Unwatched. The watched cells of a group are a group of
	// their own.
	Probe     string `json:"probe,omitempty"`
	Unwatched string `json:"unwatched,omitempty"`
	// Set names the cells that are measured together in rounds: their targets are
	// alive at once in each block, and take turns. "" for a cell by itself. A plan
	// knows it, for it takes the workload's program.
	Set string `json:"set,omitempty"`
}

// Environments are the names of the levels that the cell's numbers hold for: its
// own first, then those that come to the same on the machine of the run.
func (c Cell) Environments() []string { return append([]string{c.Environment}, c.Limits.Same...) }

// The probes that a study may ask for.
const (
	ProbeLocks  = "locks"  // waits for kernel locks, and other uninterruptible waits
	ProbeStacks = "stacks" // what ran, slept and waited for a CPU, by stack
)

// AATarget is how an A/A twin of a target is shown.
func AATarget(target string) string { return target + " (A/A)" }
