package hostinfo

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"github.com/tarelab/tare/internal/sys"
)

// spin is work that a counter must see.
func spin() (sum uint64) {
	for i := range uint64(2_000_000) {
		sum = sum*31 + i
	}
	return sum
}

// counted spins this thread and returns what a perf event counted meanwhile, and for how
// many nanoseconds the event ran.
func counted(kind uint32, config uint64, spins int) (count, ns uint64, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	attr := unix.PerfEventAttr{
		Type: kind, Config: config,
		Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{})), Read_format: unix.PERF_FORMAT_TOTAL_TIME_RUNNING,
		Bits: unix.PerfBitExcludeKernel | unix.PerfBitExcludeHv,
	}
	fd, err := sys.OpenPerf(&attr, 0, -1, 0)
	if err != nil {
		return 0, 0, fmt.Errorf("perf_event_open: %w", err)
	}
	f := os.NewFile(uintptr(fd), "perf event")
	defer f.Close()
	for range spins {
		runtime.KeepAlive(spin())
	}
	var b [16]byte
	if _, err := f.Read(b[:]); err != nil {
		return 0, 0, fmt.Errorf("read of a perf event: %w", err)
	}
	return binary.NativeEndian.Uint64(b[:8]), binary.NativeEndian.Uint64(b[8:]), nil
}

// counts fails where a perf event does not count this thread while it spins.
func counts(kind uint32, config uint64) error {
	count, _, err := counted(kind, config, 1)
	if err == nil && count == 0 {
		err = errors.New("the counter stayed at 0 while the CPU worked")
	}
	return err
}

func hardwareCounters(context.Context) (string, error) {
	for config, name := range map[uint64]string{unix.PERF_COUNT_HW_CPU_CYCLES: "cycles", unix.PERF_COUNT_HW_INSTRUCTIONS: "instructions"} {
		if err := counts(unix.PERF_TYPE_HARDWARE, config); err != nil {
			return "", fmt.Errorf("%s: %w", name, err)
		}
	}
	return "cycles and instructions count", nil
}

func softwareCounters(context.Context) (string, error) {
	if err := counts(unix.PERF_TYPE_SOFTWARE, unix.PERF_COUNT_SW_TASK_CLOCK); err != nil {
		return "", fmt.Errorf("task-clock: %w", err)
	}
	return "task-clock counts", nil
}

// loadBPF has the kernel verify and load a program that returns 0.
func loadBPF(context.Context) (string, error) {
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type:         ebpf.SocketFilter,
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()},
		License:      "Apache-2.0",
	})
	if err != nil {
		return "", err
	}
	return "a program was verified and loaded", p.Close()
}

// kernelTypes parses the kernel's own type information and looks a type up.
func kernelTypes(context.Context) (string, error) {
	spec, err := btf.LoadKernelSpec()
	if err != nil {
		return "", err
	}
	var task *btf.Struct
	if err := spec.TypeByName("task_struct", &task); err != nil {
		return "", err
	}
	return fmt.Sprintf("task_struct has %d bytes", task.Size), nil
}

func pressure(context.Context) (string, error) {
	proc, err := procfs.NewDefaultFS()
	if err != nil {
		return "", err
	}
	psi, err := proc.PSIStatsForResource("cpu")
	if err != nil {
		return "", err
	}
	if psi.Some == nil {
		return "", errors.New("/proc/pressure/cpu has no line \"some\"")
	}
	return fmt.Sprintf("a task waited for a CPU %.1f %% of the last 10 s", psi.Some.Avg10), nil
}

// seccompFilter asks for a filter with a null pointer: EFAULT says that the
// kernel has filters, EINVAL that it has none (seccomp(2)). EACCES, for those
// without no_new_privs, comes later than either.
func seccompFilter(context.Context) (string, error) {
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, 0)
	if errno != unix.EFAULT {
		return "", fmt.Errorf("seccomp: %w", errno)
	}
	actions := strings.TrimSpace(readText("/proc/sys/kernel/seccomp/actions_avail"))
	return actions, nil
}

// ioctls of /dev/kvm (include/uapi/linux/kvm.h); the direction bits of _IO
// differ on MIPS and POWER.
const (
	kvmGetAPIVersion = 0xAE00
	kvmCreateVM      = 0xAE01
)

// kvm notes what /dev/kvm answers. That proves little: there are machines
// where a VM can be made and no guest runs. So the fact never holds here; a
// guest's boot proves it.
func kvm(context.Context) (string, error) {
	f, err := os.OpenFile("/dev/kvm", os.O_RDWR, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	void := uintptr(0)
	if strings.HasPrefix(runtime.GOARCH, "mips") || strings.HasPrefix(runtime.GOARCH, "ppc") {
		void = 1 << 29 // _IOC_NONE there (arch/mips/include/uapi/asm/ioctl.h)
	}
	version, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), void|kvmGetAPIVersion, 0)
	if errno != 0 {
		return "/dev/kvm is there", fmt.Errorf("KVM_GET_API_VERSION: %w", errno)
	}
	vm, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), void|kvmCreateVM, 0)
	if errno != 0 {
		return "/dev/kvm is there", fmt.Errorf("KVM_CREATE_VM: %w", errno)
	}
	if err := unix.Close(int(vm)); err != nil {
		return "/dev/kvm is there", err
	}
	return fmt.Sprintf("/dev/kvm is there (API %d, a VM was made)", version), errors.New("acceleration is unproven until a guest boots, and no virtual machine was checked here")
}
