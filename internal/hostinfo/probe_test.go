package hostinfo

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tarelab/tare/internal/sys"
)

// state is what proofs could leave behind.
func state(t *testing.T) []string {
	t.Helper()
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, " "+os.TempDir()+" ") && strings.Contains(line, " tare ") {
			all = append(all, line)
		}
	}
	for _, place := range []string{"/sys/fs/cgroup/*/", "/sys/fs/cgroup/"} {
		found, err := filepath.Glob(place + sys.ProbeGroup("*"))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, found...)
	}
	return all
}

func check(t *testing.T) {
	began := time.Now()
	facts := Probe(t.Context())
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %s", took)
	}
	for _, f := range facts {
		if f.Name == "" || f.OK && f.Value == "" || !f.OK && f.Why == "" {
			t.Errorf("%+v says nothing", f)
		}
		if !f.OK && f.NeedsRoot && os.Geteuid() != 0 && f.Remedy != "run as root" {
			t.Errorf("%+v does not say that it takes root", f)
		}
		if f.Name == "KVM" && f.OK {
			t.Error("KVM counts as proven without a guest")
		}
		t.Logf("%-24s %v %s %s", f.Name, f.OK, f.Value, f.Why)
	}
	if left := state(t); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestProbe(t *testing.T) { check(t) }

// A proof that fails where the kernel shows that it has the thing is wrong.
func TestProbeAgreesWithTheKernel(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("not every fact can be told without root: run it as root")
	}
	has := map[string]bool{
		"overlayfs":             strings.Contains(readText("/proc/filesystems"), "\toverlay\n"),
		"BTF":                   readText("/sys/kernel/btf/vmlinux") != "",
		"pressure (PSI)":        readText("/proc/pressure/cpu") != "",
		"seccomp filters":       readText("/proc/sys/kernel/seccomp/actions_avail") != "",
		"user namespaces":       readLine("/proc/sys/user/max_user_namespaces") != "0",
		"start inside a cgroup": strings.Contains(readText("/proc/self/mountinfo"), " - cgroup2 "),
	}
	for _, f := range Probe(t.Context()) {
		if want, known := has[f.Name]; known && f.OK != want {
			t.Errorf("%+v, but the kernel shows %v", f, want)
		}
	}
}

// TestProbeAsNobody runs TestProbe again as a user without rights.
func TestProbeAsNobody(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("this test becomes another user: run it as root")
	}
	exe, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "tare-nobody-") // t.TempDir is root's alone
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := errors.Join(os.Chmod(dir, 0o755), os.WriteFile(dir+"/test", exe, 0o755)); err != nil {
		t.Fatal(err)
	}
	c := exec.Command(dir+"/test", "-test.run", "^TestProbe$", "-test.v")
	c.Dir = "/"
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := c.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestProbe") {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestFactTimesOut(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	p := proof{name: "slow", remedy: "wait", try: func(ctx context.Context) (string, error) { <-ctx.Done(); return "", ctx.Err() }}
	if f := p.fact(ctx); f.OK || !strings.Contains(f.Why, "no answer") || f.Remedy != "wait" {
		t.Errorf("%+v", f)
	}
}

func TestProofsHaveNames(t *testing.T) {
	var names []string
	for _, p := range proofs() {
		if p.name == "" || slices.Contains(names, p.name) {
			t.Errorf("name %q", p.name)
		}
		names = append(names, p.name)
	}
}
