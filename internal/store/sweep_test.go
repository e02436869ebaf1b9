package store

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// On a2ee321 runs without a manifest and unfinished files stayed for ever.
func TestSweepRemovesWhatAKillLeft(t *testing.T) {
	root := t.TempDir()
	whole, live := create(t, root, 3), create(t, root, 3)
	fill(t, whole, 2)
	must(t, whole.Close())
	at := func(parts ...string) string { return filepath.Join(append([]string{root, "runs"}, parts...)...) }
	for _, dir := range []string{"begun", "notes", "records"} {
		must(t, os.Mkdir(at(dir), 0o755), os.WriteFile(at(dir, LockFile), nil, 0o644), os.WriteFile(at(dir, recordsFile), nil, 0o644), os.WriteFile(at(dir, ".manifest.json.77"), []byte("{"), 0o600))
	}
	must(t, os.WriteFile(at("notes", "thesis.tex"), nil, 0o644), os.WriteFile(at("records", recordsFile), []byte("{}\n"), 0o644),
		os.Mkdir(filepath.Join(whole.Dir(), "logs"), 0o755), os.WriteFile(filepath.Join(whole.Dir(), "logs", ".1.log.gz.77"), nil, 0o644))
	did, err := Sweep(root)
	if err != nil || len(did) != 2 {
		t.Errorf("%q, %v", did, err)
	}
	for path, stays := range map[string]bool{
		at("begun"): false, at("notes", "thesis.tex"): true, at("records", recordsFile): true,
		filepath.Join(whole.Dir(), "logs", ".1.log.gz.77"): false, filepath.Join(live.Dir(), manifestFile): true,
	} {
		if _, err := os.Lstat(path); (err == nil) != stays {
			t.Errorf("%s: %v, want it to stay: %v", path, err, stays)
		}
	}
	if got := all(t, whole); len(got) != 2 {
		t.Errorf("%d records are left of the whole run", len(got))
	}
	if again, err := Sweep(root); err != nil || len(again) != 0 {
		t.Errorf("a second sweep: %s, %v", strings.Join(again, "; "), err)
	}
}
