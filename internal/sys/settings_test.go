package sys

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

const limitSetting = "net.ipv4.neigh.default.gc_thresh3"

func setting(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(settingFile(limitSetting))
	if err != nil {
		t.Skipf("no %s here: %v", limitSetting, err)
	}
	return strings.TrimSpace(string(text))
}

// A setting is put back by who changed it, and from the file by who finds that.
func TestSettingsArePutBack(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("not root: the machine's settings cannot be changed")
	}
	before := setting(t)
	s := Settings{filepath.Join(t.TempDir(), "settings")}
	restore, err := s.Set(map[string]string{limitSetting: "3333"})
	if err != nil {
		t.Fatal(err)
	}
	if got := setting(t); got != "3333" {
		t.Errorf("it is %s", got)
	}
	if _, err := s.Set(map[string]string{limitSetting: "4444"}); err == nil || !strings.Contains(err.Error(), "another run") {
		t.Errorf("changed twice at once: %v", err)
	}
	if _, err := RestoreSettings(s.File); err == nil || setting(t) != "3333" {
		t.Errorf("a sweep changed it under a live run: %v, %s", err, setting(t))
	}
	if err := restore(); err != nil || setting(t) != before {
		t.Errorf("put back: %v, %s instead of %s", err, setting(t), before)
	}
	if _, err := s.Set(map[string]string{"net.ipv4.no.such": "1"}); err == nil {
		t.Error("a setting that is not there was set")
	}
}

// killed leaves a setting as a killed run does: changed, and its file behind.
func killed(t *testing.T, were before) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "settings")
	now := setting(t)
	t.Cleanup(func() {
		if err := writeSettings(map[string]string{limitSetting: now}); err != nil {
			t.Error(err)
		}
	})
	if err := keepSettings(file, were); err != nil {
		t.Fatal(err)
	}
	if err := writeSettings(map[string]string{limitSetting: "3333"}); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestSweepPutsSettingsBack(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("not root: the machine's settings cannot be changed")
	}
	self, err := Self()
	if err != nil {
		t.Fatal(err)
	}
	was := setting(t)
	file := killed(t, before{self.Boot, map[string]string{limitSetting: was}})
	if did, err := RestoreSettings(file); err != nil || len(did) != 1 || setting(t) != was {
		t.Errorf("%v, %v, %s instead of %s", did, err, setting(t), was)
	}
	if did, err := RestoreSettings(file); err != nil || len(did) != 0 {
		t.Errorf("a second time: %v, %v", did, err)
	}
	// On a2ee321 an old boot's values were written over those of this one.
	file = killed(t, before{"00000000-old-boot", map[string]string{limitSetting: "4444"}})
	if did, err := RestoreSettings(file); err != nil || len(did) != 0 || setting(t) != "3333" {
		t.Errorf("an old boot's value: %v, %v, %s", did, err, setting(t))
	}
}

// A list of settings is not believed: on a2ee321 it made root write any file, and an
// empty one blocked every sweep.
func TestForeignSettings(t *testing.T) {
	self, err := Self()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	victim, pipe := filepath.Join(dir, "victim"), filepath.Join(dir, "pipe")
	if err := errors.Join(os.WriteFile(victim, []byte("old"), 0o600), unix.Mkfifo(pipe, 0o600)); err != nil {
		t.Fatal(err)
	}
	for what, text := range map[string]string{
		"empty":        "",
		"cut short":    `{"boot":"`,
		"any path":     `{"boot":"` + self.Boot + `","values":{"` + victim + `":"1"}}`,
		"core_pattern": `{"boot":"` + self.Boot + `","values":{"kernel.core_pattern":"1"}}`,
		"upwards":      `{"boot":"` + self.Boot + `","values":{"net.ipv4.neigh.default.gc_thresh1/../../../../kernel/core_pattern":"1"}}`,
		"no number":    `{"boot":"` + self.Boot + `","values":{"` + limitSetting + `":"|/bin/sh"}}`,
		"a2ee321's":    `{"` + victim + `":"new"}`,
	} {
		file := filepath.Join(dir, "settings")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := RestoreSettings(file); err != nil {
			t.Errorf("%s: it blocks the sweep: %v", what, err)
		}
		if _, err := os.Lstat(file); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: it is still there: %v", what, err)
		}
	}
	if text, err := os.ReadFile(victim); err != nil || string(text) != "old" {
		t.Errorf("a file was written: %q, %v", text, err)
	}
	if did, err := RestoreSettings(pipe); err != nil || len(did) != 1 {
		t.Errorf("a pipe: %v, %v", did, err)
	}
}
