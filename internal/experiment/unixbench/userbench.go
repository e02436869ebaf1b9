package unixbench

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tarelab/tare/internal/limit"
	"github.com/tarelab/tare/internal/study"
	"github.com/tarelab/tare/internal/sys"
	"github.com/tarelab/tare/internal/workload"
)

// This file puts a user's own UnixBench into a study.

// errNoDirectory refuses --unixbench "$UNSET", which would silently measure without it.
var errNoDirectory = errors.New("--unixbench names no directory")

// paramFiles says whether copies share their files.
const paramFiles = "files"

// studyFlags are the flags of tare run: the short form of --set unixbench=DIR, in which
// DIR may have a comma.
func studyFlags(flags *pflag.FlagSet) func(study.Study) (study.Study, error) {
	dir := flags.String("unixbench", "", "directory of your own UnixBench, built by make: run its programs next to each Unix test")
	if err := cobra.MarkFlagDirname(flags, "unixbench"); err != nil {
		panic(err) // the flag is defined above
	}
	return func(st study.Study) (study.Study, error) {
		if flags.Changed("unixbench") {
			var err error
			if st, err = withUnixBench(st, *dir); err != nil {
				return st, err
			}
		}
		return withFiles(st), nil
	}
}

// withUnixBench has a study's Unix tests run next to a UnixBench.
func withUnixBench(st study.Study, dir string) (study.Study, error) {
	if dir == "" {
		return st, errNoDirectory
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return st, err
	}
	if !slices.ContainsFunc(st.Workloads, isTest) {
		return st, fmt.Errorf("--unixbench: study %s has no Unix test", st.ID)
	}
	st.Workloads = slices.Clone(st.Workloads)
	for i, w := range st.Workloads {
		if isTest(w) {
			st.Workloads[i].Params = withEntry(w.Params, workload.ParamUnixBench, dir)
		}
	}
	return st.Detached(), nil
}

// withFiles has our copies keep files of their own where those of the user's UnixBench do:
// else the two would measure different things. What a study says of files stays.
func withFiles(st study.Study) study.Study {
	says := func(l study.Environment) bool { return l.Params[paramFiles] != "" }
	if st.Params[paramFiles] != "" || slices.ContainsFunc(st.Environments, says) {
		return st
	}
	st.Workloads, st.Environments = slices.Clone(st.Workloads), slices.Clone(st.Environments)
	for i, w := range st.Workloads {
		dir := cmp.Or(w.Params[workload.ParamUnixBench], st.Params[workload.ParamUnixBench])
		if isTest(w) && w.Params[paramFiles] == "" && ownFiles(dir) {
			st.Workloads[i].Params = withEntry(w.Params, paramFiles, "own")
		}
	}
	for i, l := range st.Environments {
		if ownFiles(l.Params[workload.ParamUnixBench]) {
			st.Environments[i].Params = withEntry(l.Params, paramFiles, "own")
		}
	}
	return st
}

func isTest(w study.Workload) bool {
	_, is := workload.UnixWindow(w.Kind)
	return is
}

func withEntry(params map[string]string, name, value string) map[string]string {
	all := map[string]string{name: value}
	for other, v := range params {
		if other != name {
			all[other] = v
		}
	}
	return all
}

// ownFiles reports whether each copy has its own files in a UnixBench: so in 6.0.0, whose
// multi.sh counts without the program expr. Where that cannot be read, the plan refuses the
// directory where a test needs it.
func ownFiles(unixBench string) bool {
	if !filepath.IsAbs(unixBench) {
		return false // none
	}
	text, err := sys.ReadForeign(filepath.Join(unixBench, "pgms", "multi.sh"), limit.OwnProgram)
	return err == nil && !bytes.Contains(text, []byte("expr"))
}
