package vm

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/tarelab/tare/internal/target"
	"github.com/tarelab/tare/internal/vmm"
)

func TestDockerRunCarriesTheSpec(t *testing.T) {
	spec := target.Spec{Args: []string{"/bin/a", "b c"}, Env: []string{"X=1 2"}, Cwd: "/tmp", User: target.User{UID: 1, GID: 2},
		Limits: target.Limits{CPUs: 0.5, CPUSet: "0-1", Memory: 1 << 20, Pids: 7}}
	got := dockerRun(spec)
	want := []string{"/usr/bin/docker", "run", "--rm", "-e", "X=1 2", "-w", "/tmp", "-u", "1:2", "--cpus", "0.5", "--cpuset-cpus", "0-1",
		"--memory", "1048576", "--pids-limit", "7", hostImage, "/bin/a", "b c"}
	if !slices.Equal(got, want) {
		t.Errorf("docker run is %q, want %q", got, want)
	}
	var config specs.Spec
	if err := json.Unmarshal(bundleOf(spec), &config); err != nil {
		t.Fatal(err)
	}
	if r := config.Linux.Resources; *r.Memory.Limit != 1<<20 || *r.Pids.Limit != 7 || *r.CPU.Quota != 50_000 || r.CPU.Cpus != "0-1" {
		t.Errorf("resources of the bundle: %+v", r)
	}
	if len(config.Process.Capabilities.Effective) != 0 {
		t.Error("another user than root has capabilities")
	}
}

func TestArmsNameMachinesThatExist(t *testing.T) {
	seen := map[string]bool{}
	for i, a := range arms() {
		if seen[a.name] || a.why == "" || a.run == nil {
			t.Errorf("arm %q is there twice, or not whole", a.name)
		}
		seen[a.name] = true
		if _, ok := vmm.ByName(a.machine); !ok && len(vmm.VMMs()) > 0 && vmm.VMMs()[0].Name == "qemu/microvm" {
			t.Errorf("arm %s: no machine %q", a.name, a.machine)
		}
		if n := len(strings.Join(a.append, " ")); n > 1650 {
			t.Errorf("arm %s: its parameters have %d letters, and a command line has room for 2047 with those of every guest", a.name, n)
		}
		if a.stock() != (i == 0) {
			t.Errorf("arm %s: the control is the first, and it alone is stock", a.name)
		}
	}
}

func TestProofLines(t *testing.T) {
	lines := proofLines(outcome{text: []byte("docker run\tok\nnoise\ncrun\tfailed: no such device\n"), off: true}, nil)
	want := []proofLine{{"docker run", "ok"}, {"crun", "failed: no such device"}, {shutdownCheck, "ok"}}
	if !slices.Equal(lines, want) {
		t.Errorf("lines %q, want %q", lines, want)
	}
	if l := proofLines(outcome{}, nil); len(l) != 1 || !strings.HasPrefix(l[0].Result, "failed") {
		t.Errorf("a machine that stayed on: %q", l)
	}
}
