package scripts

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/tarelab/tare/internal/cli"
	"github.com/tarelab/tare/internal/experiment"
	experiments "github.com/tarelab/tare/internal/experiment/all"
	"github.com/tarelab/tare/internal/kerneltools"
	"github.com/tarelab/tare/internal/study"
)

// fence is a block of code in a document: what stands behind its first ```, and its lines.
var fence = regexp.MustCompile("(?ms)^```(\\w*)\n(.*?)^```$")

// indented is a line of the other kind of block.
var indented = regexp.MustCompile("(?m)^ {4}(bin/)?tare .*$")

// commented is what a line of a document says beside its command.
var commented = regexp.MustCompile(`\s+#\s.*$`)

// TestDocumentedCommands: each command line of tare in the documents names a verb that
// is there, with flags that it has.
func TestDocumentedCommands(t *testing.T) {
	files := []string{"../README.md"}
	for _, pattern := range []string{"../docs/*.md", "../docs/targets/*.md", "../internal/experiment/*/README.md"} {
		more, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, more...)
	}
	found := 0
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		code := indented.FindAllString(string(data), -1)
		for _, block := range fence.FindAllStringSubmatch(string(data), -1) {
			code = append(code, strings.Split(block[2], "\n")...)
		}
		for _, line := range code {
			words := strings.Fields(commented.ReplaceAllString(line, ""))
			if len(words) < 2 || words[0] != "tare" && words[0] != "bin/tare" || !verb.MatchString(words[1]) || slices.Contains(words, "·") {
				continue // a line of output has dots between its parts
			}
			found++
			if err := understood(words[1:]); err != nil {
				t.Errorf("%s: %q: %v", name, line, err)
			}
		}
	}
	if found < 60 {
		t.Errorf("%d command lines were found: the test reads the wrong blocks", found)
	}
	if understood([]string{"report", "last", "--nonsense"}) == nil || understood([]string{"reprot"}) == nil || understood([]string{"run", "survey", "--containers", "2"}) == nil || understood([]string{"run", "survey", "--variant", "nonsense"}) == nil {
		t.Error("a command line that is wrong was understood")
	}
}

var verb = regexp.MustCompile(`^[a-z]+$`)

// commandLine is tare's, with all verbs. What it has to note goes to notes.
func commandLine(notes io.Writer) *cobra.Command {
	return cli.Command(&cli.Env{
		Getenv: func(string) string { return "/" }, Stdout: new(bytes.Buffer), Stderr: notes,
		Experiments: experiments.Experiments(),
		Commands:    []func(experiment.Laboratory) []*cobra.Command{kerneltools.Commands},
	})
}

// TestResultsAsJSON: each verb that prints a result prints it as JSON, too.
func TestResultsAsJSON(t *testing.T) {
	without := map[string]string{
		"tare completion bash": "a script", "tare completion fish": "a script", "tare completion powershell": "a script", "tare completion zsh": "a script",
		"tare help": "a text", "tare fleet cancel": "no result", "tare runs name": "no result",
		"tare serve": "a server", "tare trim image run": "a machine's console",
	}
	var check func(c *cobra.Command)
	check = func(c *cobra.Command) {
		for _, verb := range c.Commands() {
			check(verb)
		}
		if !c.HasSubCommands() && (c.Flags().Lookup("json") == nil) != (without[c.CommandPath()] != "") {
			t.Errorf("%s: --json is there: %t; it has %q", c.CommandPath(), c.Flags().Lookup("json") != nil, without[c.CommandPath()])
		}
		if c.Flags().Lookup("json") != nil && c.Flags().Lookup("format") == nil {
			t.Errorf("%s has --json and no --format", c.CommandPath())
		}
	}
	check(commandLine(io.Discard))
}

// understood parses a command line as tare would, and runs nothing.
func understood(words []string) error {
	var notes bytes.Buffer // of flags that are called otherwise now
	root := commandLine(&notes)
	if i := slices.Index(words, "|"); i >= 0 {
		words = words[:i]
	}
	c, rest, err := root.Find(words)
	if err != nil {
		return err
	}
	if err := c.ParseFlags(rest); err != nil {
		return err
	}
	if notes.Len() > 0 {
		return errors.New(notes.String())
	}
	if c == root || c.HasSubCommands() {
		return c.ValidateArgs(c.Flags().Args()) // a verb below that is not there
	}
	if c.Name() == "run" && c.Parent() == root {
		return hasVariant(c)
	}
	return nil
}

// hasVariant refuses a built-in study's variant that it does not have, and a study that is
// not there.
func hasVariant(c *cobra.Command) error {
	name, variant := c.Flags().Arg(0), c.Flag("variant").Value.String()
	if strings.ContainsAny(name, "/.") || name == "STUDY" || name == "" {
		return nil
	}
	data, err := experiments.Experiments().StudyText(name)
	if err != nil {
		return err
	}
	st, err := study.Parse(name+".yaml", data)
	if err != nil {
		return err
	}
	for _, flag := range []string{"quick", "published"} {
		if c.Flags().Changed(flag) {
			variant = flag
		}
	}
	if _, has := st.Variants[variant]; variant != "" && !has {
		return fmt.Errorf("%s has no variant %s", name, variant)
	}
	return nil
}

// TestGettingStarted runs the commands of docs/getting-started.md in their order, as a
// newcomer types them.
func TestGettingStarted(t *testing.T) {
	if testing.Short() {
		t.Skip("measures")
	}
	if os.Geteuid() != 0 {
		t.Fatal("the commands measure: run this as root")
	}
	data, err := os.ReadFile("../docs/getting-started.md")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	output(t, append(os.Environ(), "CGO_ENABLED=0"), "go", "build", "-trimpath", "-o", filepath.Join(dir, "tare"), "../cmd/tare")
	ran := 0
	for _, block := range fence.FindAllStringSubmatch(string(data), -1) {
		if block[1] != "sh" {
			continue
		}
		for _, line := range strings.Split(strings.TrimSpace(block[2]), "\n") {
			c := exec.CommandContext(t.Context(), "bash", "-c", line)
			c.Dir = dir
			c.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "TARE_STATE="+filepath.Join(dir, "state"))
			out, err := c.CombinedOutput()
			// A busy machine may leave a limit open, which is 7 in the line's own words.
			open := strings.Contains(line, "7: open") && c.ProcessState.ExitCode() == 7
			if err != nil && !open {
				t.Fatalf("%s: %v\n%s", line, err, out)
			}
			ran++
		}
	}
	if ran < 8 {
		t.Errorf("%d commands ran: the test reads the wrong blocks", ran)
	}
	if page, err := os.Stat(filepath.Join(dir, "report.html")); err != nil || page.Size() == 0 {
		t.Errorf("the report: %v", err)
	}
}
