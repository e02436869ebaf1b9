package emulated

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

var arm64 = flag.Bool("arm64", false, "build a kernel for arm64, and run containers in it; takes -docker")

// trimmedNeeds are those of the engines, and of what the guest's disk and console take.
const trimmedNeeds = "docker,containerd,podman,crun,ext4,rtc,initrd"

// TestTrimmedARM64: a kernel that tare trim build made for QEMU's virt boots there, and
// the engines, the runtimes and tare's own container run in it.
func TestTrimmedARM64(t *testing.T) {
	if !*arm64 {
		t.Skip("the arm64 kernel is built and booted by `make test-arm64` (go test ./test/emulated -arm64 -docker)")
	}
	m := machine{
		arch: "arm64", emulator: "qemu-system-aarch64",
		arguments: []string{"-M", "virt,gic-version=max", "-cpu", "max,pauth-impdef=on", "-smp", "2"},
		append:    "console=ttyAMA0 panic=-1 tare.emulated=qemu-system-aarch64",
		measure:   "tare weigh --on host,native,runc,crun,docker --blocks 2 -- true",
		kernel:    trimmedKernel(t),
	}
	dir := m.boot(t, packages(t, "emulator-arm64"))
	t.Run("steps", func(t *testing.T) { stepsEnded(t, dir) })
	t.Run("version", func(t *testing.T) { m.versionIsOurs(t, dir) })
	t.Run("run", func(t *testing.T) { m.runIsWhole(t, dir) })
	t.Run("image", func(t *testing.T) { imageRuns(t, dir) })
}

// trimmedKernel is the kernel, by the command that users type.
func trimmedKernel(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	tare := filepath.Join(dir, "tare")
	buildTare(t, "", tare)
	c := exec.CommandContext(t.Context(), tare, "trim", "build", "--vm", "qemu/virt", "--needs", trimmedNeeds, "-o", filepath.Join(dir, "kernel"))
	c.Stderr = os.Stderr
	out, err := c.Output()
	if err != nil {
		t.Fatalf("tare trim build: %v\n%s", err, out)
	}
	t.Logf("%s", out)
	return filepath.Join(dir, "kernel", "Image")
}
