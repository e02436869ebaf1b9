package hostinfo

import (
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// dmiTable is a BIOS structure, then a processor's, with their strings.
func dmiTable(mhz uint16) []byte {
	bios := append([]byte{0, 0x12, 0, 0}, make([]byte, 0x12-4)...)
	cpu := append([]byte{4, 0x1a, 1, 0}, make([]byte, 0x1a-4)...)
	binary.LittleEndian.PutUint16(cpu[0x16:], mhz)
	end := []byte{127, 4, 2, 0, 0, 0}
	table := append(append([]byte{}, bios...), "Vendor\x001.0\x00\x00"...)
	table = append(append(table, cpu...), 0, 0)
	return append(table, end...)
}

func TestClock(t *testing.T) {
	const dmi, info = "/sys/firmware/dmi/tables/DMI", "/proc/cpuinfo"
	cpu := func(n string) string { return "/sys/devices/system/cpu/cpu" + n + "/cpufreq/scaling_cur_freq" }
	for _, test := range []struct {
		name   string
		files  map[string]string
		ghz    float64
		source string
	}{
		{"cpufreq comes first", map[string]string{cpu("0"): "1450000\n", cpu("1"): "3600000\n", dmi: string(dmiTable(2000)), info: "cpu MHz : 2900.1\n"}, 3.6, ClockCPUFreq},
		{"then DMI", map[string]string{dmi: string(dmiTable(2000)), info: "cpu MHz : 2900.1\n"}, 2, ClockDMI},
		{"DMI that does not know", map[string]string{dmi: string(dmiTable(0)), info: "cpu MHz\t\t: 2900.1\n"}, 2.9001, ClockCPUInfo},
		{"DMI that is cut short", map[string]string{dmi: string(dmiTable(2000)[:30]), info: "CPU MHz : 2500.00\n"}, 2.5, ClockCPUInfo},
		{"nothing", map[string]string{info: "cpu model : ICT Loongson-3 V0.5  FPU V0.1\n"}, 0, ""},
	} {
		root := t.TempDir()
		for name, text := range test.files {
			path := filepath.Join(root, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if ghz, source := clock(root); math.Abs(ghz-test.ghz) > 1e-9 || source != test.source {
			t.Errorf("%s: %v from %q, want %v from %q", test.name, ghz, source, test.ghz, test.source)
		}
	}
}

// A rate that is measured says over what: it is not that of the run.
func TestMeasuredClocksSayWhen(t *testing.T) {
	for _, source := range []string{ClockCounter, ClockCPUFreq} {
		if !strings.HasSuffix(source, ", one thread for some 20 ms before the run") {
			t.Errorf("%q does not say over what it was measured", source)
		}
	}
}

// This machine's own clock is between a slow RISC-V board's and the fastest there is.
func TestClockHere(t *testing.T) {
	ghz, source := clock("/")
	if source == "" {
		t.Log("this machine tells no clock rate by any way: only the fixtures are tested")
		return
	}
	if ghz < 0.1 || ghz > 10 {
		t.Errorf("%v GHz from %s", ghz, source)
	}
}

func TestEmulated(t *testing.T) {
	const mips = "system type\t: Generic Loongson64 System\nmachine\t: loongson,loongson64v-4core-virtio\ncpu model\t: ICT Loongson-3 V0.5  FPU V0.1\n"
	for _, test := range []struct {
		name, cpuinfo, cmdline string
		want                   bool
	}{
		{"x86 TCG", "model name : QEMU TCG CPU version 2.5+\n", "", true},
		{"a real x86", "model name : AMD EPYC 7B13\n", "console=ttyS0", false},
		{"virtual 3A1000", mips, "", true},
		{"a real Loongson", "system type : Generic Loongson64 System\nmachine : loongson,loongson64c-4core-ls7a\ncpu model : ICT Loongson-3 V0.13  FPU V0.1\n", "", false},
		{"declared", "Model Name : Loongson-3A5000\n", "panic=-1 tare.emulated=qemu-system-loongarch64", true},
		{"declared as nothing", "Model Name : Loongson-3A5000\n", "tare.emulated=", false},
	} {
		if got := emulated(test.cpuinfo, test.cmdline); (got != "") != test.want {
			t.Errorf("%s: %q", test.name, got)
		}
	}
}
