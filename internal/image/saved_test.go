package image

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A saved workbench is the same image on another machine, byte for byte, or refused.
func TestSavedWorkbench(t *testing.T) {
	base := tree{}
	base.put("/bin/tool", 0o755, "#!/bin/tool\n"+strings.Repeat("some text of a program\n", 1000))
	addGuest(base, guest)
	made, err := NewStore(t.TempDir()).recipe(t.Context(), recipe{base})
	if err != nil {
		t.Fatal(err)
	}
	defer made.Close()
	var tar, again bytes.Buffer
	if err := made.Save(&tar); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "work@bench.tar")
	if err := os.WriteFile(file, tar.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	there := NewStore(t.TempDir())
	got, err := there.Saved(t.Context(), file+"@"+made.Digest, guest)
	if err != nil {
		t.Fatal(err)
	}
	defer got.Close()
	if err := got.Save(&again); err != nil || got.Digest != made.Digest || !bytes.Equal(again.Bytes(), tar.Bytes()) {
		t.Errorf("%s, want %s; %v", got.Digest, made.Digest, err)
	}
	if len(got.Lacks([]string{"busybox"})) != 1 {
		t.Errorf("the machine's busybox is taken for the workbench's: %+v", got.Tools)
	}
	r, err := there.ForCommands(t.Context(), got, []string{"tool", "/bin/tool"})
	if err != nil || r.Digest != made.Digest {
		t.Errorf("%s, %v", r.Digest, err)
	}
	if _, err := there.ForCommands(t.Context(), got, []string{"ls"}); err == nil || !strings.Contains(err.Error(), "tare image save FILE ls") {
		t.Errorf("a command of the machine: %v", err)
	}

	damaged := bytes.Clone(tar.Bytes())
	at := bytes.Index(damaged, []byte("some text")) // the layer is not packed
	if at < 0 {
		t.Fatal("the layer is packed: the test cannot damage it")
	}
	damaged[at] ^= 1
	bad := filepath.Join(t.TempDir(), "bad.tar")
	if err := os.WriteFile(bad, damaged, 0o600); err != nil {
		t.Fatal(err)
	}
	other := "sha256:" + strings.Repeat("0", 64)
	for name, c := range map[string]struct {
		ref   string
		guest map[string][]byte
		says  string
	}{
		"another digest": {file + "@" + other, guest, "not " + other},
		"no digest":      {file, guest, "as tare image save prints it"},
		"no file":        {"none.tar@" + other, guest, "no such file"},
		"another helper": {file + "@" + made.Digest, map[string][]byte{"/.tare/mark": []byte("x")}, "one version of tare"},
		"a lacking one":  {file + "@" + made.Digest, map[string][]byte{"/.tare/new": []byte("x")}, "one version of tare"},
		"a flipped bit":  {bad + "@" + made.Digest, guest, ""},
	} {
		if r, err := NewStore(t.TempDir()).Saved(t.Context(), c.ref, c.guest); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %q, %v", name, r.Digest, err)
		}
	}
}
