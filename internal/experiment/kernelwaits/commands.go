package kernelwaits

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tarelab/tare/internal/experiment"
	"github.com/tarelab/tare/internal/lab"
	"github.com/tarelab/tare/internal/study"
)

// watchFlags are the options of tare locks and tare stacks.
type watchFlags struct {
	on          string
	concurrency int
	cgroup      string
	pid         int
	duration    time.Duration
}

// watchBlocks is how many pairs of a watched and an unwatched trial there are
// unless asked otherwise: enough for an interval of the overhead.
const watchBlocks = 6

// commands are tare locks and tare stacks.
func commands(l experiment.Laboratory) []*cobra.Command {
	return []*cobra.Command{locksCommand(l), stacksCommand(l)}
}

func locksCommand(l experiment.Laboratory) *cobra.Command {
	return watchCommand(l, study.ProbeLocks, "locks [flags] -- CMD [ARG...]", "Show which kernel locks a command waits for",
		`locks runs CMD on a target, several times with and as often without a probe in
the kernel, in turn, and shows what its threads waited for: locks, by name and by
the function that takes them, and other uninterruptible waits such as RCU grace
periods. The two kinds of trial tell what watching costs.

With --pid or --cgroup it watches what already runs, once, until Ctrl-C or --for.

It needs root, Linux 5.19 and a kernel with BTF. Names marked * are inferred:
docs/locks.md says how.`,
		`  tare locks -- sh -c 'for i in 1 2 3; do sort /etc/passwd; done'
  tare locks --on native --concurrency 32 -- true
  tare locks --pid 4711 --for 10s`)
}

func stacksCommand(l experiment.Laboratory) *cobra.Command {
	return watchCommand(l, study.ProbeStacks, "stacks [flags] -- CMD [ARG...]", "Show where a command's time goes, by stack",
		`stacks runs CMD on a target, several times with and as often without a probe in
the kernel, in turn, and shows where the time of its threads went: on a CPU (by
samples), asleep, or waiting for a CPU (each switch), by kernel and user stack. It
writes a pprof profile and folded stacks; tare report RUN --format html has the
flame graph. The two kinds of trial tell what watching costs.

With --pid or --cgroup it watches what already runs, once, until Ctrl-C or --for.

It needs root, Linux 5.8 and a kernel with BTF: docs/locks.md.`,
		`  tare stacks -- sh -c 'for i in 1 2 3; do sort /etc/passwd; done'
  tare stacks --on docker --concurrency 10 -- true
  tare stacks --pid 4711 --for 10s`)
}

func watchCommand(l experiment.Laboratory, probe, use, short, long, example string) *cobra.Command {
	var f watchFlags
	var measure func(*cobra.Command, study.Study) error
	c := &cobra.Command{
		Use: use, GroupID: experiment.GroupDiagnose, Short: short, Long: long, Example: example,
		Args: func(c *cobra.Command, args []string) error { return f.check(c, args) },
		RunE: func(c *cobra.Command, args []string) error {
			if f.cgroup != "" || f.pid != 0 {
				return watch(c, l, probe, &f)
			}
			return measure(c, f.study(probe, args))
		},
	}
	flags := c.Flags()
	flags.SetInterspersed(false)
	flags.StringVar(&f.on, "on", study.DefaultControl, "target, by name (see tare check)")
	flags.IntVar(&f.concurrency, "concurrency", 1, "instances started at once in each trial")
	flags.StringVar(&f.cgroup, "cgroup", "", "watch this cgroup of version 2 and those below it, by path")
	flags.IntVar(&f.pid, "pid", 0, "watch this process and its descendants")
	flags.DurationVar(&f.duration, "for", 0, "how long to watch a cgroup or process (default: until Ctrl-C)")
	measure = l.Measurement(flags)
	return c
}

// check refuses what cannot be meant.
func (f *watchFlags) check(c *cobra.Command, args []string) error {
	running := f.cgroup != "" || f.pid != 0
	var err error
	measured := measuredOnly(c)
	switch {
	case f.cgroup != "" && f.pid != 0:
		err = errors.New("--cgroup and --pid exclude each other")
	case f.pid < 0:
		err = fmt.Errorf("--pid %d: must be above 0", f.pid)
	case running && len(args) > 0:
		err = errors.New("either a command, or --cgroup or --pid of what already runs")
	case running && len(measured) > 0:
		err = fmt.Errorf("%s: what already runs is watched once as it is, and not measured; --cgroup and --pid take --for alone", strings.Join(measured, ", "))
	case !running && (len(args) == 0 || args[0] == ""):
		err = fmt.Errorf("which command? Give it after --, as in: tare %s -- true", c.Name())
	case f.concurrency < 1:
		err = fmt.Errorf("--concurrency %d: must be at least 1", f.concurrency)
	case f.duration < 0 || c.Flags().Changed("for") && (f.duration == 0 || !running):
		err = errors.New("--for takes a duration above 0, and goes with --cgroup or --pid")
	case c.Flags().Changed("rootfs") && c.Flags().Changed("image"):
		err = errors.New("--rootfs and --image exclude each other: give one of them")
	}
	return err
}

// measuredOnly are the flags that the user gave and that mean something to a command
// that is measured alone.
func measuredOnly(c *cobra.Command) (names []string) {
	c.NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
		if f.Changed && !slices.Contains([]string{"cgroup", "pid", "for"}, f.Name) {
			names = append(names, "--"+f.Name)
		}
	})
	return names
}

// titles are the title and the question of each probe's study.
var titles = map[string][2]string{
	study.ProbeLocks:  {"What waits in the kernel", "What do the command's threads wait for, and where?"},
	study.ProbeStacks: {"Where the time goes", "Where do the command's threads spend their time?"},
}

// study is the one cell with its watched twin.
func (f *watchFlags) study(probe string, args []string) study.Study {
	no, words := false, titles[probe]
	return study.Study{
		ID:        probe,
		Title:     words[0] + ": " + strings.Join(args, " "),
		Question:  words[1],
		Targets:   []string{f.on},
		Control:   f.on,
		Workloads: []study.Workload{{Name: filepath.Base(args[0]), Kind: "command", Args: args}},
		Copies:    []int{f.concurrency},
		Probes:    []string{probe},
		Blocks:    watchBlocks,
		AA:        &no,
	}
}

// watch shows what a cgroup or process that already runs waits for, and keeps its
// profile below the state directory.
func watch(c *cobra.Command, l experiment.Laboratory, probe string, f *watchFlags) error {
	config := l.Config(c)
	name, p, err := lab.Watch(c.Context(), probe, f.cgroup, f.pid, f.duration)
	if err != nil {
		return err
	}
	if err := l.Sections(waitsSections([]watchedCell{waitsOf(probe, name, p)})); err != nil {
		return err
	}
	if err := os.MkdirAll(config.StateDir, 0o755); err != nil {
		return fmt.Errorf("state directory: %w (choose another with --state)", err)
	}
	stem := filepath.Join(config.StateDir, fmt.Sprintf("%s-%s", probe, time.Now().UTC().Format("20060102-150405")))
	files, err := lab.WriteProfile(stem, p)
	if err != nil {
		return err
	}
	for _, file := range files {
		fmt.Fprintln(l.Stderr(), "profile:", file)
	}
	return nil
}
