package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestShare looks for what identifies a machine in reports of each format: with --share
// it is in none, for one run and for two of other machines.
func TestShare(t *testing.T) {
	secrets := map[string][]string{ // of the manifest's host, and the manifest
		"first":  {"secret-of-alice", "0a1b2c3d-boot-first", "/home/alice/work", "keyed-id-first", "ip=secret-first"},
		"second": {"secret-of-bob", "0a1b2c3d-boot-second", "/home/bob/work", "keyed-id-second", "ip=secret-second"},
	}
	dir := filepath.Join(t.TempDir(), "private-directory")
	for name, s := range secrets {
		madeOn(t, filepath.Join(dir, name), s)
	}
	for _, format := range []string{"text", "md", "csv", "json", "html"} {
		for _, runs := range [][]string{{"first"}, {"first", "second"}} {
			args := []string{"report", "--format", format, "--all"}
			for _, r := range runs {
				args = append(args, filepath.Join(dir, r))
			}
			shown, shared := reportOf(t, args), reportOf(t, append(args, "--share"))
			for _, name := range runs {
				for _, secret := range append(secrets[name], "private-directory") {
					if strings.Contains(shared, secret) {
						t.Errorf("%s of %v with --share has %q", format, runs, secret)
					}
				}
			}
			if format == "html" && !strings.Contains(shown, secrets["first"][1]) && len(runs) == 1 {
				t.Errorf("%s of %v without --share has no boot id: the test looks for the wrong words", format, runs)
			}
			if len(runs) == 2 && format == "text" && !strings.Contains(shared, "machine 2") {
				t.Errorf("the two machines have no numbers:\n%s", shared)
			}
		}
	}
}

// madeOn makes the run of a machine with these names.
func madeOn(t *testing.T, dir string, names []string) {
	t.Helper()
	if err := os.CopyFS(dir, os.DirFS("testdata/runs/planted")); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "manifest.json")
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var manifest map[string]json.RawMessage
	var host map[string]any
	if err := json.Unmarshal(data, &manifest); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(manifest["host"], &host); err != nil {
		t.Fatal(err)
	}
	host["hostname"], host["bootID"] = names[0], names[1]
	host["machine"], host["commandLine"] = names[3], names[4]
	for key, value := range map[string]any{"host": host, "dir": names[2]} {
		if manifest[key], err = json.Marshal(value); err != nil {
			t.Fatal(err)
		}
	}
	if data, err = json.Marshal(manifest); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

func reportOf(t *testing.T, args []string) string {
	t.Helper()
	var out, said bytes.Buffer
	env := Env{Args: args, Stdout: &out, Stderr: &said, Getenv: func(string) string { return "" }}
	if code := Main(env); code != exitOK {
		t.Fatalf("tare %s: exit code %d\n%s", strings.Join(args, " "), code, said.String())
	}
	return out.String()
}
