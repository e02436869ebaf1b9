package store

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/study"
)

func manifest(trials int) Manifest {
	s := study.Study{ID: "demo", Targets: []string{"runc"}, Workloads: []study.Workload{{Kind: "start"}}, Blocks: trials}.WithDefaults()
	cells, _ := s.Expand([]string{"host", "runc"})
	return Manifest{Study: s, Cells: cells, Trials: trials, Created: time.Date(2026, 11, 21, 8, 15, 0, 0, time.UTC)}
}

func record(seq int) sample.Record {
	return sample.Record{Seq: seq, Block: seq/3 - 1, Cell: "host/start", At: 1795248900000000000 + int64(seq),
		Values: map[string][]float64{"wall": {0.0123 + float64(seq)*1e-7}, "cpu-user": {1e-9, 2}}}
}

func create(t testing.TB, root string, trials int) *Run {
	t.Helper()
	r, err := Create(root, manifest(trials))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

func fill(t *testing.T, r *Run, n int) {
	t.Helper()
	for seq := range n {
		if err := r.Append(record(seq)); err != nil {
			t.Fatal(err)
		}
	}
}

func all(t *testing.T, r *Run) []sample.Record {
	t.Helper()
	var out []sample.Record
	for rec, err := range r.Records() {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, rec)
	}
	return out
}

func TestWhatIsAppendedIsRead(t *testing.T) {
	r := create(t, t.TempDir(), 20)
	code := 3
	records := []sample.Record{record(4), record(0), {
		Seq: 1, Block: -1, Cell: "runc/start", At: 5, Warnings: []sample.Warning{{Kind: sample.Note, Text: "3 % <µs>"}},
		Failure: &sample.Failure{Fault: sample.FaultTarget, Phase: "wait", Message: "exit \"3\"\n", ExitCode: &code},
	}, {Seq: 2, Block: 7, Cell: "host~aa/start", At: 6, Values: map[string][]float64{"wall": {1}}, Warnings: []sample.Warning{{Kind: sample.Busy, Share: 0.5}, {Kind: sample.Overlapped, Share: 0.9, Least: 0.98}}}}
	for _, rec := range records {
		if err := r.Append(rec); err != nil {
			t.Fatal(err)
		}
	}
	reader, err := Open(r.Dir()) // while it is being written
	if err != nil {
		t.Fatal(err)
	}
	if got := all(t, reader); !reflect.DeepEqual(got, records) {
		t.Errorf("read %+v\nwant %+v", got, records)
	}
	if !reflect.DeepEqual(reader.Manifest().Cells, r.Manifest().Cells) {
		t.Error("the manifest has changed on its way")
	}
	if _, err := reader.Load(); err != nil {
		t.Error(err)
	}
	if err := reader.Append(record(9)); err == nil {
		t.Error("a reader could append")
	}
}

func TestAppendRefuses(t *testing.T) {
	r := create(t, t.TempDir(), 5)
	fill(t, r, 2)
	nan := record(3)
	nan.Values["wall"] = []float64{0, 0}
	nan.Values["wall"][0] /= nan.Values["wall"][1]
	stranger := record(3)
	stranger.Cell = "moon/start"
	unnamed, survivor := record(3), record(3)
	unnamed.Values["wal"] = []float64{1}
	survivor.Survivors = map[string][]float64{"wal": {1}}
	for name, c := range map[string]struct {
		record sample.Record
		want   string
	}{
		"double":       {record(1), "there already"},
		"outside":      {record(5), "not in the plan"},
		"negative":     {sample.Record{Seq: -1, Cell: "host/start"}, "not in the plan"},
		"not a number": {nan, "cannot be written"},
		"no such cell": {stranger, "not in the manifest"},
		"no metric":    {unnamed, `the metric "wal", which is neither in the catalogue`},
		"of survivors": {survivor, `the metric "wal", which is neither in the catalogue`},
	} {
		if err := r.Append(c.record); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	if got := all(t, r); len(got) != 2 {
		t.Errorf("%d records, want the 2 good ones", len(got))
	}
}

// A user's metric is one that the manifest declares, and it is not one of the
// catalogue under another unit.
func TestDeclaredMetricIsRecorded(t *testing.T) {
	m := create(t, t.TempDir(), 1).Manifest()
	m.Trials, m.Metrics = 1, map[string][]sample.Metric{"start": {{Name: "requests", Unit: sample.PerSecond, Better: sample.Higher}}}
	r, err := Create(t.TempDir(), m)
	if err != nil {
		t.Fatal(err)
	}
	own := record(0)
	own.Values["requests"] = []float64{100}
	if err := r.Append(own); err != nil {
		t.Error(err)
	}
	m.Metrics["start"][0] = sample.Metric{Name: sample.Wall, Unit: sample.Bytes, Better: sample.Lower}
	if _, err := Create(t.TempDir(), m); err == nil || !strings.Contains(err.Error(), `metric "wall" is declared in "B"`) {
		t.Errorf("wall in bytes: %v", err)
	}
}

// A kill can end a write anywhere: whatever part of the last line is there, the
// records before it stay and its trial is done again.
func TestResumeCutsATruncatedLine(t *testing.T) {
	r := create(t, t.TempDir(), 5)
	fill(t, r, 3)
	r.Close()
	path := filepath.Join(r.Dir(), recordsFile)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	start := strings.LastIndexByte(string(whole[:len(whole)-1]), '\n') + 1
	for cut := start; cut < len(whole); cut++ {
		if err := os.WriteFile(path, whole[:cut], 0o644); err != nil {
			t.Fatal(err)
		}
		if reader, err := Open(r.Dir()); err != nil || len(all(t, reader)) != 2 {
			t.Fatalf("cut at %d: a reader sees more or less than 2 records (%v)", cut, err)
		}
		again, err := Resume(r.Dir())
		if err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		if want := map[int]bool{0: true, 1: true}; !reflect.DeepEqual(again.Done(), want) {
			t.Errorf("cut at %d: done %v", cut, again.Done())
		}
		if reported := len(again.Notes()) == 1; reported != (cut > start) {
			t.Errorf("cut at %d: notes %q", cut, again.Notes())
		}
		if err := again.Append(record(2)); err != nil {
			t.Error(err)
		}
		again.Close()
		if got, _ := os.ReadFile(path); string(got) != string(whole) {
			t.Fatalf("cut at %d: the file is not what it was", cut)
		}
	}
}

func TestDamageIsNamed(t *testing.T) {
	good := func(seq int) string {
		b, _ := Line(record(seq))
		return string(b)
	}
	for name, c := range map[string]struct{ text, want string }{
		"garbage in the middle": {good(0) + "garbage\n" + good(1), ":2: damaged"},
		"half a line joined":    {good(0) + good(1)[:30] + good(2) + good(3), ":2: damaged"},
		"double":                {good(0) + good(1) + good(0), ":3: damaged: record 0 is there already"},
		"outside the plan":      {good(77), ":1: damaged: record 77 is not in the plan"},
		"zeros":                 {good(0) + strings.Repeat("\x00", 40) + "\n", ":2: damaged"},
		"empty line":            {good(0) + "\n" + good(1), ":2: damaged"},
	} {
		t.Run(name, func(t *testing.T) {
			r := create(t, t.TempDir(), 5)
			r.Close()
			if err := os.WriteFile(filepath.Join(r.Dir(), recordsFile), []byte(c.text), 0o644); err != nil {
				t.Fatal(err)
			}
			_, resumed := Resume(r.Dir())
			_, loaded := r.Load()
			for _, err := range []error{resumed, loaded} {
				if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), c.want) {
					t.Errorf("%v, want %q", err, c.want)
				}
			}
			if got, _ := os.ReadFile(filepath.Join(r.Dir(), recordsFile)); string(got) != c.text {
				t.Error("the damaged file was changed")
			}
		})
	}
}

func TestNotARun(t *testing.T) {
	root := t.TempDir()
	put := func(name, text string) string {
		dir := filepath.Join(root, name)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if text != "" {
			if err := os.WriteFile(filepath.Join(dir, manifestFile), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	file := filepath.Join(root, "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]struct {
		is   error
		text string
	}{
		filepath.Join(root, "absent"):       {ErrNotRun, "no such run"},
		file:                                {ErrNotRun, "is a file"},
		put("empty", ""):                    {ErrNotRun, "holds no manifest.json"},
		put("other", `{"name":"web page"}`): {ErrNotRun, "names no schema"},
		put("newer", `{"schema":2,"cells":"new"}`):  {ErrNewer, "its schema is 2 and this build knows up to 1"},
		put("damaged", `{"schema":1,"trials":`):     {nil, "is damaged"},
		put("absurd", `{"schema":1,"trials":1e15}`): {nil, "is damaged"},
	} {
		_, err := Open(dir)
		if err == nil || !strings.Contains(err.Error(), want.text) || want.is != nil && !errors.Is(err, want.is) {
			t.Errorf("%s: %v, want %q", dir, err, want.text)
		}
	}
}

func TestOneWriterARun(t *testing.T) {
	r := create(t, t.TempDir(), 5)
	fill(t, r, 1)
	_, err := Resume(r.Dir())
	if !errors.Is(err, ErrBusy) || !strings.Contains(err.Error(), fmt.Sprintf("PID %d", os.Getpid())) {
		t.Errorf("a live run could be resumed: %v", err)
	}
	if runs, err := List(filepath.Dir(filepath.Dir(r.Dir()))); err != nil || len(runs) != 1 || !runs[0].Live || runs[0].Done != 1 {
		t.Errorf("list %+v (%v), want one live run with 1 record", runs, err)
	}
	r.Close()
	again, err := Resume(r.Dir())
	if err != nil {
		t.Fatal(err)
	}
	again.Close()
}

// Who measures learns which other runs of the store are being measured.
func TestBeside(t *testing.T) {
	root := t.TempDir()
	first, second, ended := create(t, root, 2), create(t, root, 2), create(t, root, 2)
	if err := ended.Close(); err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	if runs, err := first.Beside(root); err != nil || len(runs) != 1 || runs[0].ID != second.manifest.ID {
		t.Errorf("beside %s are %v, %v; want %s", first.manifest.ID, runs, err, second.manifest.ID)
	}
	if err := second.Close(); err != nil {
		t.Fatal(err)
	}
	if runs, err := first.Beside(root); err != nil || len(runs) > 0 {
		t.Errorf("alone, but beside %v: %v", runs, err)
	}
}

func TestManyAtOnceGetRunsOfTheirOwn(t *testing.T) {
	root := t.TempDir()
	var wait sync.WaitGroup
	for range 20 {
		wait.Go(func() {
			r, err := Create(root, manifest(5))
			if err != nil {
				t.Error(err)
				return
			}
			defer r.Close()
			for seq := range 5 {
				if err := r.Append(record(seq)); err != nil {
					t.Error(err)
				}
			}
			if _, err := List(root); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	runs, err := List(root)
	if err != nil || len(runs) != 20 {
		t.Fatalf("%d runs (%v), want 20", len(runs), err)
	}
	for i, r := range runs {
		if r.Done != 5 || r.Problem != "" || r.Live || i > 0 && r.ID == runs[i-1].ID {
			t.Errorf("run %+v", r)
		}
	}
}

func TestResolve(t *testing.T) {
	root := t.TempDir()
	if _, err := Resolve(root, "last"); !errors.Is(err, ErrNotRun) {
		t.Errorf("an empty store has a last run: %v", err)
	}
	first, second := create(t, root, 1), create(t, root, 1)
	m := manifest(1)
	m.Created = m.Created.Add(time.Hour)
	m.Study.ID = "above"
	third, err := Create(root, m)
	if err != nil {
		t.Fatal(err)
	}
	defer third.Close()
	for name, want := range map[string]string{
		"last": third.Dir(), first.Manifest().ID: first.Dir(), second.Manifest().ID: second.Dir(),
		"20261121-09": third.Dir(), first.Dir(): first.Dir(),
	} {
		if got, err := Resolve(root, name); err != nil || got != want {
			t.Errorf("%s: %s (%v), want %s", name, got, err, want)
		}
	}
	for name, want := range map[string]string{"2026": "begins the ids of 3 runs", "": "no such run", "moon": "no such run"} {
		if _, err := Resolve(root, name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", name, err, want)
		}
	}
}

// A look-up by name reads no records and adds up no files: with many runs it took longer
// than what followed.
func TestLookUpReadsNoRecords(t *testing.T) {
	root := t.TempDir()
	r := create(t, root, 3)
	fill(t, r, 2)
	found, err := find(root)
	if err != nil || len(found) != 1 || found[0].Done != 0 || found[0].Bytes != 0 || found[0].ID != r.Manifest().ID {
		t.Errorf("%+v, %v", found, err)
	}
	listed, err := List(root)
	if err != nil || len(listed) != 1 || listed[0].Done != 2 || listed[0].Bytes == 0 {
		t.Errorf("%+v, %v", listed, err)
	}
	records := filepath.Join(r.Dir(), recordsFile)
	must(t, os.Remove(records), syscall.Mkfifo(records, 0o644))
	for _, name := range []string{"last", r.Manifest().ID} {
		if dir, err := Resolve(root, name); err != nil || dir != r.Dir() {
			t.Errorf("%s: %s, %v", name, dir, err)
		}
	}
}

// The disk is really full here: a tmpfs of 64 KiB.
func TestFullDisk(t *testing.T) {
	root := t.TempDir()
	if os.Geteuid() != 0 {
		t.Fatal("this test mounts a small tmpfs and needs root: run the tests as root")
	}
	if err := syscall.Mount("tare-test", root, "tmpfs", 0, "size=64k"); err != nil {
		t.Fatalf("mounting a tmpfs of 64 KiB: %v", err)
	}
	defer syscall.Unmount(root, syscall.MNT_DETACH)
	r := create(t, root, 100_000)
	kept := 0
	var err error
	for ; err == nil && kept < 100_000; kept++ {
		err = r.Append(record(kept))
	}
	kept--
	if !errors.Is(err, ErrNoSpace) || !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "tare resume") {
		t.Fatalf("after %d records: %v, want ErrNoSpace", kept, err)
	}
	if got := all(t, r); len(got) != kept || !reflect.DeepEqual(got[kept-1], record(kept-1)) {
		t.Errorf("%d records readable, want all %d", len(got), kept)
	}
	text, _ := os.ReadFile(filepath.Join(r.Dir(), recordsFile))
	if !strings.HasSuffix(string(text), "}\n") {
		t.Errorf("half a line stayed: ...%q", text[len(text)-40:])
	}
	noise := make([]byte, 1<<20)
	_, _ = rand.NewChaCha8([32]byte{}).Read(noise) // never fails
	if err := r.KeepLog(kept, noise); !errors.Is(err, ErrNoSpace) || strings.Count(err.Error(), ErrNoSpace.Error()) != 1 {
		t.Errorf("a log on the full disk: %v, want ErrNoSpace once", err)
	}
	if _, err := Create(root, manifest(5)); !errors.Is(err, ErrNoSpace) {
		t.Errorf("a new run on the full disk: %v, want ErrNoSpace", err)
	}
	if runs, err := List(root); err != nil || len(runs) != 1 {
		t.Errorf("the refused run left %+v (%v)", runs, err)
	}
	if err := syscall.Mount("", root, "", syscall.MS_REMOUNT, "size=1m"); err != nil {
		t.Fatal(err)
	}
	if err := r.Append(record(kept)); err != nil {
		t.Errorf("with space again: %v", err)
	}
	if got := all(t, r); len(got) != kept+1 {
		t.Errorf("%d records after going on, want %d", len(got), kept+1)
	}
	r.Close()
}

// Who asks whether a run is being written is not taken for its writer, also where many
// ask all the time.
func TestAskersAreNoWriters(t *testing.T) {
	root := t.TempDir()
	r := create(t, root, 1)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	asker, err := os.Open(filepath.Join(r.Dir(), LockFile))
	if err != nil {
		t.Fatal(err)
	}
	if err := flock(asker, syscall.LOCK_SH); err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(lockPatience/4, func() { asker.Close() })
	again, err := Resume(r.Dir())
	if err != nil {
		t.Fatalf("taken for a writer: %v", err)
	}
	again.Close()

	var askers sync.WaitGroup
	done := make(chan struct{})
	for range 4 {
		askers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if _, err := List(root); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 50 {
		made, err := Create(root, manifest(1))
		if err != nil {
			t.Error(err)
			break
		}
		made.Close()
	}
	close(done)
	askers.Wait()
}

// What a run takes beside its records ends it as a full disk does, told once.
func TestNoSpaceIsToldOnce(t *testing.T) {
	once := NoSpace(fmt.Errorf("overlay: %w", syscall.EDQUOT))
	if !errors.Is(once, ErrNoSpace) || !errors.Is(once, syscall.EDQUOT) || NoSpace(once).Error() != once.Error() {
		t.Errorf("%v, then %v", once, NoSpace(once))
	}
	if other := errors.New("no such file"); !errors.Is(NoSpace(other), other) || errors.Is(NoSpace(other), ErrNoSpace) || NoSpace(nil) != nil {
		t.Error("another error is said to be a full disk")
	}
}

// The writer is a process of its own here, killed while it appends.
func TestKill(t *testing.T) {
	if dir := os.Getenv("TARE_STORE_WRITER"); dir != "" {
		r, err := Create(dir, manifest(1_000_000))
		if err != nil {
			t.Fatal(err)
		}
		for seq := range 1_000_000 {
			if err := r.Append(record(seq)); err != nil {
				t.Fatal(err)
			}
			fmt.Println("kept", seq)
		}
	}
	root := t.TempDir()
	writer := exec.Command(os.Args[0], "-test.run=^TestKill$")
	writer.Env = append(os.Environ(), "TARE_STORE_WRITER="+root)
	out, err := writer.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := writer.Start(); err != nil {
		t.Fatal(err)
	}
	kept := -1
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if n, _ := fmt.Sscanf(lines.Text(), "kept %d", &kept); n == 1 && kept == 50 {
			dir, err := Resolve(root, "last")
			if err != nil {
				t.Error(err)
			}
			if _, err := Resume(dir); !errors.Is(err, ErrBusy) || !strings.Contains(err.Error(), fmt.Sprint("PID ", writer.Process.Pid)) {
				t.Errorf("resuming a run that another process writes: %v", err)
			}
			writer.Process.Kill()
		}
	}
	writer.Wait()
	dir, err := Resolve(root, "last")
	if err != nil {
		t.Fatal(err)
	}
	r, err := Resume(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	done := r.Done()
	for seq := range kept + 1 {
		if !done[seq] {
			t.Errorf("record %d was reported as kept and is lost", seq)
		}
	}
	if err := r.Append(record(len(done))); err != nil {
		t.Error(err)
	}
}
