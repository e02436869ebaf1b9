package hostinfo

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/moby/sys/mountinfo"
	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"github.com/tarelab/tare/internal/sys"
)

// Gather reads the facts of this machine. A fact that the machine does not
// tell is left empty: none of them is worth failing for.
func Gather() Host {
	return gather("/", mountinfo.GetMounts)
}

// gather reads below root, so that the machines of the tests are directories.
func gather(root string, mounts func(mountinfo.FilterFunc) ([]*mountinfo.Info, error)) Host {
	at := func(p string) string { return filepath.Join(root, p) }
	cpuinfo := readText(at("/proc/cpuinfo"))
	h := Host{
		OS:             osName(readText(at("/etc/os-release"))),
		Arch:           runtime.GOARCH,
		CPU:            cpuModel(cpuinfo),
		CPUs:           countCPUs(readLine(at("/sys/devices/system/cpu/online"))),
		Cores:          countCores(at("/sys/devices/system/cpu")),
		Memory:         memory(at("/proc")),
		SchedExt:       sys.SchedExt(),
		Governor:       readLine(at("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")),
		Mitigations:    mitigations(at("/sys/devices/system/cpu/vulnerabilities")),
		Virtualization: virtualization(root, cpuinfo),
		Cgroup:         cgroupVersion(mounts),
		TCPCongestion:  readLine(at("/proc/sys/net/ipv4/tcp_congestion_control")),
		Clocksource:    readLine(at("/sys/devices/system/clocksource/clocksource0/current_clocksource")),
		BootID:         readLine(at("/proc/sys/kernel/random/boot_id")),
		Root:           os.Geteuid() == 0,
	}
	h.identify(at, cpuFields(cpuinfo))
	h.ClockGHz, h.ClockSource = clock(root)
	h.Emulated = emulated(cpuinfo, readLine(at("/proc/cmdline")))
	var u unix.Utsname
	if err := unix.Uname(&u); err == nil {
		h.Hostname, h.Kernel, h.KernelBuild = unix.ByteSliceToString(u.Nodename[:]), unix.ByteSliceToString(u.Release[:]), unix.ByteSliceToString(u.Version[:])
	}
	if h.CPUs == 0 {
		h.CPUs = runtime.NumCPU()
	}
	if allowed, err := sys.AllowedCPUs(); err == nil {
		h.Usable = len(allowed)
	}
	return h
}

// identify reads what tells machines of one kind apart.
func (h *Host) identify(at func(string) string, cpu map[string]string) {
	dmi := func(names ...string) string {
		var values []string
		for _, n := range names {
			if v := readLine(at("/sys/class/dmi/id/" + n)); v != "" {
				values = append(values, v)
			}
		}
		return strings.Join(values, " ")
	}
	h.Machine = machineID(readLine(at("/etc/machine-id")))
	h.Product, h.BIOS = dmi("sys_vendor", "product_name"), dmi("bios_vendor", "bios_version", "bios_date")
	h.Stepping, h.Microcode = cpu["stepping"], cpu["microcode"]
	h.CommandLine = commandLine(readLine(at("/proc/cmdline")))
	h.SMT = readLine(at("/sys/devices/system/cpu/smt/control"))
	h.NUMANodes = countCPUs(readLine(at("/sys/devices/system/node/online")))
	h.HugePages = chosen(readLine(at("/sys/kernel/mm/transparent_hugepage/enabled")))
	h.Place, h.Granted = place(at("/"), os.Getenv), granted(os.Getenv)
	h.CgroupDepth = cgroupDepth(readText(at("/proc/self/cgroup")))
}

// CPUsOf counts some of this machine's CPUs, given by their numbers.
func CPUsOf(numbers []int) CPUs { return cpusOf("/sys/devices/system/cpu", numbers) }

func cpusOf(dir string, numbers []int) CPUs {
	cores := map[string]bool{}
	for _, n := range numbers {
		siblings := readLine(filepath.Join(dir, fmt.Sprintf("cpu%d/topology/thread_siblings_list", n)))
		if siblings == "" {
			return CPUs{Threads: len(numbers)}
		}
		cores[siblings] = true
	}
	return CPUs{Threads: len(numbers), Cores: len(cores)}
}

// readText is a file's contents, "" where there is none.
func readText(file string) string {
	b, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	return string(b)
}

func readLine(file string) string {
	line, _, _ := strings.Cut(readText(file), "\n")
	return strings.TrimSpace(line)
}

// osName is PRETTY_NAME of an os-release(5).
func osName(text string) string {
	for line := range strings.Lines(text) {
		value, ok := strings.CutPrefix(strings.TrimSpace(line), "PRETTY_NAME=")
		if !ok {
			continue
		}
		if plain, err := strconv.Unquote(value); err == nil {
			return plain
		}
		return strings.Trim(value, `"'`)
	}
	return ""
}

func memory(proc string) int64 {
	p, err := procfs.NewFS(proc)
	if err != nil {
		return 0
	}
	m, err := p.Meminfo()
	if err != nil || m.MemTotalBytes == nil {
		return 0
	}
	return int64(*m.MemTotalBytes)
}

// countCPUs counts a list such as "0-3,8"; 0 for what is none.
func countCPUs(list string) int {
	cpus, _ := sys.ParseCPUs(list) // nil with an error
	return len(cpus)
}

// countCores counts the distinct physical cores: the groups of threads that
// are each other's siblings.
func countCores(dir string) int {
	lists, err := filepath.Glob(filepath.Join(dir, "cpu[0-9]*/topology/thread_siblings_list"))
	if err != nil {
		return 0
	}
	cores := map[string]bool{}
	for _, l := range lists {
		if s := readLine(l); s != "" {
			cores[s] = true
		}
	}
	return len(cores)
}

func mitigations(dir string) map[string]string {
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	m := map[string]string{}
	for _, f := range files {
		if s := readLine(filepath.Join(dir, f.Name())); s != "" {
			m[f.Name()] = s
		}
	}
	return m
}

// cgroupVersion tells by the mounts: "v2" where only version 2 is there, "v1",
// or "hybrid" where both are.
func cgroupVersion(mounts func(mountinfo.FilterFunc) ([]*mountinfo.Info, error)) string {
	found, err := mounts(mountinfo.FSTypeFilter("cgroup", "cgroup2"))
	if err != nil {
		return ""
	}
	var one, two bool
	for _, m := range found {
		one = one || m.FSType == "cgroup"
		two = two || m.FSType == "cgroup2"
	}
	return string(sys.ModeOf(one, two))
}

// hypervisors that tell their name in DMI, by what sys_vendor or product_name
// begins with (the list of systemd's src/basic/virt.c, shortened).
var dmiVendors = []struct{ prefix, name string }{
	{"KVM", "kvm"}, {"Amazon EC2", "amazon"}, {"QEMU", "qemu"}, {"VMware", "vmware"}, {"VMW", "vmware"},
	{"innotek GmbH", "virtualbox"}, {"VirtualBox", "virtualbox"}, {"Xen", "xen"}, {"Bochs", "bochs"}, {"Parallels", "parallels"},
	{"BHYVE", "bhyve"}, {"Hyper-V", "hyper-v"}, {"Microsoft Corporation Virtual", "hyper-v"}, {"Apple Virtualization", "apple"},
	{"Google Compute Engine", "google"}, {"OpenStack", "openstack"}, {"Alibaba Cloud", "alibaba"}, {"HVM domU", "xen"},
}

var clockOwners = map[string]string{
	"kvm-clock": "kvm", "xen": "xen", "vmware_tsc": "vmware",
	"hyperv_clocksource_tsc_page": "hyper-v", "hyperv_clocksource_msr": "hyper-v",
}

// virtualization names the hypervisor: by Xen's own directory, by DMI, by the
// device tree, by the paravirtual clock; else by the CPU's hypervisor flag,
// which has no name ("unknown"), or "none".
func virtualization(root, cpuinfo string) string {
	if t := readLine(filepath.Join(root, "/sys/hypervisor/type")); t != "" {
		return t
	}
	for _, file := range []string{"product_name", "sys_vendor", "board_vendor", "bios_vendor"} {
		text := readLine(filepath.Join(root, "/sys/class/dmi/id", file))
		for _, v := range dmiVendors {
			if strings.HasPrefix(text, v.prefix) {
				return v.name
			}
		}
	}
	if c := strings.TrimRight(readText(filepath.Join(root, "/proc/device-tree/hypervisor/compatible")), "\x00"); c != "" {
		return c
	}
	// A paravirtual clock tells whose it is (drivers/clocksource,
	// arch/x86/kernel/kvmclock.c, arch/x86/xen/time.c).
	clocks := strings.Fields(readLine(filepath.Join(root, "/sys/devices/system/clocksource/clocksource0/available_clocksource")))
	for _, clock := range clocks {
		if name := clockOwners[clock]; name != "" {
			return name
		}
	}
	if slices.Contains(strings.Fields(cpuinfo), "hypervisor") {
		return "unknown"
	}
	if _, err := os.Stat(filepath.Join(root, "/sys/firmware/qemu_fw_cfg")); err == nil {
		return "qemu"
	}
	return "none"
}

// cpuModel reads /proc/cpuinfo of x86, arm, Loongson (mips64 and loong64),
// RISC-V, POWER and s390x, and joins it into one line.
func cpuModel(cpuinfo string) string {
	field := cpuFields(cpuinfo)
	switch {
	case field["model name"] != "": // x86, loong64 ("Model Name"), arm of some vendors
		return field["model name"]
	case field["cpu implementer"] != "":
		return armModel(field["cpu implementer"], field["cpu part"])
	case field["cpu model"] != "": // mips: "ICT Loongson-3 V0.5  FPU V0.1"
		model := strings.Join(strings.Fields(field["cpu model"]), " ")
		if s := field["system type"]; s != "" {
			return model + " (" + s + ")"
		}
		return model
	case field["uarch"] != "" || field["isa"] != "": // RISC-V
		return strings.TrimSpace(field["uarch"] + " " + field["isa"])
	case field["cpu"] != "": // POWER
		return field["cpu"]
	case field["processor 0"] != "": // s390x
		return field["vendor_id"] + " " + field["processor 0"]
	}
	return ""
}

// cpuFields are the first processor's fields, their names in lower case: the
// architectures do not agree on capitals.
func cpuFields(cpuinfo string) map[string]string {
	fields := map[string]string{}
	for line := range strings.Lines(cpuinfo) {
		name, value, ok := strings.Cut(line, ":")
		name = strings.ToLower(strings.TrimSpace(name))
		if _, seen := fields[name]; ok && !seen {
			fields[name] = strings.TrimSpace(value)
		}
	}
	return fields
}

// armParts are the cores that servers have, by implementer and part (Arm's
// MIDR_EL1; the numbers are those of util-linux's sys-utils/lscpu-arm.c).
var armParts = map[string]string{
	"0x41/0xd03": "Cortex-A53", "0x41/0xd07": "Cortex-A57", "0x41/0xd08": "Cortex-A72", "0x41/0xd0b": "Cortex-A76",
	"0x41/0xd0c": "Neoverse-N1", "0x41/0xd40": "Neoverse-V1", "0x41/0xd49": "Neoverse-N2", "0x41/0xd4f": "Neoverse-V2",
	"0x48/0xd01": "TaiShan-v110", "0x48/0xd02": "TaiShan-v120",
	"0x70/0x662": "FTC662", "0x70/0x663": "FTC663", "0xc0/0xac3": "Ampere-1", "0xc0/0xac4": "Ampere-1a",
	"0x61/0x022": "Icestorm-M1", "0x61/0x023": "Firestorm-M1",
}

func armModel(implementer, part string) string {
	if name, ok := armParts[implementer+"/"+part]; ok {
		return name
	}
	return "arm implementer " + implementer + " part " + part
}
