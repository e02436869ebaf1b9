package vm_test

import (
	"errors"
	"os"
	"testing"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/driver/drivertest"
	"github.com/tarelab/tare/internal/driver/vm"
	"github.com/tarelab/tare/internal/vmm"
)

// TestMachines runs the suite on every machine type of this architecture. One that
// Cannot be had here is skipped with the driver's own reason; QEMU's may not be in CI
// (scripts/test.sh).
func TestMachines(t *testing.T) {
	for _, v := range vmm.VMMs() {
		t.Run(v.Name, func(t *testing.T) { contract(t, v) })
	}
}

func contract(t *testing.T, v vmm.VMM) {
	lab := drivertest.New(t)
	missing := v
	missing.Binary = "no-such-vmm"
	d := vm.New(lab, v)
	var cannot *driver.CannotError
	if _, err := d.Check(t.Context()); errors.As(err, &cannot) {
		t.Skip(cannot)
	}
	drivertest.Run(t, d, drivertest.Options{
		Lab: lab, Missing: vm.New(lab, missing), MissingName: "no-such-vmm",
		Skip:  map[string]string{"mounts": "a guest shares no directory with the host: stock kernels for guests have neither 9p nor, without a daemon, virtiofs"},
		Again: vmm.StoppedInKernel,
	})
}

// A machine with a kernel of its own is a target by that name.
func TestNamedByKernel(t *testing.T) {
	v := vmm.VMMs()[0]
	d := vm.New(drivertest.New(t), v)
	for _, kernel := range []string{"debian/6.1", "/boot/vmlinuz"} {
		name := v.Name + driver.ProgramSign + kernel
		named := d.Named(t.Context(), name)
		if named == nil || named.Name() != name {
			t.Fatalf("%s: %v", name, named)
		}
		if again := named.(driver.Namer).Named(t.Context(), name+"=x"); again != nil {
			t.Errorf("%s names another: %v", name, again)
		}
	}
	for _, name := range []string{v.Name + vm.RestoredSuffix, v.Name + vm.RestoredSuffix + "=debian/6.1"} {
		if named := d.Named(t.Context(), name); named == nil || named.Name() != name {
			t.Errorf("%s: %v", name, named)
		}
	}
	for _, name := range []string{v.Name, v.Name + "/other", v.Name + vm.RestoredSuffix + "=", v.Name + "=", v.Name + "=6.1", v.Name + "=./k", "other=debian/6.1"} {
		if named := d.Named(t.Context(), name); named != nil {
			t.Errorf("%q is %s", name, named.Name())
		}
	}
	var cannot *driver.CannotError
	_, err := d.Named(t.Context(), v.Name+"="+os.DevNull).Check(t.Context())
	if !errors.As(err, &cannot) || cannot.Target != v.Name+"="+os.DevNull {
		t.Errorf("a device as a kernel: %v", err)
	}
}
