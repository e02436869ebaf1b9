package vm_test

import (
	"errors"
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
