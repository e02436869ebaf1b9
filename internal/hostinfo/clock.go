package hostinfo

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/tarelab/tare/internal/sys"
)

// How a clock rate is known before a run, the best first. The first two are of one
// moment and one busy CPU: with all at work a machine may clock lower. Trials that
// compute measure it while they run (probe.Clock).
const (
	ClockCounter = "cycle counter, one thread for some 20 ms before the run" // cycles of a busy thread by the time that it ran: measured
	ClockCPUFreq = "cpufreq, one thread for some 20 ms before the run"       // what the driver says while a CPU is busy
	ClockDMI     = "DMI"                                                     // what the firmware says, nominal
	ClockCPUInfo = "cpuinfo"                                                 // what the kernel says; in a virtual machine the rate of its time stamps
)

// clock is the rate of a busy CPU in GHz and how it is known; 0 and "" where
// nothing tells it.
func clock(root string) (ghz float64, source string) {
	at := func(p string) string { return filepath.Join(root, p) }
	if root == "/" {
		if ghz, err := countedClock(); err == nil {
			return ghz, ClockCounter
		}
	}
	if ghz := cpufreqClock(at("/sys/devices/system/cpu")); ghz > 0 {
		return ghz, ClockCPUFreq
	}
	if ghz := dmiClock([]byte(readText(at("/sys/firmware/dmi/tables/DMI")))); ghz > 0 {
		return ghz, ClockDMI
	}
	if mhz, err := strconv.ParseFloat(cpuFields(readText(at("/proc/cpuinfo")))["cpu mhz"], 64); err == nil && mhz > 0 {
		return mhz / 1e3, ClockCPUInfo
	}
	return 0, ""
}

// countedClock lets the cycle counter count a thread that spins, and divides by
// the time that the counter ran. It fails where there is no such counter or it
// may not be used.
func countedClock() (float64, error) {
	// Some 20 ms: the clock has come up, interrupts weigh little.
	cycles, ns, err := counted(unix.PERF_TYPE_HARDWARE, unix.PERF_COUNT_HW_CPU_CYCLES, 10)
	if err != nil {
		return 0, err
	}
	if cycles == 0 || ns == 0 {
		return 0, fmt.Errorf("the counter saw %d cycles in %d ns while the CPU worked", cycles, ns)
	}
	return float64(cycles) / float64(ns), nil
}

// cpufreqClock is the fastest CPU's rate while one is busy.
func cpufreqClock(dir string) float64 {
	if sys.FastestClock(dir) == 0 {
		return 0
	}
	for range 10 {
		runtime.KeepAlive(spin())
	}
	return sys.FastestClock(dir) / 1e9
}

// dmiClock is "Current Speed" of the first processor (SMBIOS 3.7, type 4,
// offset 16h, in MHz).
func dmiClock(table []byte) float64 {
	const processor, speed = 4, 0x16
	for len(table) >= 4 {
		kind, length := table[0], int(table[1])
		if length < 4 || length > len(table) {
			return 0
		}
		if kind == processor && length >= speed+2 {
			if mhz := binary.LittleEndian.Uint16(table[speed:]); mhz > 0 {
				return float64(mhz) / 1e3
			}
		}
		end := bytes.Index(table[length:], []byte{0, 0}) // of the structure's strings
		if end < 0 {
			return 0
		}
		table = table[length+end+2:]
	}
	return 0
}

// emulated says why the CPU is an emulated one, "" where nothing tells so: by
// the name that QEMU gives its TCG; by the virtual Loongson 3A1000, which no
// hypervisor runs (QEMU, docs/system/target-mips.rst: KVM has the 3A4000); or by
// "tare.emulated=NAME" on the kernel's command line, for emulators that do not
// tell.
func emulated(cpuinfo, cmdline string) string {
	for word := range strings.FieldsSeq(cmdline) {
		if name, ok := strings.CutPrefix(word, "tare.emulated="); ok && name != "" {
			return name + ", by the kernel's command line"
		}
	}
	field := cpuFields(cpuinfo)
	switch {
	case strings.Contains(field["model name"], "TCG"):
		return field["model name"]
	case strings.Contains(field["machine"], "loongson64v") && strings.Contains(field["cpu model"], "V0.5"):
		return "QEMU's loongson3-virt with " + strings.Join(strings.Fields(field["cpu model"]), " ")
	}
	return ""
}
