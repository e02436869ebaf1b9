package vm_test

import (
	"testing"

	"github.com/tarelab/tare/internal/target/targettest"
	"github.com/tarelab/tare/internal/target/vm"
	"github.com/tarelab/tare/internal/vmm"
)

// contract runs the suite on a VMM of this architecture.
func contract(t *testing.T, name string) {
	lab := targettest.New(t)
	v, ok := vmm.ByName(name)
	if !ok {
		t.Skipf("%s is not of this architecture", name)
	}
	missing := v
	missing.Binary = "no-such-vmm"
	targettest.Run(t, vm.New(lab, v), targettest.Options{
		Lab: lab, Missing: vm.New(lab, missing), MissingName: "no-such-vmm",
		Skip:  map[string]string{"mounts": "a guest shares no directory with the host: stock kernels for guests have neither 9p nor, without a daemon, virtiofs"},
		Again: vmm.StoppedInKernel,
	})
}

func TestMicrovm(t *testing.T) { contract(t, "qemu/microvm") }

func TestQ35(t *testing.T) { contract(t, "qemu/q35") }
