package sys

import (
	"os"
	"path/filepath"
	"testing"
)

// Places that others can change, and those that they cannot.
func TestOnlyOurs(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("needs root, to make directories of other users")
	}
	dir := t.TempDir()
	make := func(name string, uid, gid int, mode os.FileMode) string {
		t.Helper()
		at := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Join(at, "state"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(at, uid, gid); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(at, mode); err != nil {
			t.Fatal(err)
		}
		return filepath.Join(at, "state")
	}
	linked := filepath.Join(dir, "linked")
	if err := os.Symlink(filepath.Join(dir, "theirs"), linked); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		at      string
		trusted []int
		ours    bool
	}{
		"ours":            {make("ours", 0, 0, 0o755), nil, true},
		"not yet there":   {filepath.Join(make("new", 0, 0, 0o700), "a", "b"), nil, true},
		"our own group":   {make("own-group", 0, 0, 0o775), nil, true},
		"another's group": {make("group", 0, 50, 0o775), nil, false},
		"everybody's":     {make("all", 0, 0, 0o777), nil, false},
		"sticky":          {make("sticky", 0, 0, 0o777|os.ModeSticky), nil, true},
		"theirs":          {make("theirs", 12345, 0, 0o755), nil, false},
		"the caller's":    {make("caller", 12345, 12345, 0o775), []int{12345}, true},
		// Debian's games is user 5 and has group 60 of its name; sync, user 4, is in nogroup.
		"a group of the caller's name": {make("games", 5, 60, 0o775), []int{5}, true},
		"a group of another name":      {make("sync", 4, 65534, 0o775), []int{4}, false},
		"by a link":                    {filepath.Join(linked, "state"), nil, false},
		"dangling":                     {filepath.Join(linked, "missing"), nil, false},
	} {
		if err := OnlyOurs(c.at, c.trusted...); (err == nil) != c.ours {
			t.Errorf("%s: %v; want ours: %v", name, err, c.ours)
		}
	}
}
