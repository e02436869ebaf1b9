package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tarelab/tare/internal/lab"
	"github.com/tarelab/tare/internal/limit"
	"github.com/tarelab/tare/internal/store"
	"github.com/tarelab/tare/internal/study"
	"github.com/tarelab/tare/internal/sys"
	"github.com/tarelab/tare/internal/workload"
)

// runFlags are the options of tare run.
type runFlags struct {
	measureFlags
	choose chooseFlags
	own    []func(study.Study) (study.Study, error) // by the experiments' own flags
}

func (f *runFlags) define(env *Env, c *cobra.Command) {
	f.measureFlags.define(c.Flags())
	f.choose.define(c.Flags())
	for _, e := range env.Experiments {
		if e.Flags != nil {
			f.own = append(f.own, e.Flags(c.Flags()))
		}
	}
	guestFlags(c.Flags())
	c.Flags().StringVar(&f.image, "image", "", "start the own command of this image (OCI layout, or a tar of one or of docker save) in place of tare's; nothing is pulled")
	sysctlFlag(c.Flags())
	peerFlag(c.Flags())
	complete(c, "on", env.completeTargets)
	complete(c, "control", env.completeTargets)
}

// study is what the flags ask for.
func (f *runFlags) study(env *Env, c *cobra.Command, args []string) (study.Study, error) {
	st, err := env.loadStudy(args[0])
	if err != nil {
		return st, err
	}
	for _, note := range st.Notes {
		fmt.Fprintln(env.Stderr, "note:", note)
	}
	if st, err = f.choose.apply(c.Flags(), st); err != nil {
		return st, err
	}
	for _, complete := range f.own {
		if st, err = complete(st); err != nil {
			return st, err
		}
	}
	if len(f.choose.apart) > 0 {
		fmt.Fprintf(env.Stderr, "left out: %s (own numbers of instances): name it with --workloads to measure it too\n", strings.Join(f.choose.apart, ", "))
	}
	if f.image != "" {
		return startingImage(st)
	}
	return st, nil
}

func runCommand(env *Env) *cobra.Command {
	var f runFlags
	c := &cobra.Command{
		Use:   "run STUDY",
		Short: "Run a study: a built-in one by name, or a YAML file",
		Long: `run measures a study and shows its report. STUDY is the name of a built-in study
(tare studies) or a YAML file; docs/studies.md has the schema. A study may have
variants: --quick and --published take those of these names. With --instances,
workloads with numbers of their own are left out, and what the study watches by
itself; in a study of the network they are those attached to it. --set FACTOR=LEVELS gives any other factor its levels.`,
		Example: `  tare run survey
  tare run ladder --blocks 50
  tare run density --quick
  tare run ./mine.yaml --instances 1,50,500 --concurrency 100 --on runc
  docker save hello-world -o hello.tar; tare run ./mine.yaml --image hello.tar
  tare run density --instances 0..4 --on crun
  tare run ./churn.yaml --set threads=1,8 --set each=40
  tare run ./mine.yaml --on qemu/microvm,qemu/q35 --guest-rootfs ./debian
  tare run ./mine.yaml --html mine.html`,
		ValidArgsFunction: env.completeStudies,
		Args:              exactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			st, err := f.study(env, c, args)
			if err != nil {
				return usageError{err}
			}
			return env.measure(c, st, &f.measureFlags)
		},
	}
	f.define(env, c)
	return c
}

func resumeCommand(env *Env) *cobra.Command {
	var f measureFlags
	var prepare bool
	c := &cobra.Command{
		Use:   "resume RUN",
		Short: "Go on with a run that was interrupted or killed",
		Long: `resume measures what a run still lacks: the same cells in the same order, no
trial twice. A record that was cut off by a kill is measured again. Virtual
machines are what they were, without their flags; other ones are refused. A run
goes on only for the user who made it. Where its study runs commands on the host,
resume shows them and needs --prepare.`,
		Example: "  tare resume last",

		ValidArgsFunction: env.completeRuns,
		Args:              exactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := checkPage(f.html); err != nil {
				return err
			}
			runs, err := env.openRuns(c, args)
			if err != nil {
				return err
			}
			if _, err := lab.Resumable(runs[0], prepare); err != nil { // before anything is swept or made
				return err
			}
			config := env.config(c)
			config.Guest = resumedGuest(c.Flags(), runs[0].Manifest().Guest)
			laboratory, err := lab.Open(c.Context(), config)
			if err != nil {
				return err
			}
			plan, err := laboratory.Resume(c.Context(), runs[0], prepare)
			if err != nil {
				return errors.Join(err, laboratory.Close())
			}
			return env.carryOut(c, laboratory, plan, func(run *store.Run) (error, error) { return env.show(c, run, &f) })
		},
	}
	f.shown(c.Flags())
	workbenchFlag(c.Flags())
	c.Flags().BoolVar(&prepare, "prepare", false, "execute the prepare commands of the run's study on the host")
	guestFlags(c.Flags())
	sysctlFlag(c.Flags())
	peerFlag(c.Flags())
	return c
}

// startingImage is the study with the user's image in place of the mark alone.
func startingImage(st study.Study) (study.Study, error) {
	st.Workloads = slices.Clone(st.Workloads)
	found := false
	for i, w := range st.Workloads {
		if w.Kind == workload.KindStart {
			st.Workloads[i].Kind, found = workload.KindImage, true
		}
	}
	if !found {
		return st, fmt.Errorf("--image: study %s has no workload of the kind %s, whose place the image's own command takes; weigh a command in an image with: tare weigh --image FILE -- CMD", st.ID, workload.KindStart)
	}
	return st.Detached(), nil
}

func sysctlFlag(flags *pflag.FlagSet) {
	flags.Bool("allow-sysctl", false, "levels that need it may change settings of the whole machine; they are put back, after a kill by tare sweep")
}

// loadStudy reads a built-in study by name, or a file.
func (env *Env) loadStudy(name string) (study.Study, error) {
	if !strings.ContainsAny(name, "/.") {
		data, err := env.Experiments.StudyText(name)
		if err != nil {
			return study.Study{}, err
		}
		return study.Parse(name+".yaml", data)
	}
	data, err := readStudy(name)
	if errors.Is(err, fs.ErrNotExist) {
		return study.Study{}, fmt.Errorf("study %s: no such file (built in are: %s)", name, strings.Join(env.Experiments.StudyNames(), ", "))
	}
	if err != nil {
		return study.Study{}, fmt.Errorf("study: %w", err)
	}
	return study.Parse(name, data)
}

// readStudy reads a study or limits of one from a file that the user named, bounded.
func readStudy(name string) ([]byte, error) {
	f, err := sys.OpenGiven(name, limit.Study)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return limit.Study.ReadAll(f)
}

// listedStudy is a built-in study as tare studies --json lists it.
type listedStudy struct {
	Name     string `json:"name"`
	Title    string `json:"title"`
	Question string `json:"question"`
}

func studiesCommand(env *Env) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "studies [NAME]",
		Short: "List the built-in studies, or print one to copy and edit",

		ValidArgsFunction: env.completeStudies,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usageError{fmt.Errorf("studies takes one name at most\nusage: %s", c.UseLine())}
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 1 {
				if asJSON {
					return usageError{fmt.Errorf("a study is YAML: tare studies %s prints it, and tare studies --json lists all", args[0])}
				}
				data, err := env.Experiments.StudyText(args[0])
				if err != nil {
					return usageError{err}
				}
				_, err = env.Stdout.Write(data)
				return err
			}
			var all []listedStudy
			for _, name := range env.Experiments.StudyNames() {
				st, err := env.loadStudy(name)
				if err != nil {
					return err
				}
				all = append(all, listedStudy{name, st.Title, st.Question})
			}
			if asJSON {
				return env.printJSON(all)
			}
			t := env.table("study", "what it answers")
			for _, st := range all {
				t.AppendRow([]any{st.Name, st.Question})
			}
			t.Render()
			return nil
		},
	}
	jsonFlag(c, &asJSON)
	return c
}
