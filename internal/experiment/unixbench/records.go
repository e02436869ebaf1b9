package unixbench

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/store"
	"github.com/tarelab/tare/internal/study"
	"github.com/tarelab/tare/internal/vmm"
	"github.com/tarelab/tare/internal/workload"
)

// inputOf reads a run's scores. tables are those of the same run.
func inputOf(run *store.Run, tables []analysis.Table) (input, error) {
	m := run.Manifest()
	in := input{Cells: m.Cells, Tables: tables, Emulated: m.Host.Emulated}
	for r, err := range run.Records() {
		if err != nil {
			return in, err
		}
		in.Records = append(in.Records, r)
	}
	return in, nil
}

// emulatedIn says why the CPU of a run's target is an emulated one: the machine's
// own, or its guest's; "" for a real one.
func emulatedIn(m store.Manifest, target string) string {
	if m.Host.Emulated == "" && m.Targets[target].Notes[driver.NoteAccel] == string(vmm.TCG) {
		return "the guest's, " + target + " without KVM"
	}
	return m.Host.Emulated
}

// windowOf is the length of the timed windows of a study's Unix tests, "" where
// they differ and are not UnixBench's, and whether each test has UnixBench's own.
func windowOf(s study.Study) (window string, own bool) {
	own = true
	var lengths []time.Duration
	for _, w := range s.Measured() {
		unixBench, isUnix := workload.UnixWindow(w.Kind)
		if !isUnix {
			continue
		}
		text := cmp.Or(w.Params["time"], s.Params["time"], unixBench.String())
		length, err := time.ParseDuration(text)
		if err != nil {
			return text, false // not reached: the plan has read it
		}
		own = own && length == unixBench
		lengths = append(lengths, length)
	}
	switch lengths = slices.Compact(slices.Sorted(slices.Values(lengths))); {
	case len(lengths) == 0:
		return "", false
	case len(lengths) == 1:
		return lengths[0].String(), own
	}
	return fmt.Sprintf("%s to %s", lengths[0], lengths[len(lengths)-1]), own
}

// programs are those that the Unix tests of a run were.
type programs struct {
	Build    string `json:"build"`              // static or dynamic; both, where levels differ
	Compiler string `json:"compiler,omitempty"` // that built them, with its flags
	Library  string `json:"library,omitempty"`  // the C library that dynamic ones ran with
	// Digests are the SHA-256 of their interpreter and C library, by the name of the file.
	Digests map[string]string `json:"digests,omitempty"`
}

// programsOf are the programs of a run.
func programsOf(m store.Manifest) programs {
	var builds []string
	for _, w := range m.Study.Measured() {
		if _, isUnix := workload.UnixWindow(w.Kind); !isUnix {
			continue
		}
		own := cmp.Or(w.Params[workload.ParamUnixBuild], m.Study.Params[workload.ParamUnixBuild], workload.UnixStatic)
		builds = append(builds, own)
		for _, l := range m.Study.Environments {
			builds = append(builds, cmp.Or(l.Params[workload.ParamUnixBuild], own))
		}
	}
	slices.Sort(builds)
	p := programs{Build: strings.Join(slices.Compact(builds), " and "), Library: m.CLibrary, Digests: m.LoaderDigests}
	for flags := range strings.Lines(m.CompilerFlags) {
		program, text, _ := strings.Cut(strings.TrimSpace(flags), ": ")
		if (program == "unix") == (p.Build == workload.UnixStatic) {
			p.Compiler = m.Compiler + " with " + text
		}
	}
	return p
}

// Note says which programs ran, and on which scale their scores are.
func (p programs) Note() string {
	built := ""
	if p.Compiler != "" {
		built = ", built by " + p.Compiler
	}
	switch p.Build {
	case workload.UnixDynamic:
		return "The tests are dynamic programs, as a user's build of UnixBench has them" + built + ". They ran with " + cmp.Or(p.Library, "the C library of the root") + p.files() + "; the scripts of shell-1 and shell-8 called the machine's own shell and programs."
	case workload.UnixStatic:
		return "The tests are static programs, the same bits on every machine" + built + ". On this scale execl and process-creation score higher than a UnixBench as its users build it (docs/unix-index.md)."
	}
	return ""
}

// files are the interpreter and the C library with their digests, shortened.
func (p programs) files() string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(p.Digests)) {
		all = append(all, fmt.Sprintf("%s %.19s", name, p.Digests[name]))
	}
	if len(all) == 0 {
		return ""
	}
	return " (" + strings.Join(all, ", ") + ")"
}

// whetstoneOf is the variant of Whetstone that a study runs, "" for none.
func whetstoneOf(s study.Study) string {
	for _, w := range s.Measured() {
		if w.Kind == "unix-whetstone" {
			return cmp.Or(w.Params["variant"], variantKept)
		}
	}
	return ""
}
