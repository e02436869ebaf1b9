package kernelwaits

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tarelab/tare/internal/experiment"
	"github.com/tarelab/tare/internal/lab"
	"github.com/tarelab/tare/internal/profile"
	"github.com/tarelab/tare/internal/report"
	"github.com/tarelab/tare/internal/study"
)

// watchFlags are the options of tare locks and tare stacks.
type watchFlags struct {
	on        string
	instances int
	running   lab.Running
	duration  time.Duration
	file      string // of a profile that is imported
	event     string
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

With --pid, --cgroup or --all it watches what already runs, once, until Ctrl-C or
--for. With --import it reads what perf recorded, here or elsewhere: the text of perf
script, best of perf lock record. Both make a run, with a page.

It needs root, and Linux 5.19 with BTF; on an older kernel waits are estimated from
stacks. --import needs none of them. Names marked * are inferred: docs/locks.md says how.`,
		`  tare locks -- sh -c 'for i in 1 2 3; do sort /etc/passwd; done'
  tare locks --on native --instances 32 -- true
  tare locks --pid 4711 --for 10s
  perf script -i perf.data | tare locks --import -`)
}

func stacksCommand(l experiment.Laboratory) *cobra.Command {
	return watchCommand(l, study.ProbeStacks, "stacks [flags] -- CMD [ARG...]", "Show where a command's time goes, by stack",
		`stacks runs CMD on a target, several times with and as often without a probe in
the kernel, in turn, and shows where the time of its threads went: on a CPU (by
samples), asleep, or waiting for a CPU (each switch), by kernel and user stack. It
writes a pprof profile and folded stacks; tare report RUN --format html has the
flame graph. The two kinds of trial tell what watching costs.

With --pid, --cgroup or --all it watches what already runs, once, until Ctrl-C or
--for. With --import it reads what another program recorded, here or elsewhere: the
text of perf script, folded stacks, or perf.data where perf is installed. Both make a
run, with a page.

It needs root, and Linux 5.11 with BTF; on an older kernel it reads perf events.
--import needs none of them: docs/locks.md.`,
		`  tare stacks -- sh -c 'for i in 1 2 3; do sort /etc/passwd; done'
  tare stacks --on docker --instances 10 -- true
  tare stacks --all --for 10s
  tare stacks --import profile.txt`)
}

func watchCommand(l experiment.Laboratory, probe, use, short, long, example string) *cobra.Command {
	var f watchFlags
	var measure func(*cobra.Command, study.Study) error
	c := &cobra.Command{
		Use: use, GroupID: experiment.GroupDiagnose, Short: short, Long: long, Example: example,
		Args: func(c *cobra.Command, args []string) error { return f.check(c, args) },
		RunE: func(c *cobra.Command, args []string) error {
			switch {
			case f.file != "":
				return importProfile(c, l, probe, &f)
			case f.runs():
				return watch(c, l, probe, &f)
			}
			return measure(c, f.study(probe, args))
		},
	}
	flags := c.Flags()
	flags.SetInterspersed(false)
	flags.StringVar(&f.on, "on", study.DefaultControl, "target, by name (see tare check)")
	flags.IntVar(&f.instances, "instances", 1, "instances started at once in each trial")
	flags.IntVar(&f.instances, "concurrency", 1, "")
	flags.MarkDeprecated("concurrency", "write --instances") //nolint:errcheck // fails for a flag that is not defined
	flags.StringVar(&f.running.Cgroup, "cgroup", "", "watch this cgroup of version 2 and those below it, by path")
	flags.IntVar(&f.running.PID, "pid", 0, "watch this process and its descendants")
	flags.DurationVar(&f.duration, "for", 0, "how long to watch what runs (default: until Ctrl-C)")
	flags.StringVar(&f.file, "import", "", "read a profile from this file, - for standard input: text of perf script, folded stacks, perf.data")
	flags.StringVar(&f.event, "event", "", "the event of an imported profile whose samples count (default: the one with most)")
	measure = l.Measurement(flags)
	flags.Lookup("all").Usage = "with a command, print every table in place of the summary; without one, watch the whole machine"
	return c
}

// runs reports whether something that already runs is to be watched.
func (f *watchFlags) runs() bool { return f.running != lab.Running{} }

// check refuses what cannot be meant.
func (f *watchFlags) check(c *cobra.Command, args []string) error {
	var err error
	if len(args) == 0 {
		f.running.All, err = c.Flags().GetBool("all")
	}
	running := f.runs() || f.file != ""
	measured, ways := measuredOnly(c), f.ways()
	switch {
	case err != nil:
	case len(ways) > 1:
		err = fmt.Errorf("%s exclude each other", strings.Join(ways, " and "))
	case f.running.PID < 0:
		err = fmt.Errorf("--pid %d: must be above 0", f.running.PID)
	case running && len(args) > 0:
		err = fmt.Errorf("either a command, or %s", ways[0])
	case running && len(measured) > 0:
		err = fmt.Errorf("%s: goes with a command, which is measured, and not with %s", strings.Join(measured, ", "), ways[0])
	case f.event != "" && f.file == "":
		err = errors.New("--event goes with --import")
	case !running && (len(args) == 0 || args[0] == ""):
		err = fmt.Errorf("which command? Give it after --, as in: tare %s -- true", c.Name())
	case f.instances < 1:
		err = fmt.Errorf("--instances %d: must be at least 1", f.instances)
	case f.duration < 0 || c.Flags().Changed("for") && (f.duration == 0 || !f.runs()):
		err = errors.New("--for takes a duration above 0, and goes with --cgroup, --pid or --all")
	case c.Flags().Changed("rootfs") && c.Flags().Changed("image"):
		err = errors.New("--rootfs and --image exclude each other: give one of them")
	}
	return err
}

// ways are the flags that the user gave of what is watched or read instead of a command.
func (f *watchFlags) ways() (names []string) {
	for name, given := range map[string]bool{"--cgroup": f.running.Cgroup != "", "--pid": f.running.PID != 0, "--all": f.running.All, "--import": f.file != ""} {
		if given {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// unmeasured are the flags that do not belong to a measured command.
var unmeasured = []string{"cgroup", "pid", "all", "for", "import", "event"}

// measuredOnly are the flags that the user gave and that mean something to a command
// that is measured alone.
func measuredOnly(c *cobra.Command) (names []string) {
	c.NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
		if f.Changed && !slices.Contains(unmeasured, f.Name) {
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
		Copies:    []int{f.instances},
		Probes:    []string{probe},
		Blocks:    watchBlocks,
		AA:        &no,
	}
}

// watch shows what something that already runs does, and keeps it as a run.
func watch(c *cobra.Command, l experiment.Laboratory, probe string, f *watchFlags) error {
	name, p, err := lab.Watch(c.Context(), probe, f.running, f.duration)
	if err != nil {
		return err
	}
	return showProfile(c, l, probe, titles[probe][0]+": "+name, name, p)
}

// showProfile keeps a profile as a run, prints what it says, and writes its page.
func showProfile(c *cobra.Command, l experiment.Laboratory, probe, title, name string, p profile.Profile) error {
	run, err := lab.RecordProfile(l.Config(c), probe, title, name, p)
	if err != nil {
		return err
	}
	in, err := l.Report(run)
	if err != nil {
		return err
	}
	page := filepath.Join(run.Dir(), "report.html")
	if err := errors.Join(l.Sections(in.Sections), lab.WriteReport(page, func(w io.Writer) error { return report.HTML(w, in) })); err != nil {
		return err
	}
	files, err := lab.WriteProfiles(run)
	for _, file := range append(files, page) {
		fmt.Fprintln(l.Stderr(), "written:", file)
	}
	return err
}
