package hostinfo

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/moby/sys/mountinfo"
)

// machine makes a directory that looks like a machine's root.
func machine(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for p, text := range files {
		at := filepath.Join(root, p)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// The files are cut from real machines' /proc/cpuinfo.
func TestCPUModel(t *testing.T) {
	for name, c := range map[string]struct{ cpuinfo, want string }{
		"x86":              {"processor\t: 0\nvendor_id\t: AuthenticAMD\nmodel name\t: AMD EPYC 7763 64-Core Processor\nflags\t\t: fpu hypervisor\n\nprocessor\t: 1\nmodel name\t: other\n", "AMD EPYC 7763 64-Core Processor"},
		"arm64":            {"processor\t: 0\nBogoMIPS\t: 243.75\nCPU implementer\t: 0x41\nCPU architecture: 8\nCPU variant\t: 0x3\nCPU part\t: 0xd0c\nCPU revision\t: 1\n", "Neoverse-N1"},
		"arm64, unknown":   {"CPU implementer\t: 0x99\nCPU part\t: 0xfff\n", "arm implementer 0x99 part 0xfff"},
		"Loongson 3, mips": {"system type\t\t: Generic Loongson64 System\nmachine\t\t\t: loongson,loongson64v-4core-virtio\nprocessor\t\t: 0\ncpu model\t\t: ICT Loongson-3 V0.5  FPU V0.1\nBogoMIPS\t\t: 1604.37\n", "ICT Loongson-3 V0.5 FPU V0.1 (Generic Loongson64 System)"},
		"Loongson 3A5000":  {"system type\t\t: generic-loongson-machine\n\nprocessor\t\t: 0\npackage\t\t\t: 0\nCPU Family\t\t: Loongson-64bit\nModel Name\t\t: Loongson-3A5000\n", "Loongson-3A5000"},
		"RISC-V":           {"processor\t: 0\nhart\t\t: 1\nisa\t\t: rv64imafdc\nmmu\t\t: sv39\nuarch\t\t: sifive,u74-mc\n", "sifive,u74-mc rv64imafdc"},
		"nothing":          {"", ""},
		"garbage":          {"\x00\xff:::\n:\n" + strings.Repeat("x", 100_000), ""},
	} {
		if got := cpuModel(c.cpuinfo); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestVirtualization(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		flags string
		want  string
	}{
		"bare metal":      {map[string]string{"/sys/class/dmi/id/sys_vendor": "Dell Inc.\n"}, "fpu vme", "none"},
		"QEMU":            {map[string]string{"/sys/class/dmi/id/sys_vendor": "QEMU\n"}, "hypervisor", "qemu"},
		"KVM by its name": {map[string]string{"/sys/class/dmi/id/product_name": "KVM Virtual Machine\n"}, "", "kvm"},
		"no DMI, a clock": {map[string]string{"/sys/devices/system/clocksource/clocksource0/available_clocksource": "tsc kvm-clock acpi_pm\n"}, "hypervisor", "kvm"},
		"Xen":             {map[string]string{"/sys/hypervisor/type": "xen\n"}, "", "xen"},
		"device tree":     {map[string]string{"/proc/device-tree/hypervisor/compatible": "linux,kvm\x00"}, "", "linux,kvm"},
		"only the flag":   {nil, "fpu hypervisor lm", "unknown"},
	} {
		if got := virtualization(machine(t, c.files), "flags : "+c.flags+"\n"); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestCgroupVersion(t *testing.T) {
	for want, types := range map[string][]string{"v1": {"cgroup", "cgroup"}, "v2": {"cgroup2"}, "hybrid": {"cgroup", "cgroup2"}, "none": nil} {
		mounts := func(mountinfo.FilterFunc) ([]*mountinfo.Info, error) {
			var all []*mountinfo.Info
			for _, ty := range types {
				all = append(all, &mountinfo.Info{FSType: ty})
			}
			return all, nil
		}
		if got := cgroupVersion(mounts); got != want {
			t.Errorf("%v: %q, want %q", types, got, want)
		}
	}
}

func TestCountCPUs(t *testing.T) {
	for list, want := range map[string]int{"0": 1, "0-3": 4, "0-1,4,6-7": 5, "": 0, "3-1": 0, "a": 0} {
		if got := countCPUs(list); got != want {
			t.Errorf("%q: %d, want %d", list, got, want)
		}
	}
}

func TestGatherAMachine(t *testing.T) {
	root := machine(t, map[string]string{
		"/etc/os-release":                 "ID=debian\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n",
		"/proc/cpuinfo":                   "Model Name : Loongson-3A5000\n",
		"/proc/meminfo":                   "MemTotal:       16384 kB\nMemFree:        1 kB\n",
		"/proc/sys/kernel/random/boot_id": "0f1e\n",
		"/sys/devices/system/cpu/online":  "0-3\n",
		"/sys/devices/system/cpu/cpu0/topology/thread_siblings_list":       "0-1\n",
		"/sys/devices/system/cpu/cpu1/topology/thread_siblings_list":       "0-1\n",
		"/sys/devices/system/cpu/cpu2/topology/thread_siblings_list":       "2-3\n",
		"/sys/devices/system/cpu/cpu3/topology/thread_siblings_list":       "2-3\n",
		"/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor":            "performance\n",
		"/sys/devices/system/cpu/vulnerabilities/meltdown":                 "Not affected\n",
		"/sys/devices/system/clocksource/clocksource0/current_clocksource": "Constant\n",
	})
	h := gather(root, func(mountinfo.FilterFunc) ([]*mountinfo.Info, error) {
		return []*mountinfo.Info{{FSType: "cgroup2"}}, nil
	})
	if h.OS != "Debian GNU/Linux 12 (bookworm)" || h.CPU != "Loongson-3A5000" || h.CPUs != 4 || h.Cores != 2 ||
		h.Memory != 16384*1024 || h.Governor != "performance" || h.Mitigations["meltdown"] != "Not affected" ||
		h.Clocksource != "Constant" || h.BootID != "0f1e" || h.Cgroup != "v2" || h.Virtualization != "none" {
		t.Errorf("%+v", h)
	}
	cpus := filepath.Join(root, "/sys/devices/system/cpu")
	for _, c := range []struct {
		numbers []int
		want    CPUs
	}{{[]int{0, 1}, CPUs{2, 1}}, {[]int{0, 2, 3}, CPUs{3, 2}}, {[]int{3}, CPUs{1, 1}}, {[]int{3, 7}, CPUs{Threads: 2}}} {
		if got := cpusOf(cpus, c.numbers); got != c.want {
			t.Errorf("CPUs %v: %+v, want %+v", c.numbers, got, c.want)
		}
	}
	empty := gather(t.TempDir(), func(mountinfo.FilterFunc) ([]*mountinfo.Info, error) { return nil, nil })
	if empty.CPUs < 1 || empty.Kernel == "" || empty.CPU != "" {
		t.Errorf("%+v", empty)
	}
}

func TestGatherHere(t *testing.T) {
	h := Gather()
	if h.Hostname == "" || h.Kernel == "" || h.CPUs < 1 || h.Memory < 1<<20 || h.BootID == "" || h.Cgroup == "" || h.Virtualization == "" {
		t.Errorf("%+v", h)
	}
}
