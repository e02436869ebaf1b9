package probe

import (
	"os"
	"testing"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
)

// What smaps sums to is what the kernel's own sums say, and a mapping of the
// guest's size is told apart.
func TestMemoryOfAgreesWithTheKernelsSums(t *testing.T) {
	const size, touched = 48 << 20, 5 << 20
	memory, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(memory)
	if err := unix.Madvise(memory, unix.MADV_NOHUGEPAGE); err != nil {
		t.Fatal(err)
	}
	// A page between keeps the mapping from being joined with its neighbours.
	if err := unix.Mprotect(memory[len(memory)-os.Getpagesize():], unix.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	for i := 0; i < touched; i += os.Getpagesize() {
		memory[i] = 1
	}
	got, err := memoryOf(os.Getpid(), size-int64(os.Getpagesize()))
	if err != nil {
		t.Fatal(err)
	}
	if got.guest != touched {
		t.Errorf("the mapping has %v resident bytes, want %v", got.guest, touched)
	}
	p, err := procfs.Self()
	if err != nil {
		t.Fatal(err)
	}
	rollup, err := p.ProcSMapsRollup()
	if err != nil {
		t.Fatal(err)
	}
	// The process lives on between the two readings.
	const slack = 8 << 20
	for what, pair := range map[string][2]float64{"rss": {got.rss, float64(rollup.Rss)}, "pss": {got.pss, float64(rollup.Pss)}, "dirty": {got.dirty, float64(rollup.PrivateDirty + rollup.SharedDirty)}} {
		if d := pair[0] - pair[1]; d > slack || d < -slack || pair[0] <= 0 {
			t.Errorf("%s: %v by mappings, %v by the kernel's sum", what, pair[0], pair[1])
		}
	}
	if got.mapped < got.rss {
		t.Errorf("mapped %v is less than resident %v", got.mapped, got.rss)
	}
}

func TestMemoryOfAProcessThatHasEnded(t *testing.T) {
	if m, err := memoryOf(1<<22-1, 0); err != nil || m != (processMemory{}) {
		t.Errorf("%+v, %v", m, err)
	}
}
