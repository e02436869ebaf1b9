package lab_test

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tarelab/tare/internal/lab"
	"github.com/tarelab/tare/internal/limit"
	"github.com/tarelab/tare/internal/profile"
	"github.com/tarelab/tare/internal/report"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/store"
	"github.com/tarelab/tare/internal/study"
)

// A manifest comes from anybody: whatever stands in one of its places, a report is made
// or refused, and so is going on. On a2ee321 some made tare panic.
func TestHostileManifests(t *testing.T) {
	run := watchedRun(t)
	file := filepath.Join(run.Dir(), "manifest.json")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var whole any
	if err := json.Unmarshal(text, &whole); err != nil {
		t.Fatal(err)
	}
	tried := 0
	for _, place := range places(whole) {
		for _, value := range []any{nil, -1, 0, 1 << 40, 1e300, "", "x", []any{}, map[string]any{}, true} {
			var m any
			if err := json.Unmarshal(text, &m); err != nil {
				t.Fatal(err)
			}
			put(m, place, value)
			changed, err := json.Marshal(m)
			if err == nil {
				err = os.WriteFile(file, changed, 0o644)
			}
			if err != nil {
				t.Fatal(err)
			}
			tried++
			survives(t, fmt.Sprintf("%v = %v", place, value), run.Dir())
		}
	}
	if tried < 500 {
		t.Errorf("only %d manifests were tried", tried)
	}
}

// survives opens a run, reports it and asks whether it can go on; a panic fails the test.
func survives(t *testing.T, what, dir string) {
	t.Helper()
	defer func() {
		if reason := recover(); reason != nil {
			t.Errorf("%s: panic: %v", what, reason)
		}
	}()
	run, err := store.Open(dir)
	if err != nil {
		return
	}
	if _, in, err := lab.Report(run); err == nil {
		_ = report.Text(io.Discard, in, report.Options{Width: 120}) // it may refuse
	}
	_, _ = lab.Resumable(run, true)
}

// places are the paths of all values in a JSON document.
func places(v any) [][]any {
	var all [][]any
	below := func(key, child any) {
		all = append(all, []any{key})
		for _, place := range places(child) {
			all = append(all, append([]any{key}, place...))
		}
	}
	switch v := v.(type) {
	case map[string]any:
		for key, child := range v {
			below(key, child)
		}
	case []any:
		for i, child := range v {
			below(i, child)
		}
	}
	return all
}

func put(v any, place []any, value any) {
	for _, key := range place[:len(place)-1] {
		v = at(v, key)
	}
	switch key := place[len(place)-1].(type) {
	case string:
		v.(map[string]any)[key] = value
	case int:
		v.([]any)[key] = value
	}
}

func at(v, key any) any {
	if name, ok := key.(string); ok {
		return v.(map[string]any)[name]
	}
	return v.([]any)[key.(int)]
}

// watchedRun is a finished run of two targets over some blocks with a probe, an A/A twin
// and limits.
func watchedRun(t testing.TB) *store.Run {
	t.Helper()
	st := study.Study{ID: "demo", Targets: []string{"runc"}, Blocks: 7, Workloads: []study.Workload{{Kind: "start"}}, Probes: []string{study.ProbeLocks},
		Environments: []study.Environment{{Name: "one", CPUs: 1, Memory: 1 << 30}}}.WithDefaults()
	cells, _ := st.Expand([]string{"host", "runc"})
	m := store.Manifest{Study: st, Cells: cells, Trials: len(cells) * 8, Metrics: map[string][]sample.Metric{"start": {{Name: "wall", Unit: sample.Seconds, Better: sample.Lower}}}}
	run, err := store.Create(t.TempDir(), m)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = run.Close() }) // nothing more is written
	for seq := range m.Trials {
		r := sample.Record{Seq: seq, Block: seq/len(cells) - 1, Cell: cells[seq%len(cells)].ID, Values: map[string][]float64{"wall": {1 + float64(seq%5)/10}}}
		if err := run.Append(r); err != nil {
			t.Fatal(err)
		}
	}
	return run
}

// TestProfilesAreBounded: once the names of profiles take too much, further profiles are
// left out, and it is said which.
func TestProfilesAreBounded(t *testing.T) {
	run := watchedRun(t)
	whole := limit.RunProfiles
	t.Cleanup(func() { limit.RunProfiles = whole })
	limit.RunProfiles.Bytes = 10_000
	for seq := range run.Manifest().Trials {
		p := profile.Profile{Stacks: [][]string{{fmt.Sprint(seq, strings.Repeat("a", 1000))}}, Waits: []profile.Wait{{Kind: profile.Mutex, Count: 1}}}
		if err := run.KeepProfile(seq, p); err != nil {
			t.Fatal(err)
		}
	}
	all, unread, err := lab.Profiles(run)
	if err != nil || len(all) == 0 || len(unread) == 0 || !strings.Contains(unread[0], "more than 10000 bytes") {
		t.Errorf("%d sums, %q, %v", len(all), unread, err)
	}
	held := int64(0)
	for _, sum := range all {
		held += sum.Bytes()
	}
	if held < 10_000 || held > 15_000 {
		t.Errorf("%d bytes are kept", held)
	}
}

// FuzzForeignRun is a run's directory from anybody: whatever its manifest and its
// records hold, it is reported or refused.
func FuzzForeignRun(f *testing.F) {
	run := watchedRun(f)
	manifest, err := os.ReadFile(filepath.Join(run.Dir(), "manifest.json"))
	if err != nil {
		f.Fatal(err)
	}
	records, err := os.ReadFile(filepath.Join(run.Dir(), "records.jsonl"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(manifest, records)
	f.Add(manifest, []byte(`{"seq":0,"block":0,"cell":"host/start","values":{"wall":[1e308,null]}}`+"\n"))
	f.Fuzz(func(t *testing.T, manifest, records []byte) {
		dir := t.TempDir()
		for name, data := range map[string][]byte{"manifest.json": manifest, "records.jsonl": records} {
			if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		survives(t, "a foreign run", dir)
	})
}
