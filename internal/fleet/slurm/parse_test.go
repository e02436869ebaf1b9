package slurm

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/tarelab/tare/internal/fleet/engine"
)

func captured(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// squeue.txt is of Slurm 22.05.8: jobs that ended in all ways, and some that wait.
func TestParseJobs(t *testing.T) {
	all, err := parseJobs(captured(t, "squeue.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]struct {
		phase   engine.Phase
		exit    int // -1 for none
		machine string
		words   string
	}{
		"ok":        {engine.Ended, 0, "node1", "COMPLETED"},
		"three":     {engine.Ended, 3, "node1", "FAILED: NonZeroExitCode"},
		"killed":    {engine.Ended, 137, "node1", "FAILED: JobLaunchFailure"},
		"nodir":     {engine.Ended, 181, "node1", "FAILED: JobLaunchFailure: the machine cannot write the job's output; is its directory shared (--slurm-dir)?"},
		"dead":      {engine.Lost, -1, "node2", "NODE_FAIL: NodeDown"},
		"down":      {engine.Waiting, -1, "", "PENDING: ReqNodeNotAvail, UnavailableNodes:node2"},
		"toolong":   {engine.Waiting, -1, "", "PENDING: PartitionTimeLimit"},
		"preempted": {engine.Taken, -1, "node1", "PREEMPTED"},
		"long":      {engine.TooLong, -1, "node3", "TIMEOUT: TimeLimit"},
		"urgent":    {engine.Cancelled, -1, "node1", "CANCELLED"},
	} {
		s := all[name]
		exit := -1
		if s.Exit != nil {
			exit = *s.Exit
		}
		if s.Phase != want.phase || exit != want.exit || s.Machine != want.machine || !strings.HasPrefix(s.Words(), want.words) || s.ID == "" {
			t.Errorf("%s: %+v (exit %d), want %+v", name, s, exit, want)
		}
	}
	if len(all) != 11 {
		t.Errorf("%d jobs, want 11", len(all))
	}
}

func TestParseJobsOfOddLines(t *testing.T) {
	line := strings.SplitAfter(captured(t, "squeue.txt"), "\n")[0]
	other := strings.Replace(line, "COMPLETED", "SIDEWAYS ", 1)
	all, err := parseJobs(other)
	if s := all["ok"]; err != nil || s.Phase != engine.Unknown || s.Reason != "SIDEWAYS" {
		t.Errorf("a state that does not exist: %+v (%v)", s, err)
	}
	all, err = parseJobs(strings.Replace(line, "2 ", "7 ", 1) + line)
	if err != nil || all["ok"].ID != "2" {
		t.Errorf("two jobs of one name: %+v (%v)", all, err)
	}
	for _, text := range []string{"slurm_load_jobs error\n", strings.Repeat(" ", 300) + "x\n", "x" + line} {
		if _, err := parseJobs(text); err == nil {
			t.Errorf("%q is read", text)
		}
	}
	if all, err := parseJobs(""); err != nil || len(all) != 0 {
		t.Errorf("no jobs: %v, %v", all, err)
	}
}

// scontrol.txt is of Slurm 22.05.8: node1 is drained, with a reason that looks like other
// fields, node2 does not respond, and node3 is idle.
func TestParseNodes(t *testing.T) {
	all, err := parseNodes(captured(t, "scontrol.txt"))
	if err != nil || len(all) != 3 {
		t.Fatal(all, err)
	}
	for i, want := range []engine.Machine{
		{Name: "node1", Arch: "amd64", CPUs: 2, State: "idle+drain"},
		{Name: "node2", Arch: "amd64", CPUs: 2, State: "down+not_responding"},
		{Name: "node3", Arch: "amd64", CPUs: 2, State: "idle", Up: true, Idle: true},
	} {
		want.Labels = map[string]string{"partition": "lab,urgent", "feature": "virtual", "arch": "amd64"}
		if got := all[i].Machine; !reflect.DeepEqual(got, want) {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	for _, c := range []struct {
		where engine.Selector
		want  bool
	}{
		{engine.Selector{"partition": "urgent", "arch": "amd64"}, true}, {engine.Selector{"partition": "lab"}, true}, {nil, true},
		{engine.Selector{"partition": "gpu"}, false}, {engine.Selector{"feature": "virtual", "arch": "arm64"}, false}, {engine.Selector{"feature": "virt"}, false},
	} {
		if all[0].matches(c.where) != c.want {
			t.Errorf("%v: want %v", c.where, c.want)
		}
	}
	for _, text := range []string{"Node node9 not found\n", "NodeName=n[1-3] State=IDLE CPUTot=2\n", "NodeName=n1 CPUTot=2\n", "NodeName=n1 State=IDLE\n"} {
		if _, err := parseNodes(text); err == nil {
			t.Errorf("%q is read", text)
		}
	}
}

func TestStatesOfNodes(t *testing.T) {
	for state, want := range map[string][2]bool{
		"IDLE": {true, true}, "IDLE~": {true, true}, "IDLE+CLOUD": {true, true}, "IDLE+COMPLETING": {true, false}, "IDLE+RESERVED": {true, false},
		"MIXED": {true, false}, "ALLOCATED": {true, false}, "IDLE+DRAIN": {false, false}, "DOWN*": {false, false}, "IDLE*": {false, false},
		"DOWN+NOT_RESPONDING": {false, false}, "IDLE+MAINT": {false, false}, "": {false, false}, "+": {false, false},
	} {
		if up, idle := useOf(state); up != want[0] || idle != want[1] {
			t.Errorf("%q: up %v, idle %v", state, up, idle)
		}
	}
}

func TestExitOf(t *testing.T) {
	for text, want := range map[string]int{"0": 0, "768": 3, "9": 137, "0:0": 0, "3:0": 3, "0:9": 137, "": -1, "x": -1, "-1": -1, "3:x": -1} {
		got := -1
		if code := exitOf(text); code != nil {
			got = *code
		}
		if got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}

// What sbatch says decides whether it makes sense to ask again.
func TestRefusals(t *testing.T) {
	for said, want := range map[string]string{
		"sbatch: error: Batch job submission failed: Invalid node name specified\n":                                                                     "refused",
		"sbatch: error: invalid partition specified: nosuch\nsbatch: error: Batch job submission failed: Invalid partition name specified\n":            "refused",
		"sbatch: error: QOSMaxSubmitJobPerUserLimit\nsbatch: error: Batch job submission failed: Job violates accounting/QOS policy (job submit limit)": "full",
		"sbatch: error: Slurm temporarily unable to accept job, sleeping and retrying\n":                                                                "full",
		"sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)\n":                                            "later",
		"sbatch: error: Batch job submission failed: Socket timed out on send/recv operation\n":                                                         "later",
		"": "later",
	} {
		err := refusal("job", &commandError{name: "sbatch", words: words(said), err: os.ErrInvalid})
		got := "later"
		var r *engine.RefusedError
		if errors.As(err, &r) {
			got = map[bool]string{true: "full", false: "refused"}[r.Full]
			if strings.Contains(r.Words, "sbatch") || strings.Contains(r.Words, "\n") {
				t.Errorf("words: %q", r.Words)
			}
		}
		if got != want {
			t.Errorf("%q: %s, want %s", said, got, want)
		}
	}
}

func TestShow(t *testing.T) {
	e, err := New(Config{Program: "/opt/my tare", Dir: "/shared/100%", Options: []string{"--account=x"}})
	if err != nil {
		t.Fatal(err)
	}
	text, err := e.Show(t.Context(), engine.Job{Name: "tare-1", Fleet: "f", Machine: "n1", Args: []string{"weigh", "--", "sh", "-c", "it's $HOME"}, Time: 90 * time.Second, Where: engine.Selector{"partition": "gpu"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"--time=2 ", "--nodelist=n1 ", "--exclusive", "--no-requeue", "--partition=gpu", "--account=x", "'--output=/shared/100%%/tare-1.out'", "exec '/opt/my tare' weigh -- sh -c 'it'\\''s $HOME'\n"} {
		if !strings.Contains(text, part) {
			t.Errorf("%q is not in %s", part, text)
		}
	}
}

func TestConfigIsChecked(t *testing.T) {
	for _, c := range []Config{{Program: "tare", Dir: "/x"}, {Program: "/tare", Dir: "x"}, {Program: "/tare\n", Dir: "/x"}, {Program: "/tare", Dir: "/x", Options: []string{"-p"}}, {Program: "/tare", Dir: "/x", Options: []string{"job.sh"}}} {
		if _, err := New(c); err == nil {
			t.Errorf("%+v is taken", c)
		}
	}
}

// A list of machines would be one job on many.
func TestOneMachineAJob(t *testing.T) {
	e, err := New(Config{Program: "/bin/sh", Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	for _, machine := range []string{"n[1-9]", "n1,n2", "", "-n1"} {
		var refused *engine.RefusedError
		if err := e.Submit(t.Context(), engine.Job{Name: "x", Machine: machine}); !errors.As(err, &refused) {
			t.Errorf("%q: %v", machine, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(captured(f, "squeue.txt"), captured(f, "scontrol.txt"))
	f.Fuzz(func(t *testing.T, jobs, nodes string) {
		if all, err := parseJobs(jobs); err == nil {
			for name, s := range all {
				if name == "" || s.Phase == "" || s.ID == "" {
					t.Errorf("%q is %+v", name, s)
				}
			}
		}
		if all, err := parseNodes(nodes); err == nil {
			for _, n := range all {
				if !machineName.MatchString(n.Name) || n.Idle && !n.Up {
					t.Errorf("%+v", n)
				}
			}
		}
	})
}
