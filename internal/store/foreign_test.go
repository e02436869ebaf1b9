package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tarelab/tare/internal/limit"
	"github.com/tarelab/tare/internal/profile"
)

// A run directory may be anybody's. What these tests show was otherwise on a2ee321:
// links were followed and written through, pipes waited for, and a manifest's numbers
// believed.

// must fails the test at an error of its preparation.
func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func TestResumeWritesThroughNoLink(t *testing.T) {
	for _, name := range []string{LockFile, recordsFile, manifestFile} {
		for _, hard := range []bool{false, true} {
			r := create(t, t.TempDir(), 3)
			fill(t, r, 1)
			must(t, r.Close())
			victim, file := filepath.Join(t.TempDir(), "victim"), filepath.Join(r.Dir(), name)
			content, err := os.ReadFile(file)
			must(t, err)
			must(t, os.WriteFile(victim, content, 0o600), os.Remove(file))
			if hard {
				must(t, os.Link(victim, file))
			} else {
				must(t, os.Symlink(victim, file))
			}
			if again, err := Resume(r.Dir()); err == nil {
				t.Errorf("%s, hard %v: resumed", name, hard)
				must(t, again.Close())
			}
			if got, err := os.ReadFile(victim); err != nil || !bytes.Equal(got, content) {
				t.Errorf("%s, hard %v: what it linked to is now %q, %v", name, hard, got, err)
			}
		}
	}
}

func TestResumeRefusesWhatIsNotOurs(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to give files away")
	}
	for what, spoil := range map[string]func(dir string) error{
		"directory of another user": func(dir string) error { return os.Chown(dir, 65534, 65534) },
		"manifest of another user":  func(dir string) error { return os.Chown(filepath.Join(dir, manifestFile), 65534, 65534) },
		"records of another user":   func(dir string) error { return os.Chown(filepath.Join(dir, recordsFile), 65534, 65534) },
		"directory all may write":   func(dir string) error { return os.Chmod(dir, 0o777) },
		"manifest all may write":    func(dir string) error { return os.Chmod(filepath.Join(dir, manifestFile), 0o666) },
	} {
		r := create(t, t.TempDir(), 3)
		must(t, r.Close(), spoil(r.Dir()))
		if again, err := Resume(r.Dir()); !errors.Is(err, ErrForeign) {
			t.Errorf("%s: %v", what, err)
			if err == nil {
				must(t, again.Close())
			}
		}
		if _, err := Open(r.Dir()); err != nil {
			t.Errorf("%s: it cannot be read: %v", what, err)
		}
	}
}

// A pipe below runs/ has no writer: who opened it waited for ever.
func TestPipesAreNotWaitedFor(t *testing.T) {
	root := t.TempDir()
	r := create(t, root, 3)
	fill(t, r, 1)
	must(t, r.Close())
	must(t, syscall.Mkfifo(filepath.Join(root, "runs", "pipe"), 0o644))
	for _, name := range []string{manifestFile, recordsFile, LockFile} {
		dir := filepath.Join(root, "runs", "with-"+name)
		must(t, os.CopyFS(dir, os.DirFS(r.Dir())), os.Remove(filepath.Join(dir, name)), syscall.Mkfifo(filepath.Join(dir, name), 0o644))
	}
	done := make(chan []Summary)
	go func() {
		runs, err := List(root)
		if err != nil {
			t.Error(err)
		}
		done <- runs
	}()
	select {
	case runs := <-done:
		bad := 0
		for _, s := range runs {
			if s.Problem != "" {
				bad++
			}
		}
		if len(runs) != 5 || bad != 3 { // a lock that is no file hides nothing from a reader
			t.Errorf("%+v", runs)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("a pipe is waited for")
	}
	if run, err := Open(filepath.Join(root, "runs", "with-"+recordsFile)); err != nil {
		t.Error(err)
	} else if _, err := run.Load(); err == nil {
		t.Error("a pipe was read as records")
	}
}

// A manifest's numbers are bounded before anything is made for them.
func TestManifestIsValidated(t *testing.T) {
	r := create(t, t.TempDir(), 3)
	text, err := os.ReadFile(filepath.Join(r.Dir(), manifestFile))
	must(t, err)
	for what, spoil := range map[string]func(m map[string]any){
		"trials":          func(m map[string]any) { m["trials"] = 1 << 40 },
		"negative trials": func(m map[string]any) { m["trials"] = -1 },
		"blocks":          func(m map[string]any) { m["study"].(map[string]any)["blocks"] = 1 << 40 },
		"negative blocks": func(m map[string]any) { m["study"].(map[string]any)["blocks"] = -5 },
		"instances":       func(m map[string]any) { m["cells"].([]any)[0].(map[string]any)["copies"] = 1 << 40 },
		"one cell twice":  func(m map[string]any) { m["cells"] = append(m["cells"].([]any), m["cells"].([]any)[0]) },
		"a path as id":    func(m map[string]any) { m["id"] = "../../etc/cron.d/x" },
		"an escape":       func(m map[string]any) { m["cells"].([]any)[0].(map[string]any)["id"] = "a\x1b[31m" },
		"no metrics":      func(m map[string]any) { m["metrics"] = map[string]any{"start": []any{}} },
		"alpha":           func(m map[string]any) { m["study"].(map[string]any)["alpha"] = -1 },
	} {
		var m map[string]any
		must(t, json.Unmarshal(text, &m))
		spoil(m)
		changed, err := json.Marshal(m)
		must(t, err, os.WriteFile(filepath.Join(r.Dir(), manifestFile), changed, 0o644))
		if _, err := Open(r.Dir()); err == nil {
			t.Errorf("%s: opened", what)
		}
	}
	m := r.Manifest()
	m.Cells, m.Trials = m.Cells[:1], 4
	m.Study.Blocks = 1 << 30
	if err := m.CanGoOn(); err == nil || !strings.Contains(err.Error(), "plan has") {
		t.Errorf("a plan of 2^30 blocks: %v", err)
	}
}

// One flipped bit costs one record, and none is taken for another: on a2ee321 one in a
// number went unseen, and one elsewhere made every record unreadable.
func TestAFlippedBitCostsOneRecord(t *testing.T) {
	r := create(t, t.TempDir(), 3)
	fill(t, r, 3)
	must(t, r.Close())
	file := filepath.Join(r.Dir(), recordsFile)
	whole, err := os.ReadFile(file)
	must(t, err)
	first := bytes.IndexByte(whole, '\n')
	second := first + 1 + bytes.IndexByte(whole[first+1:], '\n')
	for at := first + 1; at < second; at++ {
		for _, bit := range []int{0, 5, 7} { // another digit, another case, not ASCII
			flipped := bytes.Clone(whole)
			flipped[at] ^= 1 << bit
			must(t, os.WriteFile(file, flipped, 0o644))
			run, err := Open(r.Dir())
			must(t, err)
			if _, err := run.Load(); !errors.Is(err, ErrCorrupt) {
				t.Fatalf("byte %d, bit %d: %v", at, bit, err)
			}
			run.Salvage()
			if got := all(t, run); len(got) != 2 || got[0].Seq != 0 || got[1].Seq != 2 {
				t.Fatalf("byte %d, bit %d: salvaged %v", at, bit, got)
			}
			v, err := run.Verify()
			if err != nil || v.Records != 2 || len(v.Damaged) == 0 {
				t.Fatalf("byte %d, bit %d: %+v, %v", at, bit, v, err)
			}
		}
	}
}

// A run of before records had checksums is read and goes on without them.
func TestOlderRunsHaveNoSums(t *testing.T) {
	r := create(t, t.TempDir(), 3)
	m := r.Manifest()
	m.Sums = ""
	line, err := plainLine(record(0))
	must(t, err, writeJSON(r.root, manifestFile, 0o644, m), os.WriteFile(filepath.Join(r.Dir(), recordsFile), line, 0o644), r.Close())
	again, err := Resume(r.Dir())
	must(t, err)
	must(t, again.Append(record(1)), again.Close())
	text, err := os.ReadFile(filepath.Join(r.Dir(), recordsFile))
	must(t, err)
	if got := all(t, again); len(got) != 2 || bytes.Contains(text, []byte(sumKey)) {
		t.Errorf("%d records: %s", len(got), text)
	}
	if v, err := again.Verify(); err != nil || v.Records != 2 || v.Sums || len(v.Damaged) > 0 {
		t.Errorf("%+v, %v", v, err)
	}
}

// Values of --env may be passwords: on a2ee321 they lay in a manifest that all may read.
func TestEnvironmentIsTheOwners(t *testing.T) {
	m := manifest(3)
	m.Study.Workloads[0].Env = map[string]string{"TOKEN": "s3cret"}
	m.Command = []string{"tare", "weigh", "--env", "TOKEN=s3cret", "--env=B=s3cret", "--", "x", "--env", "of=payload"}
	r, err := Create(t.TempDir(), m)
	must(t, err)
	defer r.Close()
	must(t, filepath.WalkDir(r.Dir(), func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		info, infoErr := d.Info()
		if bytes.Contains(text, []byte("s3cret")) && infoErr == nil && info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v and holds the secret", path, info.Mode())
		}
		return errors.Join(err, infoErr)
	}))
	if got := r.Manifest(); got.Study.Workloads[0].Env["TOKEN"] == "s3cret" || !reflect.DeepEqual(got.Command, []string{"tare", "weigh", "--env", "TOKEN=...", "--env=B=...", "--", "x", "--env", "of=payload"}) {
		t.Errorf("reports would show %v, %q", got.Study.Workloads[0].Env, got.Command)
	}
	reader, err := Open(r.Dir())
	must(t, err)
	if full, err := reader.Measured(); err != nil || full.Study.Workloads[0].Env["TOKEN"] != "s3cret" {
		t.Errorf("who goes on has %v, %v", full.Study.Workloads[0].Env, err)
	}
}

// Side files may be missing or damaged, and a bomb is not unpacked.
func TestVerifyNamesSideFiles(t *testing.T) {
	r := create(t, t.TempDir(), 3)
	fill(t, r, 3)
	must(t, r.KeepProfile(0, profile.Profile{Stacks: [][]string{{"a"}}}), r.KeepLog(1, []byte("console\n")),
		r.KeepLog(2, make([]byte, limit.RunSide.Bytes+1)), os.WriteFile(filepath.Join(r.Dir(), "profiles", "1.json.gz"), nil, 0o644))
	v, err := r.Verify()
	if err != nil || v.Records != 3 || v.SideFiles != 2 || len(v.Damaged) != 2 {
		t.Errorf("%+v, %v", v, err)
	}
	if _, ok, err := r.Profile(1); !ok || !errors.Is(err, ErrCorrupt) {
		t.Errorf("an empty profile: %v, %v", ok, err)
	}
	if log, _, err := r.Log(2); !errors.Is(err, ErrCorrupt) || int64(len(log)) > limit.RunSide.Bytes {
		t.Errorf("a bomb: %d bytes, %v", len(log), err)
	}
}
