package probe

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

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

// A guest's memory is found where a VMM has it in several mappings, and what only has its
// size is not taken for it.
func TestGuestPart(t *testing.T) {
	const mib = 1 << 10 // in kB, as smaps has it
	for name, c := range map[string]struct {
		maps  [][3]any // rights and name; kB of size; kB resident
		guest int64    // MiB
		want  float64  // MiB
	}{
		"QEMU":                  {[][3]any{{"rw-p 0 00:00 0", 512 * mib, 100 * mib}, {"rw-p 0 00:00 0 [heap]", 3 * mib, 2 * mib}}, 512, 100},
		"translated code":       {[][3]any{{"rwxp 0 00:00 0", 64 * mib, 60 * mib}, {"rw-p 0 00:00 0", 64 * mib, 20 * mib}, {"---p 0 00:00 0", 64 * mib, 0}}, 64, 20},
		"Firecracker, 4 GiB":    {[][3]any{{"rw-p 0 00:00 0", 3072 * mib, 50 * mib}, {"rw-p 0 00:00 0", 1024 * mib, 70 * mib}, {"rw-p 0 00:00 0", 8 * mib, 1 * mib}}, 4096, 120},
		"Cloud Hypervisor":      {[][3]any{{"rw-s 0 00:01 7 /memfd:ch_ram (deleted)", 512 * mib, 90 * mib}, {"r-xp 0 08:01 9 /usr/bin/x", 512 * mib, 5 * mib}}, 512, 90},
		"split in three":        {[][3]any{{"rw-p 0 00:00 0", 2 * mib, 2 * mib}, {"rw-p 0 00:00 0", 508 * mib, 30 * mib}, {"rw-p 0 00:00 0 [anon:ram]", 2 * mib, 1 * mib}}, 512, 33},
		"two of the size":       {[][3]any{{"rw-p 0 00:00 0", 64 * mib, 1 * mib}, {"rw-p 0 00:00 0", 64 * mib, 40 * mib}}, 64, 40},
		"a guest in other ways": {[][3]any{{"rw-p 0 00:00 0", 500 * mib, 30 * mib}, {"rw-p 0 00:00 0", 13 * mib, 3 * mib}}, 512, 0},
	} {
		var text strings.Builder
		for i, m := range c.maps {
			fmt.Fprintf(&text, "7f%02d0000-7f%02dffff %v\nSize: %15v kB\nKernelPageSize: 4 kB\nRss: %v kB\nVmFlags: rd wr mr\n", i, i, m[0], m[1], m[2])
		}
		_, maps, err := readSmaps(strings.NewReader(text.String()))
		if err != nil {
			t.Fatal(err)
		}
		if got := guestPart(maps, float64(c.guest<<20)); got != c.want*(1<<20) {
			t.Errorf("%s: %v MiB are the guest's, want %v", name, got/(1<<20), c.want)
		}
	}
	// Many mappings that sum to nothing are given up soon.
	many := make([]mapping, 10_000)
	for i := range many {
		many[i] = mapping{size: float64((1000 + 2*i) << 12)}
	}
	began := time.Now()
	if got := guestPart(many, 83881<<12); got != 0 || time.Since(began) > 10*time.Second {
		t.Errorf("%v after %v", got, time.Since(began))
	}
}

func TestMemoryOfAProcessThatHasEnded(t *testing.T) {
	if m, err := memoryOf(1<<22-1, 0); err != nil || m != (processMemory{}) {
		t.Errorf("%+v, %v", m, err)
	}
}
