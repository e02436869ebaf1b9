package cli

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tarelab/tare/internal/fleet"
	"github.com/tarelab/tare/internal/fleet/all"
	"github.com/tarelab/tare/internal/fleet/engine"
	"github.com/tarelab/tare/internal/study"
)

// fleetFlags are the options of tare fleet run itself.
type fleetFlags struct {
	engine     string
	nodes      string
	where      string
	name       string
	seed       uint64
	atOnce     int
	attempts   int
	time       time.Duration
	waitAtMost time.Duration
	state      string
	noWait     bool
	show       bool
	json       bool
}

// makeEngine makes an engine from its own options, once they are parsed.
type makeEngine = func(engine.Site) (engine.Engine, error)

func engineNames() []string {
	var names []string
	for _, k := range all.Engines() {
		names = append(names, k.Name)
	}
	return names
}

// options are the flags of every engine, by its name.
func engineOptions() (map[string]*pflag.FlagSet, map[string]makeEngine) {
	sets, makers := map[string]*pflag.FlagSet{}, map[string]makeEngine{}
	for _, k := range all.Engines() {
		sets[k.Name] = pflag.NewFlagSet(k.Name, pflag.ContinueOnError)
		makers[k.Name] = k.Options(sets[k.Name])
	}
	return sets, makers
}

func (env *Env) fleetRun() *cobra.Command {
	var f fleetFlags
	sets, makers := engineOptions()
	c := &cobra.Command{
		Use:   "run STUDY|weigh --engine ENGINE --nodes N [flags of tare run|weigh] [-- CMD [ARG...]]",
		Short: "Run a study on many machines through Slurm or another engine",
		Long: `run hands one exclusive job for each machine to an engine, which runs tare there. It
collects what the jobs write, and shows the report of the fleet. Flags that are not
listed here are those of tare run, or of tare weigh, on each machine.

--nodes N draws machines at random, idle ones first; all takes each that takes jobs;
N1,N2 names them. Ctrl-C detaches: the jobs go on, and tare fleet resume collects them.
--show prints what the engine would get, and asks for nothing.`,
		Example: `  tare fleet run survey --quick --engine slurm --nodes 8 --where partition=lab
  tare fleet run weigh --engine slurm --nodes 3 --on host,native,runc -- true
  tare fleet run ladder --engine slurm --nodes n1,n7 --sbatch '--account=x --qos=y' --show`,
		DisableFlagParsing: true, // some of them are those of another verb
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return append(env.Experiments.StudyNames(), "weigh"), cobra.ShellCompDirectiveDefault
		},
		RunE: func(c *cobra.Command, args []string) error {
			words, err := env.parseFleet(c, args)
			if errors.Is(err, pflag.ErrHelp) {
				return c.Help()
			}
			if err != nil {
				return err
			}
			return env.beginFleet(c, &f, sets, makers, words)
		},
	}
	flags := c.Flags()
	flags.SortFlags = false
	flags.StringVar(&f.engine, "engine", "", "who runs the jobs: "+strings.Join(engineNames(), ", "))
	flags.StringVar(&f.nodes, "nodes", "", "how many machines to draw, all, or names with commas between them")
	flags.StringVar(&f.where, "where", "", "machines to choose from, KEY=VALUE,... by the engine's own keys, as partition=lab")
	flags.StringVar(&f.name, "fleet", "", "name of the fleet, or a directory with a slash in its path (default: time and study)")
	flags.Uint64Var(&f.seed, "draw-seed", 0, "seed of the draw of machines (default: drawn, and recorded)")
	flags.IntVar(&f.atOnce, "at-once", 50, "jobs in the engine at a time")
	flags.DurationVar(&f.time, "time", 30*time.Minute, "of each job, after which the engine ends it")
	flags.DurationVar(&f.waitAtMost, "wait-at-most", 0, "give a job up that waits longer for its machine (default: never)")
	flags.IntVar(&f.attempts, "attempts", 2, "for each machine whose job is lost or taken away")
	flags.StringVar(&f.state, "machine-state", "", "state directory of tare on the machines, on a disk of their own (default: that of who the job runs as)")
	flags.BoolVar(&f.noWait, "no-wait", false, "submit the jobs and leave; tare fleet resume collects them")
	flags.BoolVar(&f.show, "show", false, "print what the engine would get, and submit nothing")
	flags.BoolVar(&f.json, "json", false, "print the fleet's report as JSON")
	for _, name := range slices.Sorted(maps.Keys(sets)) {
		flags.AddFlagSet(sets[name])
	}
	complete(c, "engine", cobra.FixedCompletions(engineNames(), cobra.ShellCompDirectiveNoFileComp))
	return c
}

// parseFleet parses a command line that has flags of tare fleet run and of the verb that
// measures, in any order. Its result is the command line of tare on each machine.
func (env *Env) parseFleet(c *cobra.Command, args []string) ([]string, error) {
	c.InheritedFlags() // adds those of the root to the own
	own := c.Flags()
	word, before, after, err := env.verbOf(own, args)
	if err != nil {
		return nil, parsedBadly(c, err)
	}
	measuring, check := env.measuring(word)
	both := pflag.NewFlagSet("", pflag.ContinueOnError)
	both.AddFlagSet(own)
	both.AddFlagSet(measuring.Flags())
	var passed []string
	take := func(flag *pflag.Flag, value string) error {
		if own.Lookup(flag.Name) != nil && flag.Name != "private-engines" {
			return own.Set(flag.Name, value)
		}
		passed = append(passed, "--"+flag.Name+"="+value)
		if flag.Name == "private-engines" {
			return nil
		}
		return measuring.Flags().Set(flag.Name, value)
	}
	both.SetInterspersed(false)
	err = both.ParseAll(before, take)
	if err == nil {
		both.SetInterspersed(word != weighWord)
		err = both.ParseAll(after, take)
	}
	if err != nil {
		return nil, parsedBadly(c, err)
	}
	if err := env.checkPlaces(c); err != nil {
		return nil, err
	}
	words, err := check(both.Args())
	if err != nil {
		return nil, usageError{err}
	}
	if word == weighWord {
		return slices.Concat([]string{weighWord}, passed, []string{"--stream", "--"}, words), nil
	}
	return slices.Concat([]string{"run"}, words, passed, []string{"--stream"}), nil
}

// weighWord stands in the place of a study, for a command.
const weighWord = "weigh"

func parsedBadly(c *cobra.Command, err error) error {
	if errors.Is(err, pflag.ErrHelp) {
		return err
	}
	return flagError(c, err)
}

// verbOf finds the study, or weigh, and what stands before and after it.
func (env *Env) verbOf(own *pflag.FlagSet, args []string) (word string, before, after []string, err error) {
	known := pflag.NewFlagSet("", pflag.ContinueOnError)
	run := runCommand(env).Flags()
	known.AddFlagSet(own)
	known.AddFlagSet(run)
	known.AddFlagSet(weighCommand(env).Flags())
	known.SetInterspersed(false)
	help := func(flag *pflag.Flag, _ string) error {
		if flag.Name == "help" {
			return pflag.ErrHelp
		}
		return nil
	}
	if err := known.ParseAll(args, help); err != nil {
		return "", nil, nil, err
	}
	rest := known.Args()
	if len(rest) == 0 {
		return "", nil, nil, fmt.Errorf("which study? Name one, or weigh with a command after --, as in: tare fleet run weigh --engine %s --nodes 3 -- true", engineNames()[0])
	}
	return rest[0], args[:len(args)-len(rest)], rest[1:], nil
}

// measuring is the verb that each machine runs. check is whether its command line is one
// that can be run on another machine; it returns its words.
func (env *Env) measuring(word string) (c *cobra.Command, check func(args []string) ([]string, error)) {
	var measure *measureFlags
	var of func(args []string) (study.Study, error)
	c = &cobra.Command{Use: word}
	if word == weighWord {
		var f weighFlags
		f.define(env, c)
		measure, of = &f.measureFlags, func(args []string) (study.Study, error) { return f.study(c, args) }
	} else {
		var f runFlags
		f.define(env, c)
		measure, of = &f.measureFlags, func(args []string) (study.Study, error) { return f.study(env, c, args) }
	}
	return c, func(args []string) ([]string, error) {
		switch {
		case word != weighWord && len(args) > 0:
			return nil, fmt.Errorf("%q is one argument too many: a fleet runs one study", args[0])
		case word == weighWord && (len(args) == 0 || args[0] == ""):
			return nil, errors.New("which command? Give it after --, as in: tare fleet run weigh --nodes 3 -- true")
		case word != weighWord:
			args = []string{word}
		}
		if err := forMachines(c.Flags()); err != nil {
			return nil, err
		}
		st, err := of(args)
		if err == nil {
			err = measure.apply(c, &st)
		}
		if err == nil && word != weighWord && strings.ContainsAny(word, "/.") {
			args[0], err = filepath.Abs(word)
		}
		return args, err
	}
}

// forMachines refuses flags that mean nothing on another machine.
func forMachines(flags *pflag.FlagSet) error {
	for _, name := range []string{"stream", "html", "all"} {
		if flags.Changed(name) {
			return fmt.Errorf("--%s is of one run: leave it out, tare fleet report shows the fleet", name)
		}
	}
	var err error
	flags.Visit(func(f *pflag.Flag) {
		_, path := f.Annotations[cobra.BashCompSubdirsInDir] // an experiment's own flag for a directory
		path = path || slices.Contains([]string{"rootfs", "guest-rootfs", "image", "workbench", "kernel"}, f.Name)
		if path && err == nil && !filepath.IsAbs(f.Value.String()) {
			err = fmt.Errorf("--%s %s: give an absolute path, which means the same on all machines", f.Name, f.Value)
		}
	})
	return err
}

// beginFleet plans a fleet and carries the plan out.
func (env *Env) beginFleet(c *cobra.Command, f *fleetFlags, sets map[string]*pflag.FlagSet, makers map[string]makeEngine, words []string) error {
	given, err := f.check(sets)
	if err != nil {
		return usageError{err}
	}
	if f.state != "" {
		words = append([]string{"--state=" + f.state}, words...)
	}
	p := fleet.Plan{Created: time.Now().UTC(), Tool: env.Version, Engine: f.engine, Options: given, Args: words,
		AtOnce: f.atOnce, Time: f.time, WaitAtMost: f.waitAtMost, Attempts: f.attempts}
	if f.where != "" {
		if p.Where, err = engine.ParseSelector(f.where); err != nil {
			return usageError{fmt.Errorf("--where: %w", err)}
		}
	}
	p.Token = fmt.Sprintf("%08x", rand.Uint32()) // what the names of the fleet's jobs have in common
	if f.name == "" {
		f.name = p.Created.Format("20060102-150405-") + studyWord(words)
	}
	dir, err := env.fleetDir(c, f.name)
	if err != nil {
		return err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return fmt.Errorf("fleet: %w", err)
	}
	if _, err := os.Lstat(filepath.Join(dir, "runs")); err == nil {
		return usageError{fmt.Errorf("fleet %s is there already: take another name, or go on with tare fleet resume %s", f.name, f.name)}
	}
	e, err := makers[f.engine](engine.Site{Tool: program(), Dir: dir})
	if err != nil {
		return usageError{err}
	}
	if p.Draw, err = env.draw(c, f, e, p.Where); err != nil {
		return err
	}
	if f.show {
		return env.showJobs(c, e, p)
	}
	if err := fleet.Begin(dir, p); err != nil {
		return usageError{err}
	}
	fmt.Fprintf(env.Stderr, "fleet %s: %s\n", f.name, p.Sentence())
	if p.Wanted < 3 {
		fmt.Fprintln(env.Stderr, "note: a mean over machines needs three of them")
	}
	collector := env.collector(dir, e)
	if f.noWait {
		err := collector.Submit(c.Context())
		if err == nil {
			fmt.Fprintf(env.Stderr, "the jobs are with the engine; collect them with: tare fleet resume %s\n", f.name)
		}
		return err
	}
	return env.collect(c, collector, dir, f.name, f.json)
}

// check refuses flags that make no sense; its result are the engine's flags that were given.
func (f *fleetFlags) check(sets map[string]*pflag.FlagSet) ([]string, error) {
	switch {
	case f.engine == "":
		return nil, fmt.Errorf("which engine? Give --engine: %s", strings.Join(engineNames(), " or "))
	case sets[f.engine] == nil:
		return nil, fmt.Errorf("--engine %s: there is no such engine; take %s%s", f.engine, strings.Join(engineNames(), " or "), study.Meant(f.engine, engineNames()))
	case f.nodes == "":
		return nil, errors.New("how many machines? Give --nodes N, all, or names")
	case f.atOnce < 1 || f.attempts < 1:
		return nil, fmt.Errorf("--at-once %d --attempts %d: both must be at least 1", f.atOnce, f.attempts)
	case f.time <= 0 || f.waitAtMost < 0:
		return nil, fmt.Errorf("--time %v --wait-at-most %v: the first must be positive, the second not negative", f.time, f.waitAtMost)
	case f.state != "" && !filepath.IsAbs(f.state):
		return nil, fmt.Errorf("--machine-state %s: give an absolute path", f.state)
	}
	for name, set := range sets {
		var wrong string
		set.VisitAll(func(flag *pflag.Flag) {
			if flag.Changed {
				wrong = flag.Name
			}
		})
		if name != f.engine && wrong != "" {
			return nil, fmt.Errorf("--%s is of the engine %s, and --engine is %s", wrong, name, f.engine)
		}
	}
	return givenFlags(sets[f.engine]), nil
}

// givenFlags are the flags that were set, as another process can parse them.
func givenFlags(set *pflag.FlagSet) []string {
	var given []string
	set.VisitAll(func(flag *pflag.Flag) { // they were set as flags of the verb
		if !flag.Changed {
			return
		}
		values := []string{flag.Value.String()}
		if many, ok := flag.Value.(pflag.SliceValue); ok {
			values = many.GetSlice()
		}
		for _, value := range values {
			given = append(given, "--"+flag.Name+"="+value)
		}
	})
	return given
}

// studyWord is the study of a command line, as a name for people.
func studyWord(words []string) string {
	if i := slices.Index(words, "run"); i >= 0 && i+1 < len(words) {
		return study.NameOf(strings.TrimSuffix(filepath.Base(words[i+1]), ".yaml"))
	}
	return weighWord
}

// draw asks the engine for its machines and chooses some.
func (env *Env) draw(c *cobra.Command, f *fleetFlags, e engine.Engine, where engine.Selector) (fleet.Draw, error) {
	machines, err := e.Machines(c.Context(), where)
	var selector *engine.SelectorError
	switch {
	case errors.As(err, &selector):
		return fleet.Draw{}, usageError{fmt.Errorf("--where: %w", err)}
	case err != nil:
		return fleet.Draw{}, &engine.CannotError{Err: fmt.Errorf("the engine %s cannot be asked for its machines: %w", f.engine, err)}
	}
	seed := f.seed
	if seed == 0 {
		seed = 1 + rand.Uint64N(1<<53-1)
	}
	d, err := fleet.Choose(machines, f.nodes, seed)
	if err != nil {
		return d, usageError{fmt.Errorf("--nodes: %w", err)}
	}
	return d, nil
}

func (env *Env) showJobs(c *cobra.Command, e engine.Engine, p fleet.Plan) error {
	out := visible{env.Stdout}
	fmt.Fprintf(out, "# %s\n", p.Sentence())
	for _, job := range p.Jobs() {
		text, err := e.Show(c.Context(), job)
		if err != nil {
			return err
		}
		fmt.Fprint(out, text)
	}
	return nil
}
