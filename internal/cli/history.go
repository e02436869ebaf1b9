package cli

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/tarelab/tare/internal/finding"
	"github.com/tarelab/tare/internal/gate"
	"github.com/tarelab/tare/internal/history"
	"github.com/tarelab/tare/internal/lab"
	"github.com/tarelab/tare/internal/limit"
	"github.com/tarelab/tare/internal/report"
	"github.com/tarelab/tare/internal/study"
	"github.com/tarelab/tare/internal/sys"
)

// historyFlags are those of tare history and its verbs.
type historyFlags struct {
	file   string
	notes  []string
	format string
	output string
	since  string
}

func historyCommand(env *Env) *cobra.Command {
	var f historyFlags
	c := &cobra.Command{
		Use:   "history",
		Short: "Keep what runs found, and find where it changed",
	}
	c.PersistentFlags().StringVar(&f.file, "file", "", "the history, JSON lines (default history.jsonl in the state directory)")
	c.AddCommand(env.historyAdd(&f), env.historyShow(&f), env.historyCheck(&f))
	return c
}

func (env *Env) historyAdd(f *historyFlags) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:               "add RUN...",
		Short:             "Add the primary ratios of runs, once each",
		Example:           "  tare history add last --note commit=1a2b3c",
		ValidArgsFunction: env.completeRuns,
		Args:              someRuns,
		RunE:              func(c *cobra.Command, args []string) error { return env.addToHistory(c, f, args, asJSON) },
	}
	jsonFlag(c, &asJSON)
	c.Flags().StringArrayVar(&f.notes, "note", nil, "what to remember with the runs, NAME=VALUE (repeatable)")
	return c
}

// addedToHistory is what tare history add --json prints.
type addedToHistory struct {
	File  string `json:"file"`
	Added int    `json:"added"` // ratios that the history did not have
	Of    int    `json:"of"`    // ratios of the runs
}

func (env *Env) addToHistory(c *cobra.Command, f *historyFlags, names []string, asJSON bool) error {
	notes := map[string]string{}
	for _, n := range f.notes {
		name, value, ok := strings.Cut(n, "=")
		if !ok || name == "" {
			return usageError{fmt.Errorf("--note %q: it is NAME=VALUE", n)}
		}
		notes[name] = value
	}
	runs, err := env.openRuns(c, names)
	if err != nil {
		return err
	}
	var found []history.Entry
	for _, run := range runs {
		_, in, err := lab.Report(run)
		if err != nil {
			return err
		}
		found = append(found, history.Of(run.Manifest(), in.Claims.Tables, notes)...)
	}
	file := env.historyFile(c, f)
	if f.file == "" { // runs elsewhere need no state directory
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return fmt.Errorf("state directory: %w (choose another with --state)", err)
		}
	}
	added, torn, err := appendHistory(file, found)
	if err != nil {
		return fmt.Errorf("history %s: %w", file, err)
	}
	env.noteTorn(file, torn, "is removed")
	if asJSON {
		err = env.printJSON(addedToHistory{file, added, len(found)})
	} else {
		fmt.Fprintf(visible{env.Stdout}, "%s: %d of %d ratios added\n", file, added, len(found))
	}
	if len(found) == 0 {
		return usageError{errors.New("the runs hold no ratio with an interval: a history needs runs of six blocks or more")}
	}
	return err
}

// noteTorn reports a last line that a kill cut short.
func (env *Env) noteTorn(file string, torn int, what string) {
	if torn > 0 {
		fmt.Fprintf(visible{env.Stderr}, "tare: %s: the last line was cut short (%d bytes of it were written) and %s: tare history add RUN adds its run again\n", file, torn, what)
	}
}

// appendHistory adds to a file what it does not hold yet, and cuts off a last line that a
// kill left torn. Only one process at a time does so; a line that cannot be written whole
// is taken back.
func appendHistory(name string, found []history.Entry) (added, torn int, err error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o644)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		return 0, 0, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("not a regular file")
	}
	if err != nil {
		return 0, 0, err
	}
	have, torn, err := history.Read(f)
	if err != nil {
		return 0, 0, err
	}
	var lines []byte
	fresh := history.New(have, found)
	for _, e := range fresh {
		line, err := e.Line()
		if err != nil {
			return 0, 0, err
		}
		lines = append(lines, line...)
	}
	whole := info.Size() - int64(torn)
	if err = f.Truncate(whole); err == nil {
		_, err = f.WriteAt(lines, whole)
	}
	if err == nil {
		err = f.Sync()
	}
	if err != nil {
		return 0, 0, errors.Join(err, f.Truncate(whole))
	}
	return len(fresh), torn, nil
}

func (env *Env) historyFile(c *cobra.Command, f *historyFlags) string {
	if f.file != "" {
		return f.file
	}
	return filepath.Join(env.config(c).StateDir, "history.jsonl")
}

// readHistory reads the series whose cell, or study and cell, begin with one of names.
func (env *Env) readHistory(c *cobra.Command, f *historyFlags, names []string) ([]history.Series, error) {
	name := env.historyFile(c, f)
	file, err := sys.OpenGiven(name, limit.History)
	if errors.Is(err, os.ErrNotExist) {
		return nil, usageError{fmt.Errorf("there is no history %s yet; tare history add RUN begins one", name)}
	}
	if err != nil {
		return nil, usageError{err}
	}
	defer func() { _ = file.Close() }() // only read
	entries, torn, err := history.Read(file)
	if err != nil {
		return nil, usageError{fmt.Errorf("%s: %w", name, err)}
	}
	env.noteTorn(name, torn, "is left out")
	all := history.All(entries)
	if len(names) == 0 {
		return all, nil
	}
	var known []string
	for _, s := range all {
		known = append(known, s[0].Cell, s[0].Study+"/"+s[0].Cell)
	}
	chosen := slices.DeleteFunc(all, func(s history.Series) bool {
		return !slices.ContainsFunc(names, func(n string) bool {
			return strings.HasPrefix(s[0].Cell, n) || strings.HasPrefix(s[0].Study+"/"+s[0].Cell, n)
		})
	})
	if len(chosen) == 0 {
		return nil, usageError{fmt.Errorf("%s has no series that begins with %s; tare history show lists them%s", name, strings.Join(names, " or "), study.Meant(names[0], known))}
	}
	return chosen, nil
}

func (env *Env) historyShow(f *historyFlags) *cobra.Command {
	c := &cobra.Command{
		Use:   "show [SERIES...]",
		Short: "List the series, or the runs of some",
		Example: `  tare history show
  tare history show start/runc`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			format, err := f.shown()
			if err != nil {
				return err
			}
			all, err := env.readHistory(c, f, args)
			if err != nil {
				return err
			}
			return laboratory{env}.Document(format, historyDocument(all, len(args) > 0), f.output)
		},
	}
	f.showing(c)
	return c
}

func (env *Env) historyCheck(f *historyFlags) *cobra.Command {
	c := &cobra.Command{
		Use:   "check [SERIES...]",
		Short: "Find where series changed, with an exit code for CI",
		Long: `check looks for steps in each series of at least six runs: places where the level
changed, for three runs or more, by more than the study's margin and the runs' own
noise (E-divisive, permutation test, Holm over the series). It exits with 6 where one
became worse. docs/gates.md has the rules.`,
		Example: `  tare history check
  tare history check start/runc --since 2026-11-01`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			since, err := parseSince(f.since)
			if err != nil {
				return usageError{err}
			}
			format, err := f.shown()
			if err != nil {
				return err
			}
			all, err := env.readHistory(c, f, args)
			if err != nil {
				return err
			}
			changes := slices.DeleteFunc(history.Changes(all), func(c history.Change) bool { return c.After.At.Before(since) })
			if err := (laboratory{env}).Document(format, changesDocument(all, changes), f.output); err != nil {
				return err
			}
			for _, c := range changes {
				if c.Worse() {
					return gateError{gate.Broken}
				}
			}
			return nil
		},
	}
	c.Flags().StringVar(&f.since, "since", "", "only changes from this day on, as 2026-11-01")
	f.showing(c)
	return c
}

// showing defines how a document is shown.
func (f *historyFlags) showing(c *cobra.Command) {
	formatFlag(c, &f.format, "text, md, json or html", "text", "md", "json", "html")
	outputFlag(c, &f.output)
}

// shown is the format of a document. What cannot be written is refused.
func (f *historyFlags) shown() (report.Format, error) {
	format, err := report.ParseDocumentFormat(f.format)
	if err != nil {
		return "", usageError{err}
	}
	return format, checkOutput("--output", f.output)
}

func parseSince(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	at, err := time.Parse(time.DateOnly, text)
	if err != nil {
		return at, fmt.Errorf("--since %s: it is a day, as 2026-11-01", text)
	}
	return at, nil
}

// historyDocument lists series, or with runs all of their runs.
func historyDocument(all []history.Series, runs bool) finding.Document {
	d := finding.Document{Title: "History", Data: all, Note: "A ratio is to the run's own control, with its interval."}
	list := finding.DocumentTable{Table: finding.Table{Title: "Series", Head: []string{"study", "series", "metric", "runs", "from", "to", "last ratio"}}, Spare: []int{0, 4}}
	for _, s := range all {
		first, last := s[0], s[len(s)-1]
		list.Rows = append(list.Rows, []string{last.Study, last.Cell, last.Metric.Name, fmt.Sprint(len(s)), first.At.Format(time.DateOnly), last.At.Format(time.DateOnly), ratioOf(last)})
		if runs {
			d.Tables = append(d.Tables, seriesTable(s))
		}
	}
	d.Tables = append([]finding.DocumentTable{list}, d.Tables...)
	return d
}

func seriesTable(s history.Series) finding.DocumentTable {
	t := finding.DocumentTable{Table: finding.Table{Title: fmt.Sprintf("%s, %s: %s", s[0].Cell, s[0].Metric.Name, s[0].Machine),
		Head: []string{"run", "made", "ratio", "interval", "noise", "version", "note"}}, Spare: []int{5}}
	for _, e := range s {
		var notes []string
		for name, value := range e.Note {
			notes = append(notes, name+"="+value)
		}
		slices.Sort(notes)
		t.Rows = append(t.Rows, []string{e.Run, e.At.Format(time.DateTime), ratioOf(e), fmt.Sprintf("[%.3f, %.3f]", math.Exp(e.Low), math.Exp(e.High)),
			fmt.Sprintf("%.0f %%", 100*e.Noise), e.Version, strings.Join(notes, " ")})
	}
	return t
}

func ratioOf(e history.Entry) string { return fmt.Sprintf("×%.3f", math.Exp(e.Log)) }

// changesDocument lists changes, with what would prove one.
func changesDocument(all []history.Series, changes []history.Change) finding.Document {
	long := 0
	for _, s := range all {
		if len(s) >= 2*history.SmallestSegment {
			long++
		}
	}
	d := finding.Document{Title: fmt.Sprintf("Changes: %d", len(changes)), Data: changes,
		Note: fmt.Sprintf("Series: %d, of which %d have the %d runs that a change takes.", len(all), long, 2*history.SmallestSegment)}
	if len(changes) == 0 {
		return d
	}
	t := finding.DocumentTable{Table: finding.Table{Title: "The new level against the old one", Head: []string{"series", "metric", "change", "ratio", "interval", "last before", "first after", "p"}}, Spare: []int{7}}
	for _, c := range changes {
		t.Rows = append(t.Rows, []string{c.Cell, c.Metric, string(c.Word), fmt.Sprintf("×%.3f", c.Ratio), fmt.Sprintf("[%.3f, %.3f]", c.Bounds.Low, c.Bounds.High), c.Before.Run, c.After.Run, fmt.Sprintf("%.2g", c.P)})
	}
	d.Tables = []finding.DocumentTable{t}
	d.Note += " One run of both versions in turn proves a change: tare run STUDY --on TARGET=OLD,TARGET=NEW, where OLD and NEW are paths of their programs. Runs of different days differ also by what else changed."
	return d
}
