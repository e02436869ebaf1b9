package trial_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/driver/fake"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/trial"
)

// several does one job whose nth copy goes as script says.
func several(t *testing.T, job trial.Job, script func(n int, spec driver.Spec) fake.Script, judge func(map[string][]float64) []sample.Warning) sample.Record {
	t.Helper()
	dir := t.TempDir()
	groups, sink := &noGroups{}, &records{}
	job.Driver = fake.New("fake", func(_ int, spec driver.Spec) fake.Script {
		n, err := strconv.Atoi(spec.ID[strings.LastIndexByte(spec.ID, '-')+1:]) // copies are prepared in any order
		if err != nil {
			t.Error(err)
		}
		return script(n, spec)
	})
	if job.Timeout == 0 {
		job.Timeout = 5 * time.Second
	}
	r := trial.Runner{RunID: "test", Dir: dir, Groups: groups, Sink: sink, Judge: judge}
	record, err := r.Run(t.Context(), job)
	if err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v (%v)", left, err)
	}
	return record
}

func TestSharedFileIsFreshAndRemoved(t *testing.T) {
	var mu sync.Mutex
	var files []string
	script := func(_ int, spec driver.Spec) fake.Script {
		m := spec.Mounts[len(spec.Mounts)-1]
		content, err := os.ReadFile(m.Source)
		if err != nil || string(content) != "fresh" || m.Target != "/page" || m.ReadOnly || len(spec.Mounts) != 2 {
			t.Errorf("mounts %+v, content %q, %v", spec.Mounts, content, err)
		}
		info, err := os.Stat(m.Source)
		if err != nil || info.Mode().Perm() != 0o666 {
			t.Errorf("%v, %v: a payload that is not root must be able to write", info, err)
		}
		mu.Lock()
		defer mu.Unlock()
		files = append(files, m.Source)
		return fake.Script{}
	}
	job := trial.Job{Copies: 3, Shared: &trial.Shared{Target: "/page", Content: []byte("fresh")}}
	job.Spec.Mounts = make([]driver.Mount, 1, 8) // room in which one trial's mount must not reach the next
	first := several(t, job, script, nil)
	if first.Failure != nil || len(slices.Compact(files)) != 1 {
		t.Errorf("failure %+v, files %v", first.Failure, files)
	}
	if len(job.Spec.Mounts) != 1 {
		t.Errorf("the job itself has got the mount: %+v", job.Spec.Mounts)
	}
	several(t, job, script, nil)
}

// One copy dies in the middle: the trial is a failure, which names the copy, and
// the others' values stay, apart from samples.
func TestSurvivorsOfAFailedTrial(t *testing.T) {
	var told []string
	job := trial.Job{Copies: 3, Shared: &trial.Shared{Target: "/page", Failed: func(file string) error {
		_, err := os.Stat(file)
		told = append(told, file)
		return err
	}}}
	job.Parse = func(out []byte) ([]sample.Value, error) {
		return []sample.Value{{Metric: "score", Value: float64(out[0] - '0')}}, nil
	}
	record := several(t, job, func(n int, _ driver.Spec) fake.Script {
		s := fake.Script{Run: 50 * time.Millisecond, Stdout: []byte{byte('0' + n)}}
		if n == 1 {
			s.Run, s.Exit, s.Stderr = 0, driver.Exit{Signal: 9}, []byte("dying")
		}
		return s
	}, nil)
	f := record.Failure
	if f == nil || f.Signal != 9 || f.Phase != "wait" || !slices.Equal(f.Copies, []int{1}) || f.Stderr != "dying" || !strings.Contains(f.Message, "copy 2 of 3 failed") {
		t.Fatalf("failure %+v", f)
	}
	if record.Values != nil || !slices.Equal(record.Survivors["score"], []float64{0, 2}) || len(record.Survivors["wall"]) != 2 {
		t.Errorf("values %v, survivors %v", record.Values, record.Survivors)
	}
	if len(told) != 1 {
		t.Errorf("told of a failure %d times", len(told))
	}
}

// What became of the copies that waited for the one that failed is not the
// cause: the first to end is named.
func TestTheFirstToEndIsBlamed(t *testing.T) {
	record := several(t, trial.Job{Copies: 3}, func(n int, _ driver.Spec) fake.Script {
		s := fake.Script{Run: 60 * time.Millisecond, Exit: driver.Exit{Code: 3}}
		if n == 2 {
			s.Run, s.Exit = 0, driver.Exit{Code: 7}
		}
		return s
	}, nil)
	f := record.Failure
	if f == nil || f.ExitCode == nil || *f.ExitCode != 7 || len(f.Copies) != 3 || f.Copies[0] != 2 || !strings.Contains(f.Message, "3 of 3 copies failed, copy 3 first") {
		t.Errorf("failure %+v", f)
	}
	if record.Survivors != nil {
		t.Errorf("survivors %v", record.Survivors)
	}
}

func TestFailureThatCannotBeToldIsTheLaboratorys(t *testing.T) {
	job := trial.Job{Copies: 2, Shared: &trial.Shared{Target: "/page", Failed: func(string) error { return errors.New("no page") }}}
	record := several(t, job, func(n int, _ driver.Spec) fake.Script { return fake.Script{Exit: driver.Exit{Code: n}} }, nil)
	if f := record.Failure; f == nil || f.Fault != sample.FaultLaboratory || !strings.Contains(f.Message, "no page") {
		t.Errorf("failure %+v", f)
	}
}

func TestTogetherAndJudge(t *testing.T) {
	job := trial.Job{Copies: 2, Together: func(from, to float64, values map[string][]float64) ([]sample.Value, []sample.Warning) {
		if now := float64(trial.Now()) / 1e9; !(from < to && to <= now && to-from >= 0.01) || len(values["wall"]) != 2 {
			t.Errorf("from %v to %v, now %v, values %v", from, to, now, values)
		}
		return []sample.Value{{Metric: "both", Value: 0.5}}, []sample.Warning{{Kind: sample.Overlapped, Share: 0.1}}
	}}
	script := func(int, driver.Spec) fake.Script { return fake.Script{Run: 10 * time.Millisecond} }
	record := several(t, job, script, func(values map[string][]float64) []sample.Warning {
		if !slices.Equal(values["both"], []float64{0.5}) {
			t.Errorf("values %v", values)
		}
		return []sample.Warning{{Kind: sample.Busy, Share: 0.9}}
	})
	if record.Failure != nil || !slices.Equal(record.Values["both"], []float64{0.5}) || !slices.Equal(record.Warnings, []sample.Warning{{Kind: sample.Overlapped, Share: 0.1}, {Kind: sample.Busy, Share: 0.9}}) {
		t.Errorf("%+v", record)
	}
}

// A time-out is told once, of those that were still running; who had ended well
// survives.
func TestTimeoutOfSomeCopies(t *testing.T) {
	dir, sink := t.TempDir(), &records{}
	job := trial.Job{Copies: 2, Timeout: 100 * time.Millisecond}
	job.Driver = fake.New("fake", func(n int, _ driver.Spec) fake.Script { return fake.Script{Hang: n == 0} })
	r := trial.Runner{RunID: "test", Dir: dir, Groups: &noGroups{}, Sink: sink}
	record, err := r.Run(context.Background(), job)
	if err != nil {
		t.Fatal(err)
	}
	if f := record.Failure; f == nil || !strings.Contains(f.Message, "copy 1 of 2 failed: the payload had not ended after 100ms") || len(record.Survivors["wall"]) != 1 {
		t.Errorf("failure %+v, survivors %v", f, record.Survivors)
	}
}
