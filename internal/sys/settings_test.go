package sys

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
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
	did, err := RestoreSettings(s.File) // as a sweep does after a kill
	if err != nil || len(did) != 1 || setting(t) != before {
		t.Errorf("put back: %v, %v, %s instead of %s", did, err, setting(t), before)
	}
	if err := restore(); err != nil {
		t.Errorf("nothing left to put back: %v", err)
	}
	if _, err := s.Set(map[string]string{"net.ipv4.no.such": "1"}); err == nil {
		t.Error("a setting that is not there was set")
	}
}
