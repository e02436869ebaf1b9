package native_test

import (
	"testing"

	"github.com/tarelab/tare/internal/driver/drivertest/oldkernel"
)

func TestMain(m *testing.M) { oldkernel.Main(m) }

func TestOldKernels(t *testing.T) { oldkernel.Contract(t, "missing binary names itself") }

// TestOldLadder: each rung starts on the oldest kernel.
func TestOldLadder(t *testing.T) {
	oldkernel.Rerun(t, oldkernel.Kernels[0], "^(TestLadder|TestSeccompStarts)$")
}
