package kernelwaits

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tarelab/tare/internal/experiment"
	"github.com/tarelab/tare/internal/finding"
	"github.com/tarelab/tare/internal/lab"
	"github.com/tarelab/tare/internal/limit"
	"github.com/tarelab/tare/internal/profile"
	"github.com/tarelab/tare/internal/quantity"
	"github.com/tarelab/tare/internal/study"
)

// imported is the name under which a profile from elsewhere stands in its run.
const imported = "imported"

// importProfile reads what another program recorded and keeps it as a run.
func importProfile(c *cobra.Command, l experiment.Laboratory, probe string, f *watchFlags) error {
	from, name := c.InOrStdin(), "standard input"
	if f.file != "-" {
		file, err := os.Open(f.file)
		if err != nil {
			return &lab.InputError{Err: fmt.Errorf("--import: %w", err)}
		}
		defer func() { _ = file.Close() }() // nothing was written there
		if info, err := file.Stat(); err != nil || info.IsDir() {
			return &lab.InputError{Err: fmt.Errorf("--import %s: it is a directory, and a profile is a file: perf.data, or what perf script prints of it", f.file)}
		}
		from, name = file, filepath.Base(f.file)
	}
	p, err := readProfile(c.Context(), from, f.file, f.event)
	if err == nil && probe == study.ProbeLocks && len(p.Waits) == 0 {
		if p = p.Estimate("the profile holds no waits (perf lock record)"); len(p.Waits) == 0 {
			err = fmt.Errorf("%w: no thread waits for a lock in its %d stacks; tare stacks --import shows what there is", profile.ErrNoProfile, len(p.Stacks))
		}
	}
	if err == nil && probe == study.ProbeStacks && len(p.Samples) == 0 {
		err = fmt.Errorf("%w: it has waits for locks and no samples: tare locks --import shows them", profile.ErrNoProfile)
	}
	if errors.Is(err, profile.ErrNoProfile) || errors.As(err, new(*limit.Error)) {
		return &lab.InputError{Err: fmt.Errorf("--import %s: %w", f.file, err)}
	}
	if err != nil {
		return fmt.Errorf("--import %s: %w", f.file, err)
	}
	return showProfile(c, l, probe, titles[probe][0]+", recorded by another program: "+name, imported, p)
}

// readProfile reads text, or perf's own records by perf.
func readProfile(ctx context.Context, r io.Reader, path, event string) (profile.Profile, error) {
	in := bufio.NewReader(r)
	start, err := in.Peek(8)
	if err != nil && !errors.Is(err, io.EOF) {
		return profile.Profile{}, fmt.Errorf("read the profile: %w", err)
	}
	switch {
	case bytes.HasPrefix(start, []byte("\x1f\x8b")):
		return profile.Profile{}, fmt.Errorf("%w: it is compressed with gzip: unpack it with gzip -d, and import that", profile.ErrNoProfile)
	case !profile.IsPerfData(start):
		return profile.Import(in, event)
	case path == "-":
		return profile.Profile{}, fmt.Errorf("%w: perf.data cannot be read from a pipe: name the file, or bring what perf script prints of it", profile.ErrNoProfile)
	}
	return perfScript(ctx, path, event)
}

// perfScript reads perf.data by perf script, with the rights of who called tare.
func perfScript(ctx context.Context, path, event string) (profile.Profile, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var said bytes.Buffer
	perf := exec.CommandContext(ctx, "perf", "script", "--header", "-i", path)
	perf.Stderr = &limited{w: &said, left: 4096}
	out, err := perf.StdoutPipe()
	if err == nil {
		err = perf.Start()
	}
	if errors.Is(err, exec.ErrNotFound) {
		return profile.Profile{}, fmt.Errorf("%w: it is perf.data, and perf is not installed here: on the machine that it was recorded on, call perf script -i perf.data > profile.txt, and import that", profile.ErrNoProfile)
	}
	if err != nil {
		return profile.Profile{}, fmt.Errorf("perf script: %w", err)
	}
	p, err := profile.Import(out, event)
	if err != nil {
		cancel() // it may have more to say, which nobody reads
	}
	if waitErr := perf.Wait(); waitErr != nil && (err == nil || errors.Is(err, profile.ErrNoProfile)) {
		return profile.Profile{}, fmt.Errorf("%w: perf script: %w: %s", profile.ErrNoProfile, waitErr, strings.TrimSpace(said.String()))
	}
	return p, err
}

// limited keeps the beginning of what is written to it.
type limited struct {
	w    io.Writer
	left int
}

func (l *limited) Write(p []byte) (int, error) {
	n, err := l.w.Write(p[:min(len(p), l.left)])
	l.left -= n
	if err != nil {
		return n, err
	}
	return len(p), nil
}

// functionsGrid is the table of functions of an imported profile, as perf report
// --children has it.
func functionsGrid(all []profile.FunctionShare) finding.Table {
	g := finding.Table{Title: "Functions, with what they call", Head: []string{"function", "with callees %", "itself %"}}
	for _, f := range all[:min(len(all), waitRows)] {
		g.Rows = append(g.Rows, []string{f.Name, percent(f.All), percent(f.Self)})
	}
	return g
}

func percent(share float64) string { return fmt.Sprintf("%.2f", 100*share) }

// publishedGrid sets an imported profile next to the published one: the same functions'
// shares of all samples. It is false where the profile is of something else: where it
// lacks most of the published functions.
func publishedGrid(all []profile.FunctionShare, s source) (finding.Table, bool) {
	g := finding.Table{Title: "Next to the published profile", Head: []string{"function", "published %", "here %", "published, itself %", "here, itself %"}}
	found := 0
	for _, published := range s.Profile {
		at := slices.IndexFunc(all, func(f profile.FunctionShare) bool { return f.Name == published.Symbol })
		row := []string{published.Symbol, percent(published.Percent / 100), quantity.Missing, quantity.Missing, quantity.Missing}
		if at >= 0 {
			found++
			row[2], row[4] = percent(all[at].All), percent(all[at].Self)
		}
		if published.Self > 0 {
			row[3] = percent(published.Self / 100)
		}
		g.Rows = append(g.Rows, row)
	}
	return g, 2*found > len(s.Profile)
}

// importedTables are those that only a profile from elsewhere has.
func importedTables(w watchedCell, s source) []finding.Table {
	if len(w.Functions) == 0 {
		return nil
	}
	tables := []finding.Table{functionsGrid(w.Functions)}
	if g, like := publishedGrid(w.Functions, s); like {
		tables = append(tables, g)
	}
	return tables
}
