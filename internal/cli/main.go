// Package cli is the command line: one file per verb, flags to options, and
// the only place that writes to standard output. It owns the outside world
// (arguments, environment, streams, signals) through Env, so that the whole of
// it is tested in-process.
package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/experiment"
	"github.com/tarelab/tare/internal/lab"
	"github.com/tarelab/tare/internal/peer"
	"github.com/tarelab/tare/internal/quantity"
	"github.com/tarelab/tare/internal/study"
)

// Env is the outside world, as main hands it in.
type Env struct {
	Args           []string                         // without the program's name
	Getenv         func(string) string              // of the environment
	Stdout, Stderr io.Writer                        // a terminal is recognised when it is an *os.File
	Drivers        func(driver.Lab) []driver.Driver // the explicit list of targets
	Foreign        map[string][]string              // names of targets of other architectures, each with these
	Experiments    experiment.List                  // the explicit list of experiments
	Version        string                           // of this build
	// Commands are the verbs of other packages.
	Commands []func(experiment.Laboratory) []*cobra.Command
}

// Main runs the command line and returns the exit code.
func Main(env Env) int {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer func() {
		signal.Stop(signals)
		close(signals)
		cancel()
	}()
	leave := func() { os.Exit(exitInterrupted) }
	go heed(signals, env.Stderr, graceTime, cancel, leave)
	// A panic of any goroutine would exit with 2, which means bad usage: it aborts
	// (SIGABRT, 134 in a shell), and one of the verb itself is exitLaboratory below.
	debug.SetTraceback("crash")
	// Where the reader of a pipe has gone (| head), the write's error tells; the signal
	// would end tare in the midst of a trial. It is not ignored, for payloads inherit
	// what is ignored.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	out := &output{Writer: env.Stdout}
	env.Stdout, env.Stderr = out, visible{env.Stderr}
	root := Command(&env)
	root.SetArgs(env.Args)
	root.SetOut(env.Stdout)
	root.SetErr(env.Stderr)
	err := execute(ctx, root)
	if err == nil || !errors.Is(out.err, errReaderGone) {
		err = errors.Join(err, out.err)
	}
	if err != nil && !onlyVerdict(err) && !errors.Is(err, errReaderGone) {
		env.tellError(err)
	}
	return exitCode(err)
}

// tellError says why the verb failed: in JSON where the command line asks for that.
func (env *Env) tellError(err error) {
	message := strings.TrimSpace(err.Error())
	if errors.Is(err, context.Canceled) {
		message = "interrupted"
	}
	if !wantsJSON(env.Args) {
		fmt.Fprintln(env.Stderr, "tare:", message)
		return
	}
	failure := struct {
		Error string `json:"error"`
		Code  int    `json:"code"` // the exit code
	}{message, exitCode(err)}
	if err := json.NewEncoder(env.Stderr).Encode(failure); err != nil {
		fmt.Fprintln(env.Stderr, "tare:", message)
	}
}

// execute runs the verb. Its panic is an error of tare with the stack, so that the
// exit code is not that of bad usage.
func execute(ctx context.Context, root *cobra.Command) (err error) {
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("internal error: %v; report this as a bug of tare; tare sweep removes what is left\n%s", reason, debug.Stack())
		}
	}()
	return root.ExecuteContext(ctx)
}

// graceTime bounds how long the verb may take to finish after a signal that is not
// Ctrl-C: who sent it may not be there to send another. It is less than the 90 s after
// which systemd kills, so that tare says how it ended.
const graceTime = 80 * time.Second

// oneWish is within how long the same signal again is the same wish: timeout(1) sends its
// own to its child, and then to the group of both. Who is as fast presses again.
const oneWish = 300 * time.Millisecond

// heed finishes tidily what is under way when the first signal comes. A second Ctrl-C
// or SIGTERM leaves at once. SIGHUP does not count as a second signal, because a
// terminal that closes and its shell both send one. After a SIGTERM or SIGHUP that the
// verb does not heed within grace, heed leaves, too.
func heed(signals <-chan os.Signal, w io.Writer, grace time.Duration, finish, leave func()) {
	first, came := <-signals
	if !came {
		return
	}
	if terminal(w) {
		fmt.Fprintln(w) // behind the ^C
	}
	fmt.Fprintln(w, "tare: finishing; a second Ctrl-C or SIGTERM leaves at once, and tare sweep then removes what is left")
	finish()
	began := time.Now()
	var late <-chan time.Time
	if first != os.Interrupt {
		late = time.After(grace)
	}
	for {
		select {
		case s, more := <-signals:
			switch {
			case !more:
				return
			case s == first && time.Since(began) < oneWish:
			case s == os.Interrupt || s == syscall.SIGTERM:
				leave()
			case late == nil:
				late = time.After(grace)
			}
		case <-late:
			fmt.Fprintf(w, "tare: not finished after %v: leaving; tare sweep removes what is left\n", grace)
			late = nil
			leave()
		}
	}
}

// Command is the whole command line: what Main runs, and what manual pages are made of.
func Command(env *Env) *cobra.Command {
	root := &cobra.Command{
		Use:   "tare",
		Short: "Weigh isolation: what a container, a runtime or an engine costs on this machine",
		Long: `tare runs the same workload on the host, in a bare container, in OCI runtimes,
through engines and in virtual machines, and says what each layer costs, how
sure that is, and why.

Measuring needs root for most targets; check, report, studies and help do not.`,
		Example: `  tare check                               what can be weighed here
  tare run survey                          the price list of this machine
  tare weigh -- sort /etc/passwd           any command, on every layer found
  tare run ladder                          what each step of isolation costs
  tare studies                             all built-in studies
  tare report last --format html -o r.html`,
		Version:       env.Version,
		SilenceUsage:  true,
		SilenceErrors: true,

		Args:              env.noVerb,
		RunE:              func(c *cobra.Command, _ []string) error { return c.Help() },
		PersistentPreRunE: func(c *cobra.Command, _ []string) error { return env.checkPlaces(c) },
	}
	root.SetFlagErrorFunc(flagError)
	root.SetUsageTemplate(root.UsageTemplate() + "{{if not .HasParent}}\n" + exitHelp + "{{end}}")
	root.SetVersionTemplate("tare {{.Version}}\n")
	root.PersistentFlags().String("state", "", "directory for runs and images (default $TARE_STATE, else /var/lib/tare for root, else ~/.local/state/tare)")
	root.PersistentFlags().Bool("private-engines", false, "start own container engines even where some run already")
	addGroup(root, experiment.GroupMeasure, weighCommand(env), runCommand(env), resumeCommand(env), serveCommand(env))
	addGroup(root, experiment.GroupLook, reportCommand(env), gateCommand(env), runsCommand(env), historyCommand(env), fleetCommand(env), studiesCommand(env))
	addGroup(root, experiment.GroupDiagnose, checkCommand(env), containersCommand(env))
	addGroup(root, experiment.GroupKernels)
	addGroup(root, experiment.GroupKeep, setupCommand(env), imageCommand(env), verifyCommand(env), sweepCommand(env), versionCommand(env))
	root.SetHelpCommandGroupID(experiment.GroupKeep)
	root.SetCompletionCommandGroupID(experiment.GroupKeep)
	root.AddCommand(env.contributed()...)
	root.InitDefaultCompletionCmd()
	root.InitDefaultHelpCmd()
	if c, _, err := root.Find([]string{"help"}); err == nil {
		c.Args = env.helpTopic
	}
	for _, c := range root.Commands() {
		refuseOthers(c)
		alsoFormat(c)
	}
	notesTo(env.Stderr, root)
	return root
}

// refuseOthers makes what is none of a verb's own verbs bad usage, at every depth. Cobra
// shows the help and is content.
func refuseOthers(c *cobra.Command) {
	if c.HasSubCommands() && (c.Args == nil || !c.Runnable()) {
		c.Args = noCommand
	}
	if c.HasSubCommands() && !c.Runnable() {
		c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
	}
	for _, verb := range c.Commands() {
		refuseOthers(verb)
	}
}

// helpTopic refuses help on a verb that is none.
func (env *Env) helpTopic(c *cobra.Command, args []string) error {
	verb, rest, err := c.Root().Find(args)
	switch {
	case err != nil || !verb.HasSubCommands():
		return err // what follows a verb without verbs is its own argument
	case !verb.HasParent():
		return env.noVerb(verb, rest)
	}
	return noCommand(verb, rest)
}

// notesTo prints what flags of earlier versions are called now to w: cobra would print it
// to standard output, which has the report.
func notesTo(w io.Writer, c *cobra.Command) {
	c.Flags().SetOutput(w)
	for _, verb := range c.Commands() {
		notesTo(w, verb)
	}
}

// addGroup adds a group of verbs to the help, with its own verbs.
func addGroup(root *cobra.Command, group string, verbs ...*cobra.Command) {
	root.AddGroup(&cobra.Group{ID: group, Title: strings.ToUpper(group[:1]) + group[1:] + ":"})
	for _, c := range verbs {
		c.GroupID = group
	}
	root.AddCommand(verbs...)
}

// noVerb is noCommand of tare itself, where a study's name is a word that people try.
func (env *Env) noVerb(c *cobra.Command, args []string) error {
	if len(args) > 0 && slices.Contains(env.Experiments.StudyNames(), args[0]) {
		return usageError{fmt.Errorf("%s is a study; did you mean \"tare run %s\"?", args[0], args[0])}
	}
	return noCommand(c, args)
}

// noCommand refuses a verb that is none, and names the nearest.
func noCommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	err := fmt.Errorf("unknown command %q", args[0])
	if near := nearVerb(c, args[0]); near != "" {
		err = fmt.Errorf("%w; did you mean %q?", err, near)
	}
	return usageError{fmt.Errorf("%w\nsee: %s --help", err, c.CommandPath())}
}

// nearVerb is the verb of c that a word was meant to be: the only one that it begins, else
// the nearest; "" for none.
func nearVerb(c *cobra.Command, word string) string {
	var names, begun []string
	for _, verb := range c.Commands() {
		names = append(names, verb.Name())
		if strings.HasPrefix(verb.Name(), word) {
			begun = append(begun, verb.Name())
		}
	}
	if len(begun) == 1 {
		return begun[0]
	}
	return study.Nearest(word, names)
}

// checkPlaces refuses places that would depend on the current directory (a
// runtime found there would be somebody else's program, run by root), and a
// kernel that is not there.
func (env *Env) checkPlaces(c *cobra.Command) error {
	if dir := env.config(c).StateDir; !filepath.IsAbs(dir) {
		return usageError{fmt.Errorf("the state directory %q is relative because HOME is not set: set HOME, or give an absolute one with --state", dir)}
	}
	if where := env.peerOf(c); where != "" {
		if err := peer.Check(where); err != nil {
			return usageError{fmt.Errorf("--peer: %w", err)}
		}
	}
	kernel := env.config(c).Guest.Kernel
	if info, err := os.Stat(kernel); kernel != "" && (err != nil || !info.Mode().IsRegular()) {
		return usageError{fmt.Errorf("--kernel %s: there is no such file", kernel)}
	}
	return nil
}

// config is the laboratory's configuration, from flags and environment.
func (env *Env) config(c *cobra.Command) lab.Config {
	private, _ := c.Flags().GetBool("private-engines") // the flags are defined on the root: errors cannot occur
	sysctl, err := c.Flags().GetBool("allow-sysctl")
	sysctl = sysctl && err == nil                    // a command without the flag allows nothing
	workbench, _ := c.Flags().GetString("workbench") // "" of a command without the flag
	state, _ := c.Flags().GetString("state")
	if state == "" {
		state = env.Getenv("TARE_STATE")
	}
	if absolute, err := filepath.Abs(state); state != "" && err == nil {
		state = absolute
	}
	if state == "" && os.Geteuid() == 0 {
		state = "/var/lib/tare"
	}
	if state == "" {
		base := env.Getenv("XDG_STATE_HOME")
		if base == "" {
			base = filepath.Join(env.Getenv("HOME"), ".local", "state")
		}
		state = filepath.Join(base, "tare")
	}
	var tools []string
	kept := env.cacheDir()
	if kept != "" {
		built := filepath.Join(kept, "tools")
		tools = []string{built, filepath.Join(built, "youki", "bin")}
	}
	return lab.Config{
		StateDir: state,
		ToolDirs: tools,
		CacheDir: kept,
		Guest:    guestOf(c.Flags()),
		Version:  env.Version,
		Tool:     program(),
		Command:  append([]string{"tare"}, env.Args...),
		Drivers:  env.Drivers,
		Foreign:  env.Foreign,

		PrivateEngines: private,
		AllowSysctl:    sysctl,
		Workbench:      workbench,
		Peer:           env.peerOf(c),
		Tell:           func(what string) { fmt.Fprintln(env.Stderr, "tare:", what) },
	}
}

// program is the path of this program; where the system cannot tell, what needs it
// fails with that.
func program() string {
	path, err := os.Executable()
	if err != nil {
		return ""
	}
	return path
}

// plainWidth is the number of columns where stdout is no terminal: wide tables
// are split, not left to wrap wherever they are read.
const plainWidth = 120

// width is the terminal's number of columns.
func (env *Env) width() int {
	f, ok := file(env.Stdout)
	if !ok {
		return plainWidth
	}
	w, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return plainWidth
	}
	return w
}

// exactArgs is cobra.ExactArgs with our words, exit code and the usage line.
func exactArgs(n int) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) == n {
			return nil
		}
		return notTaken(c, args)
	}
}

// someArgs refuses a verb without arguments, with what is missing.
func someArgs(missing string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return usageError{fmt.Errorf("%s\nusage: %s", missing, c.UseLine())}
		}
		return nil
	}
}

// notTaken is the error of a verb that takes other arguments than it was given.
func notTaken(c *cobra.Command, args []string) error {
	return usageError{fmt.Errorf("%s does not take %s\nusage: %s", c.Name(), quantity.Count(len(args), "argument"), c.UseLine())}
}
