package cli

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tarelab/tare/internal/lab"
	"github.com/tarelab/tare/internal/setup"
	"github.com/tarelab/tare/internal/workload"
)

// setupFlags are those of tare setup.
type setupFlags struct {
	on     []string
	study  string
	yes    bool
	dryRun bool
	json   bool
}

// setUp is what tare setup --json prints.
type setUp struct {
	Manager   string      `json:"manager"`  // of packages; "" where this machine has none that tare knows
	Parts     []setUpPart `json:"parts"`    // as they are at the end
	Commands  [][]string  `json:"commands"` // that install what was missing; [] for none
	Installed bool        `json:"installed"`
}

type setUpPart struct {
	Name     string   `json:"name"`
	For      []string `json:"for"`
	Here     bool     `json:"here"`
	Packages []string `json:"packages,omitempty"` // of the manager
	Else     string   `json:"else,omitempty"`     // what to do where there is no package
}

func setupCommand(env *Env) *cobra.Command {
	var f setupFlags
	c := &cobra.Command{
		Use:   "setup",
		Short: "Show what this machine lacks of what can be weighed, and install it",
		Long: `setup lists the programs that targets and the survey need, which of them are missing,
and the packages that have them. It installs those packages by apt, dnf, zypper,
pacman or apk, after it has asked. No service is enabled that was not enabled before.
What the distribution has no package for, is listed with what to do.`,
		Example: `  tare setup --dry-run
  tare setup --on runc,podman
  tare setup --study survey
  tare setup --study applications   # redis, nginx and PostgreSQL too
  tare setup --yes`,
		Args: exactArgs(0),
		RunE: func(c *cobra.Command, _ []string) error { return env.setup(c, f) },
	}
	c.Flags().StringSliceVar(&f.on, "on", nil, "only what these targets need, by name")
	complete(c, "on", env.completeTargets)
	c.Flags().StringVar(&f.study, "study", "", "only what this study's targets and workloads need, by name or file")
	complete(c, "study", env.completeStudies)
	c.Flags().BoolVarP(&f.yes, "yes", "y", false, "install without asking")
	c.Flags().BoolVar(&f.dryRun, "dry-run", false, "print the commands, run none")
	jsonFlag(c, &f.json)
	return c
}

func (env *Env) setup(c *cobra.Command, f setupFlags) error {
	if err := noTarget(c.Flags(), f.on); err != nil {
		return usageError{err}
	}
	table, err := setup.Read()
	if err != nil {
		return err
	}
	if len(f.on) > 0 {
		if err := env.knownTargets(c, f.on); err != nil {
			return err
		}
	}
	targets, programs, err := env.wanted(f)
	if err != nil {
		return usageError{err}
	}
	machine := setup.Here(runtime.GOARCH, env.Getenv("PATH"), env.config(c).ToolDirs...)
	by := machine.Manager(table)
	parts := machine.Of(table, targets, programs...)
	if !f.json {
		env.listParts(machine, by, parts)
		_, err := env.installLacking(c, f, machine, by, parts)
		return cmp.Or(err, f.unmet(machine, parts))
	}
	found := setUp{Commands: [][]string{}}
	if by != nil {
		found.Manager = by.Name
		if names := lacking(machine, by, parts); len(names) > 0 {
			found.Commands = by.Commands(names)
		}
	}
	steps := *env
	steps.Stdout = env.Stderr // standard output has the JSON
	found.Installed, err = steps.installLacking(c, f, machine, by, parts)
	for _, p := range parts {
		one := setUpPart{Name: p.Name, For: p.For, Here: machine.Has(p), Else: p.Else}
		if by != nil {
			one.Packages = p.Packages[by.Name]
		}
		found.Parts = append(found.Parts, one)
	}
	return errors.Join(cmp.Or(err, f.unmet(machine, parts)), env.printJSON(found))
}

// unmet is the error that stands for what targets that were named still lack.
func (f setupFlags) unmet(machine setup.Machine, parts []setup.Part) error {
	if len(f.on) == 0 || f.dryRun {
		return nil
	}
	for _, p := range parts {
		if !machine.Has(p) {
			return &lab.LackError{What: fmt.Sprintf("%s is still missing, which is for %s: the list says what to do", p.Name, strings.Join(p.For, ", "))}
		}
	}
	return nil
}

// installLacking installs the packages of the parts that are missing, and reports
// whether it came to that.
func (env *Env) installLacking(c *cobra.Command, f setupFlags, machine setup.Machine, by *setup.Manager, parts []setup.Part) (installed bool, err error) {
	names := lacking(machine, by, parts)
	switch {
	case by == nil && slices.ContainsFunc(parts, func(p setup.Part) bool { return !machine.Has(p) }):
		const none = "this machine has none of apt-get, dnf, zypper, pacman and apk: get the programs that are missing in another way"
		if !f.dryRun {
			return false, &lab.LackError{What: none}
		}
		fmt.Fprintln(env.Stdout, "\n"+none)
		return false, nil
	case len(names) == 0:
		said := "No package is missing."
		if slices.ContainsFunc(parts, func(p setup.Part) bool { return !machine.Has(p) }) {
			said = "No package has what is missing; the list says what to do."
		}
		fmt.Fprintln(env.Stdout, "\n"+said)
		return false, nil
	}
	fmt.Fprintln(env.Stdout)
	for _, argv := range by.Commands(names) {
		fmt.Fprintln(env.Stdout, strings.Join(argv, " "))
	}
	if f.dryRun {
		return false, nil
	}
	if os.Geteuid() != 0 {
		return false, &lab.LackError{What: "packages are installed by root: run tare setup as root"}
	}
	if !f.yes {
		if err := env.agreed(c.Context()); err != nil {
			return false, err
		}
	}
	return true, env.install(c, machine, *by, names, parts)
}

// wanted are the targets that the flags ask for, and the programs that their study's
// workloads run.
func (env *Env) wanted(f setupFlags) (targets, programs []string, err error) {
	if f.study == "" {
		return f.on, nil, nil
	}
	st, err := env.loadStudy(f.study)
	if err != nil {
		return nil, nil, fmt.Errorf("--study: %w", err)
	}
	for _, w := range st.Workloads {
		job, err := workload.Resolve(w.Kind, w.Params, w.Args)
		if err != nil {
			return nil, nil, fmt.Errorf("--study %s: workload %s: %w", f.study, w.Name, err)
		}
		programs = append(programs, job.Needs...)
	}
	return slices.Concat(f.on, st.Targets, st.Optional), programs, nil
}

// knownTargets refuses names that are no targets of this machine.
func (env *Env) knownTargets(c *cobra.Command, names []string) error {
	laboratory, err := lab.Open(c.Context(), env.config(c))
	if err != nil {
		return err
	}
	_, err = laboratory.Drivers(c.Context(), names...)
	return errors.Join(err, laboratory.Close())
}

func (env *Env) listParts(machine setup.Machine, by *setup.Manager, parts []setup.Part) {
	t := env.table("part", "for", "here", "packages")
	for _, p := range parts {
		how := p.Else
		if by != nil && p.Packages[by.Name] != nil {
			how = strings.Join(p.Packages[by.Name], " ")
		}
		if machine.Has(p) {
			how = ""
		}
		t.AppendRow([]any{p.Name, strings.Join(p.For, ", "), yes(machine.Has(p)), how})
	}
	t.Render()
}

// lacking are the packages of the parts that are missing.
func lacking(machine setup.Machine, by *setup.Manager, parts []setup.Part) []string {
	var names []string
	for _, p := range parts {
		if by == nil || machine.Has(p) {
			continue
		}
		for _, name := range p.Packages[by.Name] {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// agreed asks on the terminal.
func (env *Env) agreed(ctx context.Context) error {
	if !terminal(os.Stdin) {
		return usageError{errors.New("nobody can be asked on this standard input: give --yes to install, or --dry-run")}
	}
	fmt.Fprint(env.Stdout, "Install? [y/N] ")
	answer := make(chan error, 1)
	go func() { answer <- saidYes(os.Stdin) }() // a read of a terminal has no end of its own
	select {
	case <-ctx.Done():
		return ctx.Err()
	case err := <-answer:
		return err
	}
}

// saidYes reads an answer, of which anything but yes is an error. An end of input is a no.
func saidYes(from io.Reader) error {
	line, err := bufio.NewReader(from).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("nothing was installed: the answer cannot be read: %w", err)
	}
	if answer := strings.ToLower(strings.TrimSpace(line)); answer != "y" && answer != "yes" {
		return usageError{errors.New("nothing was installed")}
	}
	return nil
}

// install installs packages, with a line for each step; the rest is in a log.
func (env *Env) install(c *cobra.Command, machine setup.Machine, by setup.Manager, names []string, parts []setup.Part) (err error) {
	state := env.config(c).StateDir
	if err := os.MkdirAll(state, 0o755); err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(state, "setup.log"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	if err := env.step(log, "refresh the lists of packages", func(w io.Writer) error { return by.Refreshed(c.Context(), w) }); err != nil {
		return err
	}
	offered, not := by.Offered(c.Context(), names)
	if err := c.Context().Err(); err != nil {
		return err
	}
	if len(not) > 0 {
		fmt.Fprintln(env.Stdout, "not in this distribution:", strings.Join(not, " "))
	}
	if len(offered) == 0 {
		return &lab.LackError{What: "this distribution has none of the packages"}
	}
	var disabled []string
	err = env.step(log, "install "+strings.Join(offered, " "), func(w io.Writer) error {
		disabled, err = machine.Install(c.Context(), by, offered, w)
		return err
	})
	if len(disabled) > 0 {
		fmt.Fprintln(env.Stdout, "not enabled, as before:", strings.Join(disabled, " "))
	}
	if err != nil {
		return err
	}
	var missing []string
	for _, p := range parts {
		if !machine.Has(p) {
			missing = append(missing, p.Name)
		}
	}
	if len(missing) > 0 {
		fmt.Fprintln(env.Stdout, "still missing:", strings.Join(missing, ", "))
	}
	return nil
}

// step runs one step of a set-up, and prints how long it took.
func (env *Env) step(log *os.File, what string, do func(io.Writer) error) error {
	began := time.Now()
	if err := do(log); err != nil {
		return fmt.Errorf("%s: %w; %s has what was said", what, err, log.Name())
	}
	fmt.Fprintf(env.Stdout, "%s: %s\n", what, time.Since(began).Round(time.Second))
	return nil
}
