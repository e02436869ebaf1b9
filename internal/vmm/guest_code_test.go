package vmm

import (
	"slices"
	"strings"
	"testing"

	"github.com/tarelab/tare/internal/limit"
)

// Captured of QEMU 7.2 with -d in_asm, and what a guest cannot forge: disassembly
// begins with an address as well.
const inAsm = `----------------
IN: 
0xffffffff81000110:  48 8d 25 e9 3e 60 01     leaq     0x1603ee9(%rip), %rsp
0xffffffff81000117:  b9 01 01 00 c0           movl     $0xc0000101, %ecx

----------------
IN: 
0xffffffff810001a0:  0f 30                    wrmsr    

----------------
IN: 
0xffffffff81000110:  48 8d 25 e9 3e 60 01     leaq     0x1603ee9(%rip), %rsp

IN: 
no address
0xzz: nor this
`

func TestReadCode(t *testing.T) {
	got, whole, err := ReadCode(strings.NewReader(inAsm))
	if want := []uint64{0xffffffff81000110, 0xffffffff810001a0}; err != nil || !whole || !slices.Equal(got, want) {
		t.Errorf("%#x, %v, %v; want %#x", got, whole, err, want)
	}
	if err := limit.GuestCode.CheckAlloc(func() {
		if blocks, _, err := ReadCode(strings.NewReader(strings.Repeat("x", 1<<20) + "\n" + inAsm)); err != nil || len(blocks) != 2 {
			t.Errorf("a line of a megabyte: %d blocks, %v", len(blocks), err)
		}
	}); err != nil {
		t.Error(err)
	}
}

// A machine whose code is looked at is an emulated one of QEMU's.
func TestCodeOfEmulatedGuests(t *testing.T) {
	v, ok := ByName(QEMUQ35)
	if !ok {
		t.Skip("there is no q35 on this architecture")
	}
	m := Machine{Kernel: Kernel{Path: "/k", Format: BzImage}, CPUs: 1, Memory: 1 << 30, Accel: TCG, Code: "/pipe"}
	p, err := v.planned(m)
	if err != nil || !strings.Contains(strings.Join(p.args, " "), " -d in_asm -dfilter 0xffffffff80000000+0x7f000000 -D /pipe ") {
		t.Errorf("%v, %v", p.args, err)
	}
	m.Accel = KVM
	if err := v.Takes(m); err == nil || !strings.Contains(err.Error(), "emulated guests alone") {
		t.Errorf("under KVM: %v", err)
	}
	other, ok := ByName("firecracker")
	if !ok {
		t.Fatal("there is no firecracker")
	}
	m.Kernel.Format = PVH
	if err := other.Takes(m); err == nil || !strings.Contains(err.Error(), "emulates no guest") {
		t.Errorf("firecracker: %v", err)
	}
}
