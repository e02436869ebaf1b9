package kerneltools

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/tarelab/tare/internal/kerneltools/proof"
	"github.com/tarelab/tare/internal/kerneltools/trim"
	"github.com/tarelab/tare/internal/lab"
)

// trimMinimize searches for the smallest kernel that passes the proof.
func (v verbs) trimMinimize(c *cobra.Command, f *trimBuildFlags, o trim.Options) (err error) {
	config := v.Config(c)
	config.Tell = func(what string) { fmt.Fprintln(v.Stderr(), what) }
	laboratory, err := lab.Open(c.Context(), config)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, laboratory.Close()) }()
	prover, err := proof.Prover(c.Context(), laboratory, f.vm)
	if err != nil {
		return err
	}
	if err := v.trimSource(c, f, &o); err != nil {
		return err
	}
	found, err := proof.Minimize(c.Context(), laboratory, prover, o, f.budget, v.tellStep, v.buildProgress(time.Now()))
	if err != nil {
		return notBuilt(err)
	}
	if f.json {
		return v.JSON(found)
	}
	v.printFound(found, o.Output)
	return nil
}

// tellStep tells of one candidate.
func (v verbs) tellStep(s trim.Step) {
	what := "the kernel as it is"
	if len(s.Without) > 0 {
		what = fmt.Sprintf("without %s", someOf(s.Without))
	}
	came := "refused: " + firstWords(s.Why)
	if s.Accepted {
		came = fmt.Sprintf("proven, %.2f MB", megabytes(s.Image))
	}
	v.ClearLine()
	fmt.Fprintf(v.Stderr(), "%s: %s (%s)\n", what, came, (time.Duration(s.Seconds * float64(time.Second))).Round(time.Second))
}

// someOf names the first of many symbols.
func someOf(symbols []string) string {
	const most = 6
	if len(symbols) <= most {
		return strings.Join(symbols, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(symbols[:most], ", "), len(symbols)-most)
}

// firstWords are the first line of a reason, cut where it is long: the log has all.
func firstWords(why string) string {
	const most = 160
	line, _, _ := strings.Cut(why, "\n")
	if runes := []rune(line); len(runes) > most {
		return string(runes[:most]) + "..."
	}
	return line
}

func (v verbs) printFound(f trim.Found, output string) {
	if f.First == 0 {
		fmt.Fprintln(v.Stdout(), "The budget ended before the kernel as it is was proven: the same command goes on, or give more with --budget.")
		return
	}
	fmt.Fprintf(v.Stdout(), "%d symbols are out: %.2f MB, before %.2f MB; %s\n", len(f.Out), megabytes(f.Image), megabytes(f.First), output)
	if len(f.Out) > 0 {
		fmt.Fprintln(v.Stdout(), strings.Join(f.Out, " "))
	}
	var rows []table.Row
	for _, s := range f.Refused {
		rows = append(rows, table.Row{strings.Join(s.Without, " "), firstWords(s.Why)})
	}
	v.part("They stay", 0, []any{"symbol", "because"}, rows, 0)
	left := 0
	for _, group := range f.Untried {
		left += len(group)
	}
	if left > 0 {
		fmt.Fprintf(v.Stdout(), "\nThe budget left %d symbols untried: the same command goes on with them.\n", left)
	}
	fmt.Fprintf(v.Stdout(), "\nall candidates and reasons: %s\n", filepath.Join(output, trim.SearchLog))
}
