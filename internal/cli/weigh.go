package cli

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tarelab/tare/internal/lab"
	"github.com/tarelab/tare/internal/study"
	"github.com/tarelab/tare/internal/workload"
)

// weighFlags are the options of tare weigh.
type weighFlags struct {
	measureFlags
	on      []string
	prepare string
	env     []string
	cpus    float64
	cpuset  string
	memory  string
	pids    int64
	copies  int
	margin  string
	control string
	metrics []string
	paths   []string
}

func weighCommand(env *Env) *cobra.Command {
	var f weighFlags
	c := &cobra.Command{
		Use:   "weigh [flags] -- CMD [ARG...]",
		Short: "Weigh a command on every layer found",
		Long: `weigh runs CMD on the host and on each target in interleaved blocks, and shows
what each layer costs against the host: wall and CPU time, peak memory, switches
and faults, each with an interval and a verdict. Beside CMD each block holds a
start of nothing on each target, which shows the time to ready. tare gate judges
the run by limits.

Without --rootfs or --image, CMD is looked up on this machine and put with the
shared libraries it needs into a temporary workbench root, so that the same bits
run everywhere. A CMD that ends with a code other than 0 is a failure, and no
sample.`,
		Example: `  tare weigh --metric 'events=events per second: *([0-9.]+)' -- sysbench cpu --time=1 run
  tare weigh --metric-json 'iops:1/s:higher=jobs.0.read.iops' -- fio --name=x --size=16m --rw=randread --output-format=json
  tare weigh --on host,native,runc --blocks 20 -- sh -c 'sort /etc/passwd'
  tare weigh --memory 256MiB --cpus 1 -- fio --name=x --size=16m --rw=randread
  tare weigh --rootfs ./rootfs --env LANG=C -- /app/server --selftest`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 || args[0] == "" {
				return usageError{errors.New("which command? Give it after --, as in: tare weigh -- sort /etc/passwd")}
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			st, err := f.study(c, args)
			if err != nil {
				return usageError{err}
			}
			return env.measure(c, st, &f.measureFlags)
		},
	}
	f.define(env, c)
	return c
}

func (f *weighFlags) define(env *Env, c *cobra.Command) {
	flags := c.Flags()
	flags.SetInterspersed(false)
	flags.StringSliceVar(&f.on, "on", nil, "targets, by name (default: every one that works here and has no slash in its name; see tare check)")
	flags.StringVar(&f.prepare, "prepare", "", "shell command run on the host before each trial, outside the clock")
	flags.StringArrayVar(&f.env, "env", nil, "environment of CMD, KEY=VALUE (repeatable)")
	flags.Float64Var(&f.cpus, "cpus", 0, "CPU time per wall time (2.5 is two and a half CPUs)")
	flags.StringVar(&f.cpuset, "cpuset", "", "CPUs to run on, as 0-1,4")
	flags.StringVar(&f.memory, "memory", "", "memory limit, as 512MiB")
	flags.Int64Var(&f.pids, "pids", 0, "limit of processes and threads")
	flags.IntVar(&f.copies, "instances", 1, "instances started at once in each trial")
	flags.IntVar(&f.copies, "copies", 1, "")
	_ = flags.MarkDeprecated("copies", "it is now called --instances")
	flags.StringVar(&f.control, "control", "", "target that ratios refer to (default host)")
	flags.StringVar(&f.margin, "margin", "", "equivalence margin, as 2% (default 2%)")
	flags.StringArrayVar(&f.metrics, "metric", nil, "take a number from CMD's output, NAME[:UNIT:lower|higher]=REGEXP with one group, UNIT as printed (ms, MiB/s, 1/s, 1); the first is what CMD is judged by (repeatable)")
	flags.StringArrayVar(&f.paths, "metric-json", nil, "the same from a JSON output, NAME[:UNIT:lower|higher]=PATH, as in iops:1/s:higher=jobs.0.read.iops (repeatable)")
	f.measureFlags.define(flags)
	guestFlags(flags)
	complete(c, "on", env.completeTargets)
	complete(c, "control", env.completeTargets)
	flags.StringVar(&f.rootfs, "rootfs", "", "run CMD in this root file system (a directory; never written to)")
	flags.StringVar(&f.image, "image", "", "run CMD in this image (OCI layout, or a tar of one or of docker save)")
}

// study turns the flags into a study of the command, and of the start alone.
func (f *weighFlags) study(c *cobra.Command, args []string) (study.Study, error) {
	if err := noTarget(c.Flags(), f.on); err != nil {
		return study.Study{}, err
	}
	limits, err := f.limits()
	if err != nil {
		return study.Study{}, err
	}
	environment, err := keyValues(f.env)
	if err != nil {
		return study.Study{}, err
	}
	if f.rootfs != "" && f.image != "" {
		return study.Study{}, errors.New("--rootfs and --image exclude each other: give one of them")
	}
	if f.copies < 1 {
		return study.Study{}, fmt.Errorf("--instances %d: must be at least 1", f.copies)
	}
	st := study.Study{
		ID:           "weigh",
		Title:        "What isolation costs: " + commandLine(args),
		Question:     "What does each layer cost this command, against the host?",
		Targets:      f.on,
		Control:      f.control,
		Workloads:    []study.Workload{{Name: study.NameOf(filepath.Base(args[0])), Kind: workload.KindCommand, Args: args, Env: environment}},
		Environments: []study.Environment{limits},
		Copies:       []int{f.copies},
	}
	if st.Workloads[0].Readings, err = f.readings(); err != nil {
		return study.Study{}, err
	}
	start := study.Workload{Name: "start", Kind: workload.KindStart}
	if st.Workloads[0].Name == start.Name {
		start.Name = "start-alone"
	}
	st.Workloads = append(st.Workloads, start)
	if len(f.on) == 0 {
		st.Targets = []string{study.AllTargets}
	}
	if f.prepare != "" {
		st.Workloads[0].Prepare = []string{"/bin/sh", "-c", f.prepare}
	}
	if f.margin != "" {
		if st.Margin, err = study.ParseFraction(f.margin); err != nil {
			return study.Study{}, fmt.Errorf("--margin %s: %w", f.margin, err)
		}
	}
	return st, nil
}

// commandLine is a command as a title shows it, on one line; the run keeps it whole.
func commandLine(args []string) string {
	const most = 120
	line := []rune(strings.Join(strings.Fields(strings.Join(args, " ")), " "))
	if len(line) > most {
		return string(line[:most]) + "…"
	}
	return string(line)
}

// readings are the metrics that the flags define.
func (f *weighFlags) readings() ([]study.Reading, error) {
	var all []study.Reading
	for _, flag := range []struct {
		name  string
		given []string
		set   func(*study.Reading, string)
	}{
		{"--metric", f.metrics, func(r *study.Reading, how string) { r.Match = how }},
		{"--metric-json", f.paths, func(r *study.Reading, how string) { r.JSON = how }},
	} {
		for _, text := range flag.given {
			what, how, ok := strings.Cut(text, "=")
			words := strings.Split(what, ":")
			if !ok || how == "" || words[0] == "" || len(words) != 1 && len(words) != 3 {
				return nil, fmt.Errorf("%s %s: want NAME=HOW or NAME:UNIT:DIRECTION=HOW, with lower or higher as DIRECTION", flag.name, text)
			}
			r := study.Reading{Name: words[0]}
			if len(words) == 3 {
				r.Unit, r.Better = words[1], words[2]
			}
			flag.set(&r, how)
			all = append(all, r)
		}
	}
	return all, nil
}

func (f *weighFlags) limits() (study.Environment, error) {
	l := study.Environment{CPUs: f.cpus, CPUSet: f.cpuset, Pids: f.pids}
	if f.cpus < 0 || math.IsNaN(f.cpus) || math.IsInf(f.cpus, 0) || f.pids < 0 {
		return l, errors.New("--cpus and --pids must be numbers, and not negative")
	}
	if f.memory != "" {
		var err error
		if l.Memory, err = study.ParseSize(f.memory); err != nil {
			return l, fmt.Errorf("--memory %s: %w", f.memory, err)
		}
	}
	return l, nil
}

func keyValues(pairs []string) (map[string]string, error) {
	m := map[string]string{}
	for _, p := range pairs {
		k, v, ok := strings.Cut(p, "=")
		if !ok || k == "" {
			return nil, fmt.Errorf("--env %s: want KEY=VALUE", p)
		}
		m[k] = v
	}
	return m, nil
}

// withPool puts native's start from a pool beside its own.
func withPool(st *study.Study) error {
	const plain, pooled = "native", "native/pool-container"
	all := slices.Concat([]string{st.Control}, st.Targets, st.Optional)
	if !slices.Contains(all, plain) && !slices.Contains(all, study.AllTargets) {
		return fmt.Errorf("--pool: %s is none of the targets", plain)
	}
	if !slices.Contains(all, pooled) {
		st.Targets = append(slices.Clone(st.Targets), pooled)
	}
	return nil
}

// measureFlags are the options of every verb that measures.
type measureFlags struct {
	runs      int
	blocks    int
	precision string
	budget    time.Duration
	seed      uint64
	timeout   time.Duration
	noAA      bool
	pool      bool
	json      bool
	all       bool
	html      string
	stream    bool
	rootfs    string
	image     string
}

func (f *measureFlags) define(flags *pflag.FlagSet) {
	flags.IntVar(&f.blocks, "blocks", 0, "complete blocks, each holding every target once (default: the study's, else 12)")
	flags.IntVar(&f.runs, "runs-per-block", 0, "trials of each target in a block, which counts with their median (default: the study's, else 1; not for what is measured in rounds)")
	flags.StringVar(&f.precision, "precision", "", "end when every interval is at most so wide to either side, as 2% (then --blocks is the most, default 100)")
	flags.DurationVar(&f.budget, "budget", 0, "end before the first block that would not end in this time, as 5m (then --blocks is the most, default 100)")
	flags.Uint64Var(&f.seed, "seed", 0, "seed of the order of trials (default: drawn, and recorded)")
	flags.DurationVar(&f.timeout, "timeout", 0, "of one trial (default: the study's, else 1m)")
	flags.BoolVar(&f.noAA, "no-aa", false, "leave out the control's twin (then the noise floor is unknown)")
	flags.BoolVar(&f.pool, "pool", false, "measure native also as containers that stand ready, of which only the program is executed (the target native/pool-container)")
	workbenchFlag(flags)
	flags.BoolVar(&f.stream, "stream", false, "write the run to standard output as numbered lines, each record once it is on disk, for tare fleet add; no report")
	f.shown(flags)
}

// shown defines how the report is shown.
func (f *measureFlags) shown(flags *pflag.FlagSet) {
	flags.BoolVar(&f.all, "all", false, "print every table in place of the summary")
	flags.BoolVar(&f.json, "json", false, "print the whole report as JSON")
	flags.StringVar(&f.html, "html", "", "write the HTML report to this file (default: into the run's directory)")
}

// apply overrides a study's own rules by flags.
func (f *measureFlags) apply(c *cobra.Command, st *study.Study) error {
	if err := f.ends(c, st); err != nil {
		return err
	}
	if c.Flags().Changed("blocks") {
		if f.blocks < 1 {
			return fmt.Errorf("--blocks %d: must be at least 1", f.blocks)
		}
		st.Blocks = f.blocks
	}
	if c.Flags().Changed("runs-per-block") {
		if f.runs < 1 || f.runs > study.MaxRuns {
			return fmt.Errorf("--runs-per-block %d: must be 1 to %d", f.runs, study.MaxRuns)
		}
		for i := range st.Workloads {
			st.Workloads[i].Runs, st.Workloads[i].Within = f.runs, 0
		}
	}
	if c.Flags().Changed("timeout") {
		if f.timeout <= 0 {
			return fmt.Errorf("--timeout %v: must be positive", f.timeout)
		}
		st.Timeout = f.timeout
	}
	if err := checkPage(f.html); err != nil {
		return err
	}
	if f.noAA {
		no := false
		st.AA = &no
	}
	if f.pool {
		return withPool(st)
	}
	return nil
}

// ends gives the study another end than its number of blocks, which is then the most.
func (f *measureFlags) ends(c *cobra.Command, st *study.Study) error {
	if f.precision != "" {
		var err error
		if st.Precision, err = study.ParseFraction(f.precision); err != nil {
			return fmt.Errorf("--precision %s: %w", f.precision, err)
		}
		st.Blocks = 0
	}
	if c.Flags().Changed("budget") {
		if f.budget <= 0 {
			return fmt.Errorf("--budget %v: must be positive", f.budget)
		}
		st.Budget, st.Blocks = f.budget, 0
	}
	return nil
}

// options are what the laboratory needs beside the study.
func (f *measureFlags) options(c *cobra.Command) lab.Options {
	o := lab.Options{Rootfs: f.rootfs, Image: f.image, Exact: c.Flags().Changed("instances")}
	if c.Flags().Changed("seed") {
		o.Seed = &f.seed
	}
	return o
}
