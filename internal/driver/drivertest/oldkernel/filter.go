package oldkernel

import (
	"fmt"
	"runtime"
	"slices"
	"unsafe"

	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// Offsets in struct seccomp_data (linux/seccomp.h). The low half of an argument comes
// first on all of these architectures.
const (
	dataNumber = 0
	dataArgs   = 16
)

// program answers as kernel would: ENOSYS for the calls that came after it, and for all
// that no table knows yet.
func program(kernel string) ([]bpf.Instruction, error) {
	machine, err := arch.GetInfo("")
	if err != nil {
		return nil, err
	}
	load := bpf.LoadAbsolute{Off: dataNumber, Size: 4}
	p := []bpf.Instruction{load}
	for _, number := range numbersAfter(kernel, machine.SyscallNames) {
		p = append(p, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: uint32(number), SkipTrue: 1}, answer(unix.ENOSYS))
	}
	last := slices.Max(numbersAfter("0.0", machine.SyscallNames))
	p = append(p, bpf.JumpIf{Cond: bpf.JumpLessOrEqual, Val: uint32(last), SkipTrue: 1}, answer(unix.ENOSYS))
	for _, u := range uses {
		number, known := machine.SyscallNames[u.call]
		if !known {
			return nil, fmt.Errorf("%s has no call %s", machine.Name, u.call)
		}
		if Older(kernel, u.since) {
			p = append(p, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: uint32(number), SkipTrue: 5},
				bpf.LoadAbsolute{Off: dataArgs + 8*uint32(u.arg), Size: 4}, bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: u.mask},
				bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: u.value, SkipTrue: 1}, answer(u.errno), load)
		}
	}
	return append(p, bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW}), nil
}

func answer(errno unix.Errno) bpf.RetConstant {
	return bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(errno)}
}

// numbersAfter are the numbers of the calls that came after the kernel.
func numbersAfter(kernel string, names map[string]int) []int {
	var numbers []int
	for name, came := range since {
		if number, known := names[name]; known && Older(kernel, came) {
			numbers = append(numbers, number)
		}
	}
	slices.Sort(numbers)
	return numbers
}

// install puts this thread, and what it executes, on such a kernel. The thread's
// goroutine must be locked to it.
func install(kernel string) error {
	code, err := program(kernel)
	if err != nil {
		return err
	}
	raw, err := bpf.Assemble(code)
	if err != nil {
		return err
	}
	filter := make([]unix.SockFilter, len(raw))
	for i, r := range raw {
		filter[i] = unix.SockFilter{Code: r.Op, Jt: r.Jt, Jf: r.Jf, K: r.K}
	}
	call := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	err = unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&call)), 0, 0)
	runtime.KeepAlive(filter)
	return err
}
