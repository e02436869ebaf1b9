package containerhost

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/kerneltools/bootlog"
	"github.com/tarelab/tare/internal/vmm"
)

func TestDockerRunCarriesTheSpec(t *testing.T) {
	spec := driver.Spec{Args: []string{"/bin/a", "b c"}, Env: []string{"X=1 2"}, Cwd: "/tmp", User: driver.User{UID: 1, GID: 2},
		Limits: driver.Limits{CPUs: 0.5, CPUSet: "0-1", Memory: 1 << 20, Pids: 7}}
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

func TestProofChecks(t *testing.T) {
	panicked := errors.New("the guest's kernel panicked, and the console ends:\nKernel panic")
	said := []byte("docker run\tok\t20.50\t24.75\nnoise\ncrun\tfailed: no such device\t24.80\t25.00\n")
	first := []driver.ProofCheck{{Name: "docker run", Result: "ok", Seconds: 4.25}, {Name: "crun", Result: "failed: no such device", Seconds: 0.2}}
	for name, test := range map[string]struct {
		out    outcome
		begun  bool
		failed error
		want   []driver.ProofCheck
	}{
		"whole":             {outcome{text: said, off: true}, true, nil, append(slices.Clone(first), driver.ProofCheck{Name: shutdownCheck, Result: "ok"})},
		"panics in a check": {outcome{text: said}, true, panicked, append(slices.Clone(first), driver.ProofCheck{Name: shutdownCheck, Result: "failed: " + panicked.Error()})},
		"panics before":     {outcome{}, false, panicked, []driver.ProofCheck{{Name: bootCheck, Result: "failed: " + panicked.Error()}}},
		"stays on":          {outcome{}, true, nil, []driver.ProofCheck{{Name: shutdownCheck, Result: "failed: it had not powered off after 1m0s"}}},
	} {
		if got := proofChecks(test.out, test.begun, test.failed); !slices.Equal(got, test.want) {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
	}
}

// TestPackagesOutOfReach: an archive that cannot be had is told as what it is, and
// what else stops mmdebstrap is the laboratory's failure.
func TestPackagesOutOfReach(t *testing.T) {
	for said, out := range map[string]bool{
		"E: Failed to fetch http://deb.debian.org/x  Could not connect": true,
		"E: Unable to locate package docker.io":                         true,
		"dpkg: error: cannot write":                                     false,
	} {
		bin := t.TempDir()
		if err := os.WriteFile(filepath.Join(bin, "mmdebstrap"), []byte("#!/bin/sh\necho '"+said+"'\nexit 1\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		t.Setenv("PATH", bin)
		_, err := (&hostParts{dir: t.TempDir()}).base(t.Context(), func(string) {})
		var cannot *driver.CannotError
		if errors.As(err, &cannot) != out || driver.IsLab(err) == out || !strings.Contains(err.Error(), said) {
			t.Errorf("%q gives %v", said, err)
		}
	}
}

// Where a source is at hand, the code of a proof's initcalls is found in it, once.
func TestSymbolsOfAProof(t *testing.T) {
	cache := t.TempDir()
	m := &hostParts{lab: driver.Lab{CacheDir: cache}, dir: cache}
	proof := filepath.Join(cache, "proof-1.json")
	tree := filepath.Join(cache, "kernel", hostSource+"_6.1.1_all")
	for name, text := range map[string]string{
		"Makefile": "", "Kconfig": "", "scripts/kconfig/Makefile": "", "init/Makefile": "", "arch/x86/Makefile": "", "Kbuild": "obj-y += drivers/\n",
		"drivers/Makefile": "obj-$(CONFIG_RTC_CLASS) += rtc.o\n", "drivers/rtc.c": "subsys_initcall(rtc_init);\n",
	} {
		file := filepath.Join(tree, name)
		must(t, os.MkdirAll(filepath.Dir(file), 0o755))
		must(t, os.WriteFile(file, []byte(text), 0o600))
	}
	locate := func() string {
		must(t, m.locate(t.Context(), proof, func(string) {}))
		text, err := os.ReadFile(symbolsFile(proof))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		return string(text)
	}
	if got := locate(); got != "" {
		t.Errorf("without a journal there is %q", got)
	}
	must(t, os.WriteFile(journalFile(proof), []byte("[    0.000000] Linux version 6.1.1\n[    0.500000] initcall rtc_init+0x0/0x10 returned 0 after 7 usecs\n"), 0o600))
	var origins map[string][]bootlog.Origin
	if got := locate(); json.Unmarshal([]byte(got), &origins) != nil || len(origins["rtc_init"]) != 1 || origins["rtc_init"][0] != (bootlog.Origin{Object: "drivers/rtc.o", Symbol: "RTC_CLASS"}) {
		t.Errorf("found %s", got)
	}
}

// must ends the test on an error.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
