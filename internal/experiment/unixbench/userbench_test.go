package unixbench

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/tarelab/tare/internal/study"
)

// multi is a directory with the multi.sh of UnixBench 5.1.3 or 6.0.0; a comma in its name
// does not make it two.
func multi(t *testing.T, text string) string {
	t.Helper()
	home := filepath.Join(t.TempDir(), "a,b")
	if err := os.MkdirAll(filepath.Join(home, "pgms"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(home, "pgms", "multi.sh"), []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	return home
}

const (
	multi5 = "instance=`expr $instance + 1`"
	multi6 = "instance=$(($instance + 1))"
)

// given is the study as --unixbench and, for --set, change have it.
func given(t *testing.T, change func(*study.Study), args ...string) (study.Study, error) {
	t.Helper()
	st, err := study.Parse("study.yaml", studyFile)
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(&st)
	}
	flags := pflag.NewFlagSet("run", pflag.ContinueOnError)
	complete := studyFlags(flags)
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	return complete(st)
}

// paramsOf are those of a workload of a study.
func paramsOf(t *testing.T, st study.Study, name string) map[string]string {
	t.Helper()
	for _, w := range st.Workloads {
		if w.Name == name {
			return w.Params
		}
	}
	t.Fatalf("no workload %s", name)
	return nil
}

// --unixbench is in every Unix test, with files as the copies of that UnixBench have them,
// and in nothing else.
func TestStudyTakesUnixBench(t *testing.T) {
	for text, files := range map[string]string{multi5: "", multi6: "own"} {
		home := multi(t, text)
		st, err := given(t, nil, "--unixbench", home)
		if err != nil {
			t.Fatal(err)
		}
		for _, test := range []string{"syscall", "file-copy-256", "whetstone"} {
			if p := paramsOf(t, st, test); p["unixbench"] != home || p["files"] != files {
				t.Errorf("%s: %v", test, p)
			}
		}
		if p := paramsOf(t, st, "files"); p["unixbench"] != "" || p["files"] != "" { // sysbench's files are a number
			t.Errorf("sysbench: %v", p)
		}
		if p := paramsOf(t, st, "whetstone"); p["variant"] != "as-compiled" {
			t.Errorf("whetstone lost its own: %v", p)
		}
	}
}

// So it is by --set unixbench=DIR, in levels too; what the user says of files stays.
func TestFilesAsInUnixBench(t *testing.T) {
	home, older := multi(t, multi6), multi(t, multi5)
	st, err := given(t, func(st *study.Study) { st.Workloads[0].Params = map[string]string{"unixbench": home} })
	if err != nil || st.Workloads[0].Params["files"] != "own" || st.Workloads[1].Params["files"] != "" {
		t.Errorf("%v, %v, %v", st.Workloads[0].Params, st.Workloads[1].Params, err)
	}
	st, err = given(t, func(st *study.Study) {
		st.Environments = []study.Environment{{Name: "6", Params: map[string]string{"unixbench": home}}, {Name: "5", Params: map[string]string{"unixbench": older}}, {Name: "no", Params: map[string]string{"unixbench": "none"}}}
	})
	if err != nil || st.Environments[0].Params["files"] != "own" || st.Environments[1].Params["files"] != "" || st.Environments[2].Params["files"] != "" {
		t.Errorf("%+v, %v", st.Environments, err)
	}
	for what, say := range map[string]func(*study.Study){
		"study": func(st *study.Study) { st.Params = map[string]string{"files": "shared"} },
		"level": func(st *study.Study) {
			st.Environments = []study.Environment{{Name: "x", Params: map[string]string{"files": "shared"}}}
		},
		"workload": func(st *study.Study) { st.Workloads[0].Params = map[string]string{"files": "shared"} },
	} {
		st, err := given(t, say, "--unixbench", home)
		if err != nil || st.Workloads[0].Params["files"] == "own" {
			t.Errorf("%s: %v, %v", what, st.Workloads[0].Params, err)
		}
	}
	for dir, want := range map[string]string{home: "own", older: ""} {
		st, err := indexStudy(indexOptions{Copies: 1, Passes: 1, UnixBench: dir})
		if err != nil || st.Params["unixbench"] != dir || paramsOf(t, st, "syscall")["files"] != want {
			t.Errorf("tare index, %s: %v, %v", dir, paramsOf(t, st, "syscall"), err)
		}
	}
	if ownFiles(t.TempDir()) || ownFiles("") {
		t.Error("no multi.sh")
	}
}

func TestUnixBenchOfNothing(t *testing.T) {
	if _, err := given(t, nil, "--unixbench", ""); err == nil || !strings.Contains(err.Error(), "--unixbench names no directory") {
		t.Error(err)
	}
	none := func(st *study.Study) { st.Workloads = []study.Workload{{Name: "start", Kind: "start"}} }
	if _, err := given(t, none, "--unixbench", "/x"); err == nil || !strings.Contains(err.Error(), "has no Unix test") {
		t.Error(err)
	}
}
