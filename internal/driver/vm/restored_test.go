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

// TestRestored runs the suite on guests that are restored, on the first machine type of
// this architecture: one that cannot be had is skipped with the driver's own reason.
func TestRestored(t *testing.T) {
	v := vmm.VMMs()[0]
	lab := drivertest.New(t)
	missing := v
	missing.Binary = "no-such-vmm"
	restored := func(v vmm.VMM) driver.Driver { return vm.New(lab, v).Named(t.Context(), v.Name+vm.RestoredSuffix) }
	d := restored(v)
	var cannot *driver.CannotError
	if _, err := d.Check(t.Context()); errors.As(err, &cannot) {
		t.Skip(cannot)
	}
	session, ok := driver.As[driver.SessionDriver](d)
	if !ok {
		t.Fatal("nobody tears a session of restored guests down")
	}
	t.Cleanup(func() {
		if err := session.Teardown(); err != nil {
			t.Error(err)
		}
		if left, err := os.ReadDir(lab.RunDir); err != nil || len(left) > 0 {
			t.Errorf("left are %v, %v", left, err)
		}
	})
	drivertest.Run(t, d, drivertest.Options{
		Lab: lab, Missing: restored(missing), MissingName: "no-such-vmm",
		Skip:  map[string]string{"mounts": "a guest shares no directory with the host: stock kernels for guests have neither 9p nor, without a daemon, virtiofs"},
		Again: vmm.StoppedInKernel,
	})
}
