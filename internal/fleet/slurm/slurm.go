// Package slurm runs jobs of a fleet by Slurm's own commands: sbatch, squeue, scancel and
// scontrol. They are on every site, while its REST daemon is on few.
package slurm

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/pflag"

	"github.com/tarelab/tare/internal/fleet/engine"
)

// Kind is Slurm for internal/fleet/all.
func Kind() engine.Kind {
	return engine.Kind{Name: "slurm", Options: func(flags *pflag.FlagSet) func(engine.Site) (engine.Engine, error) {
		var c Config
		var extra []string
		flags.StringArrayVar(&extra, "sbatch", nil, "slurm: more options of sbatch, as '--account=x --qos=y' (repeatable)")
		flags.StringVar(&c.Dir, "slurm-dir", "", "slurm: directory that the machines share with this one, for output (default: that of the fleet)")
		flags.StringVar(&c.Program, "slurm-tare", "", "slurm: path of tare on the machines (default: of this program)")
		return func(site engine.Site) (engine.Engine, error) {
			for _, text := range extra {
				c.Options = append(c.Options, strings.Fields(text)...)
			}
			c.Dir, c.Program = cmp.Or(c.Dir, site.Dir), cmp.Or(c.Program, site.Tool)
			return New(c)
		}
	}}
}

// Config is how an Engine runs its jobs.
type Config struct {
	// Program is the absolute path, on the machines, of what jobs run.
	Program string
	// Dir is a directory that the machines share with this one, which takes output.
	Dir string
	// Options are more options of sbatch.
	Options []string
}

// Engine is a Slurm cluster, as Slurm's commands know it.
type Engine struct {
	Config
	requests atomic.Int64

	mu       sync.Mutex
	followed map[string]int          // how many read the output of a job
	known    map[string]engine.State // answer to the last question about all of them
	fresh    bool                    // that answer is younger than askPause
}

// New makes an engine. Nothing is asked yet.
func New(c Config) (*Engine, error) {
	for _, path := range []string{c.Program, c.Dir} {
		if !filepath.IsAbs(path) || strings.ContainsAny(path, "\x00\n") {
			return nil, fmt.Errorf("slurm: %q must be an absolute path, which means the same on all machines", path)
		}
	}
	for _, option := range c.Options {
		if !strings.HasPrefix(option, "--") {
			return nil, fmt.Errorf("--sbatch: %q is not an option of sbatch in its long form, --NAME=VALUE", option)
		}
	}
	return &Engine{Config: c, followed: map[string]int{}, known: map[string]engine.State{}}, nil
}

// Requests is how many commands were run so far.
func (e *Engine) Requests() int64 { return e.requests.Load() }

// commandTime bounds one command. sbatch waits longer where the queue is full, which
// its words say by then.
const commandTime = 20 * time.Second

// command runs one of Slurm's commands. Its error has what the command said.
func (e *Engine) command(ctx context.Context, stdin, name string, args ...string) (string, error) {
	e.requests.Add(1)
	bounded, cancel := context.WithTimeout(ctx, commandTime)
	defer cancel()
	cmd := exec.CommandContext(bounded, name, args...)
	cmd.Stdin = strings.NewReader(stdin)
	cmd.WaitDelay = time.Second
	cmd.Env = append(os.Environ(), "LC_ALL=C", "SLURM_TIME_FORMAT=standard")
	cmd.Env = slices.DeleteFunc(cmd.Env, func(pair string) bool { return givesOptions.MatchString(pair) })
	stdout, stderr := &bounds{most: outputMost}, &bounds{most: 64 << 10}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	err := cmd.Run()
	switch {
	case err == nil && stdout.over:
		return "", fmt.Errorf("%s wrote more than %d bytes", name, outputMost)
	case err == nil:
		return stdout.String(), nil
	case errors.Is(err, exec.ErrNotFound):
		return "", &engine.CannotError{Err: fmt.Errorf("%s is not installed: Slurm's commands are needed where tare fleet runs", name)}
	case ctx.Err() != nil:
		return "", ctx.Err()
	}
	return "", &commandError{name: name, words: words(stderr.String()), err: err}
}

// givesOptions matches variables that are options of Slurm's commands: users set some for
// their own calls, and those here must print what the parsers read.
var givesOptions = regexp.MustCompile(`^(SBATCH|SQUEUE|SCANCEL|SINFO)_`)

// outputMost is more than Slurm prints of ten thousand machines.
const outputMost = 64 << 20

// bounds keeps what a command writes, up to a limit.
type bounds struct {
	bytes.Buffer
	most int
	over bool
}

func (b *bounds) Write(p []byte) (int, error) {
	room := min(len(p), b.most-b.Len())
	b.over = b.over || room < len(p)
	_, _ = b.Buffer.Write(p[:room]) // never fails
	return len(p), nil
}

// commandError says that a command failed.
type commandError struct {
	name  string
	words string
	err   error
}

func (c *commandError) Error() string {
	if c.words == "" {
		return fmt.Sprintf("%s: %v", c.name, c.err)
	}
	return c.name + ": " + c.words
}

// Machines implements engine.Engine. Keys are partition, feature and arch.
func (e *Engine) Machines(ctx context.Context, where engine.Selector) ([]engine.Machine, error) {
	for key := range where {
		if key != "partition" && key != "feature" && key != "arch" {
			return nil, &engine.SelectorError{Why: fmt.Sprintf("Slurm's machines have no %q: select by partition, feature or arch", key)}
		}
	}
	out, err := e.command(ctx, "", "scontrol", "show", "nodes", "--oneliner")
	if err != nil {
		return nil, err
	}
	nodes, err := parseNodes(out)
	if err != nil {
		return nil, err
	}
	var all []engine.Machine
	for _, n := range nodes {
		if n.matches(where) {
			all = append(all, n.Machine)
		}
	}
	return all, nil
}

// machineName is a node's name: one, and not a list such as node[1-9].
var machineName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

// arguments are those of sbatch.
func (e *Engine) arguments(j engine.Job) []string {
	minutes := max(1, int((j.Time+time.Minute-1)/time.Minute))
	args := []string{
		"--parsable", "--job-name=" + j.Name, "--comment=tare:" + j.Fleet,
		"--exclusive", "--nodes=1", "--nodelist=" + j.Machine, "--no-requeue",
		fmt.Sprintf("--time=%d", minutes), fmt.Sprintf("--signal=B:TERM@%d", int(engine.Grace.Seconds())),
		"--open-mode=append", "--output=" + strings.ReplaceAll(e.output(j.Name), "%", "%%"), "--chdir=/", "--export=NONE",
	}
	if p := j.Where["partition"]; p != "" {
		args = append(args, "--partition="+p)
	}
	return append(args, e.Options...)
}

// script is what the job runs. By exec the program is what Slurm knows as the job: it
// gets Slurm's signals, and nothing of it outlives the job unseen.
func (e *Engine) script(j engine.Job) string {
	words := []string{"exec", quote(e.Program)}
	for _, arg := range j.Args {
		words = append(words, quote(arg))
	}
	return "#!/bin/sh\nPATH=${PATH:-/usr/sbin:/usr/bin:/sbin:/bin}; export PATH\n" + strings.Join(words, " ") + "\n"
}

// quote makes one word of the shell.
func quote(word string) string {
	if plain.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

var plain = regexp.MustCompile(`^[A-Za-z0-9/._:,@=+-]+$`)

// Show implements engine.Engine.
func (e *Engine) Show(_ context.Context, j engine.Job) (string, error) {
	quoted := []string{"sbatch"}
	for _, arg := range e.arguments(j) {
		quoted = append(quoted, quote(arg))
	}
	return strings.Join(quoted, " ") + " <<'END'\n" + e.script(j) + "END\n", nil
}

// output is the file that a job writes.
func (e *Engine) output(name string) string { return filepath.Join(e.Dir, name+".out") }

// Submit implements engine.Engine. A job whose output is there has run, whether or not
// Slurm remembers it.
func (e *Engine) Submit(ctx context.Context, j engine.Job) error {
	if !machineName.MatchString(j.Machine) {
		return &engine.RefusedError{Job: j.Name, Words: fmt.Sprintf("%q is not the name of one machine", j.Machine)}
	}
	if info, err := os.Stat(e.Dir); err != nil || !info.IsDir() {
		return &engine.RefusedError{Job: j.Name, Words: fmt.Sprintf("there is no directory %s for its output (--slurm-dir)", e.Dir)}
	}
	if _, err := os.Lstat(e.output(j.Name)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	there, err := e.States(ctx, []string{j.Name})
	if err != nil || len(there) > 0 {
		return err
	}
	_, err = e.command(ctx, e.script(j), "sbatch", e.arguments(j)...)
	var failed *commandError
	if errors.As(err, &failed) {
		return refusal(j.Name, failed)
	}
	return err
}

// refusal turns what sbatch said into an error.
func refusal(job string, failed *commandError) error {
	switch {
	case busy.MatchString(failed.words):
		return &engine.RefusedError{Job: job, Words: failed.words, Full: true}
	case away.MatchString(failed.words) || !strings.Contains(failed.words, "submission failed"):
		return failed
	}
	return &engine.RefusedError{Job: job, Words: failed.words}
}

// What sbatch says of a queue that is full, and of a controller that does not answer.
var (
	busy = regexp.MustCompile(`(?i)temporarily unable to accept job|MaxSubmit|job submit limit|MaxJobCount`)
	away = regexp.MustCompile(`(?i)unable to contact|timed out|connect failure|connection refused|transport|zero bytes were transmitted|temporarily unavailable|shutdown`)
)

// States implements engine.Engine.
func (e *Engine) States(ctx context.Context, names []string) (map[string]engine.State, error) {
	if len(names) == 0 {
		return nil, nil
	}
	out, err := e.command(ctx, "", "squeue", "--noheader", "--me", "--states=all", "--name="+strings.Join(names, ","), "--Format="+jobFormat)
	if err != nil {
		return nil, err
	}
	return parseJobs(out)
}

// removePause is between two questions of Remove.
const removePause = 300 * time.Millisecond

// Remove implements engine.Engine. Slurm itself kills after KillWait, which is often
// less than engine.Grace: so the signal comes first, and scancel after Grace.
func (e *Engine) Remove(ctx context.Context, name string) error {
	asked := ""
	for waited := time.Duration(0); ; waited += removePause {
		all, err := e.States(ctx, []string{name})
		if err != nil {
			return err
		}
		state, known := all[name]
		if !known || state.Phase.Over() {
			break
		}
		how := "end"
		if state.Phase == engine.Running && waited < engine.Grace {
			how = "signal"
		}
		if asked != how {
			if err := e.cancel(ctx, state.ID, how == "signal"); err != nil {
				return err
			}
			asked = how
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(removePause):
		}
	}
	if err := os.Remove(e.output(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("slurm: %w", err)
	}
	return nil
}

// cancel ends a job, by a signal to its program alone or for good. That a job ended in
// the meantime is no error: the next question shows it.
func (e *Engine) cancel(ctx context.Context, id string, signal bool) error {
	args := []string{id}
	if signal {
		args = []string{"--batch", "--signal=TERM", id}
	}
	_, err := e.command(ctx, "", "scancel", args...)
	var failed *commandError
	if errors.As(err, &failed) && gone.MatchString(failed.words) {
		return nil
	}
	return err
}

// gone is what scancel says of a job that is over, or about to begin.
var gone = regexp.MustCompile(`(?i)invalid job id|already complet|job/step already|not running|is not pending`)
