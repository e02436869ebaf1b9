package scripts

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// dist is a directory with a copy of dist.sh and what it is said to have built.
func dist(t *testing.T) (dir string, run func(args ...string) (string, error)) {
	t.Helper()
	dir = t.TempDir()
	put := func(name, text string, mode os.FileMode) {
		t.Helper()
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	script, err := os.ReadFile("dist.sh")
	if err != nil {
		t.Fatal(err)
	}
	put("scripts/dist.sh", string(script), 0o755)
	put("zig", "#!/bin/sh\necho 0.17.0\n", 0o755)
	put("dist/tare.tar.gz", "bits", 0o644)
	put("dist/SHA256SUMS", fmt.Sprintf("%x  tare.tar.gz\n", sha256.Sum256([]byte("bits"))), 0o644)
	return dir, func(args ...string) (string, error) {
		c := exec.CommandContext(t.Context(), args[0], args[1:]...)
		c.Dir = dir
		c.Env = append(os.Environ(), "ZIG="+filepath.Join(dir, "zig"), "DIST_VERSION=v1", "DIST_COMMIT=abc", "DIST_TIME=0", "SIGN_KEY="+filepath.Join(dir, "key"))
		out, err := c.CombinedOutput()
		return string(out), err
	}
}

// What is signed is what was built, and the signature proves it to who has the public key.
func TestDistIsSigned(t *testing.T) {
	if _, err := exec.LookPath("ssh-keygen"); err != nil {
		t.Skip("ssh-keygen is missing: apt-get install openssh-client")
	}
	dir, run := dist(t)
	must := func(want string, args ...string) {
		t.Helper()
		if out, err := run(args...); (err == nil) != (want == "") || !strings.Contains(out, want) {
			t.Errorf("%q: %v, want %q: %s", args, err, want, out)
		}
	}
	verify := []string{"sh", "-c", "ssh-keygen -Y verify -f dist/allowed_signers -I tare-dist -n tare-dist -s dist/SHA256SUMS.sig <dist/SHA256SUMS"}
	must("name an SSH private key", "scripts/dist.sh", "sign")
	must("", "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", "key")
	must("", "scripts/dist.sh", "sign")
	must("", verify...)
	must("", "sh", "-c", "echo more >>dist/SHA256SUMS")
	must("incorrect signature", verify...)
	if err := os.WriteFile(filepath.Join(dir, "dist/tare.tar.gz"), []byte("other bits"), 0o644); err != nil {
		t.Fatal(err)
	}
	must("is not what SHA256SUMS says", "scripts/dist.sh", "sign")
}

// The provenance is a statement about each file, with the commit that it was built of.
func TestDistHasProvenance(t *testing.T) {
	dir, run := dist(t)
	out, err := run("bash", "-c", `architectures="amd64 arm64" zig=$ZIG version=v1 commit=abc; eval "$(sed -n '/^provenance()/,/^}/p' scripts/dist.sh)"; provenance`)
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var statement struct {
		Subject []struct {
			Name   string
			Digest map[string]string
		}
		PredicateType string
		Predicate     struct {
			BuildDefinition struct {
				ExternalParameters   map[string]any
				ResolvedDependencies []struct {
					URI    string
					Digest map[string]string
				}
			}
		}
	}
	if err := json.Unmarshal([]byte(out), &statement); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	sums, err := os.ReadFile(filepath.Join(dir, "dist/SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	built := statement.Predicate.BuildDefinition
	if len(statement.Subject) != 1 || statement.Subject[0].Digest["sha256"]+"  "+statement.Subject[0].Name+"\n" != string(sums) {
		t.Errorf("subjects %+v", statement.Subject)
	}
	if statement.PredicateType != "https://slsa.dev/provenance/v1" || built.ResolvedDependencies[0].Digest["gitCommit"] != "abc" || fmt.Sprint(built.ExternalParameters["architectures"]) != "[amd64 arm64]" {
		t.Errorf("%+v", statement)
	}
}
