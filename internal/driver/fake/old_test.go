package fake

import (
	"maps"
	"slices"
	"testing"

	"github.com/tarelab/tare/internal/driver/drivertest/oldkernel"
)

func TestMain(m *testing.M) { oldkernel.Main(m) }

func TestOldKernels(t *testing.T) {
	oldkernel.Contract(t, append(slices.Collect(maps.Keys(lacks)), "missing binary names itself", "kernel's paths", "foreign devices",
		"no door", "kills its init")...)
}
