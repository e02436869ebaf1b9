package oldkernel

import (
	"runtime"
	"testing"

	"github.com/elastic/go-seccomp-bpf/arch"
)

// lastOld is the number of finit_module (3.8), the youngest call of Linux 3.10. From
// firstShared on (pidfd_send_signal, 5.1) calls have the same number on all architectures.
var lastOld = map[string]int{"amd64": 313, "arm64": 273, "riscv64": 273}

const firstShared = 424

// firstTime64 is the first of the calls that 32-bit machines alone have.
const firstTime64 = 403

// TestTableIsWhole: each call of this architecture with a younger number is in the table.
func TestTableIsWhole(t *testing.T) {
	machine, err := arch.GetInfo("")
	last, known := lastOld[runtime.GOARCH]
	if err != nil || !known {
		t.Skipf("no numbers for this architecture: %v", err)
	}
	for name, number := range machine.SyscallNames {
		if _, dated := since[name]; !dated && number > last && (number < firstTime64 || number >= firstShared) {
			t.Errorf("%s (%d) is not in the table", name, number)
		}
	}
}

func TestOlder(t *testing.T) {
	if !Older("3.10", "3.11") || !Older("4.4", "4.19") || Older("5.4", "5.4") || Older("5.10", "5.9") {
		t.Error("versions are not compared by number")
	}
}
