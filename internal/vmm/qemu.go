package vmm

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/tarelab/tare/internal/sys"
)

// TranslationCache bounds TCG's memory for translated code, in MiB: by default
// it takes up to 1 GiB, which would hide all else in a footprint.
const TranslationCache = 64

// QEMU's machine types that others ask for by name.
const (
	QEMUMicroVM = "qemu/microvm"
	QEMUQ35     = "qemu/q35"
)

// Where CPUs have the code of kernels and modules: on arm64 in the upper half of the
// addresses, which depends on the kernel's configuration.
const (
	textX86 = "0xffffffff80000000+0x7f000000"
	textARM = "0xffff000000000000+0xffffffffffff"
)

// qemuMachine is what differs between QEMU's machine types.
type qemuMachine struct {
	name, binary string
	machine      string // -M
	cpu          string // under TCG
	kvmCPU       string // under KVM, where "host" is not known; "" where it is
	bus          string // suffix of virtio devices: "device" is virtio-mmio
	serial       string // the first serial port, as the kernel calls it
	earlycon     string
	text         string // where its CPU has the kernel's code and that of modules, as -dfilter takes it; "": all code
	second       string // the second serial port; "" where the machine has none
	secondArgs   []string
	formats      []Format
	options      []string
	tsc          bool // its clock is the host's counter
	lastPage     bool // the firmware writes ACPI tables over the last page of memory, in which the initramfs may end
	maxCPUs      int
	order        int
}

func qemuMachines(arch string) []qemuMachine {
	pci := []Format{Image, ZBoot}
	return map[string][]qemuMachine{
		"amd64": {
			// A timer that the kernel has given no vector (microvm's ACPI says that there
			// is none) interrupts with 0, and is taken for a divide error: QEMU 10, Linux 6.12.
			{name: "microvm", binary: "qemu-system-x86_64", machine: "microvm,acpi=on,rtc=on,pit=off", cpu: "max", bus: "device",
				serial: "ttyS0", earlycon: earlyX86, text: textX86, second: "ttyS1", secondArgs: []string{"-device", "isa-serial,chardev=second,iobase=0x2f8,irq=3"},
				formats: []Format{PVH, BzImage}, tsc: true, lastPage: true, order: 600},
			{name: "q35", binary: "qemu-system-x86_64", machine: "q35", cpu: "max", bus: "pci",
				serial: "ttyS0", earlycon: earlyX86, text: textX86, second: "ttyS1", secondArgs: []string{"-serial", "chardev:second"},
				formats: []Format{PVH, BzImage}, tsc: true, order: 610},
		},
		"arm64": {{name: "virt", binary: "qemu-system-aarch64", machine: "virt,gic-version=max", cpu: "max", bus: "pci",
			serial: "ttyAMA0", earlycon: earlyARM, text: textARM, formats: pci, order: 600}},
		"riscv64": {{name: "virt", binary: "qemu-system-riscv64", machine: "virt", cpu: "max", bus: "pci",
			serial: "ttyS0", earlycon: "uart8250,mmio,0x10000000", formats: pci, order: 600}},
		// The keyboard controller that LoongArch's kernel waits for is not there.
		"loong64": {{name: "virt", binary: "qemu-system-loongarch64", machine: "virt", cpu: "la464", bus: "pci",
			serial: "ttyS0", formats: []Format{Vmlinux, Image, ZBoot}, options: []string{"initcall_blacklist=i8042_init"}, order: 600}},
		// With two CPUs its clock runs backwards.
		"mips64le": {{name: "loongson3-virt", binary: "qemu-system-mips64el", machine: "loongson3-virt", cpu: "Loongson-3A1000", kvmCPU: "Loongson-3A4000", bus: "pci",
			serial: "ttyS0", formats: []Format{Vmlinux}, maxCPUs: 1, order: 600}},
	}[arch]
}

func qemus(arch string) []VMM {
	var all []VMM
	for _, q := range qemuMachines(arch) {
		v := VMM{
			Name: "qemu/" + q.name, Binary: q.binary, Remedy: qemuRemedy(arch), Version: []string{"--version"}, Banner: "QEMU emulator version ",
			Formats: q.formats, MaxCPUs: q.maxCPUs, StartTime: 3 * time.Second, Order: q.order, plan: q.plan,
			Modules: []string{"virtio_pci", "virtio_console", "virtio_blk"}, Symbols: []string{"VIRTIO_PCI", "VIRTIO_CONSOLE"},
		}
		v.Offers = q.abilities()
		if q.bus == "device" {
			v.Modules[0], v.Symbols[0] = "virtio_mmio", "VIRTIO_MMIO"
		}
		all = append(all, v)
	}
	return all
}

// qemuRemedy is how the QEMU of an architecture comes to this machine: set-up knows its
// own, and Debian's packages have the others.
func qemuRemedy(arch string) string {
	pack, ok := map[string]string{"amd64": "qemu-system-x86", "arm64": "qemu-system-arm", "mips64le": "qemu-system-mips"}[arch]
	switch {
	case arch == runtime.GOARCH:
		return "tare setup installs it"
	case !ok:
		pack = "qemu-system-misc"
	}
	return "apt-get install " + pack
}

// abilities are those of a machine type.
func (q qemuMachine) abilities() Abilities {
	a := Abilities{Has: map[Ability]string{
		Emulating: "TCG", PrivateCopies: "`snapshot=on`", Uncached: "`cache=none`",
		Restoring: "`migrate`, `-incoming`", Cloning: "`memory-backend-file`, mapped privately",
		Reporting: "`virtio-balloon`, from 5.1", Ballooning: "`virtio-balloon`, QMP's `balloon`", HugePages: "`memory-backend-memfd,hugetlb=on`",
		Merging: "`mem-merge`", Threading: "`-object iothread`", Vhost: "`vhost=on`", SharingFiles: "`vhost-user-fs` and virtiofsd",
	}, Lacks: map[Ability]string{}}
	if q.machine == "q35" {
		a.Has[SelfBooting], a.Has[Plugging] = "SeaBIOS", "`pc-dimm`, by ACPI"
	} else {
		a.Lacks[SelfBooting], a.Lacks[Plugging] = "tare boots it with a kernel alone", "no slots for memory without ACPI's hotplug"
	}
	return a
}

// plan is QEMU's command line. Without defaults, the machine has what stands
// here and nothing else. QEMU connects to tare's sockets, so that nothing has
// to be waited for.
func (q qemuMachine) plan(m Machine) (plan, error) {
	p := plan{console: plug{socket: "console"}, control: plug{socket: "qmp"}, protocol: dialQMP, save: qemuSave, adjust: adjustQMP, restore: qemuRestore}
	backend, memory := qemuMemory(m)
	args := []string{
		"-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
		"-M", q.machine + ",mem-merge=" + onOff(m.Devices.Mergeable) + memory, "-smp", fmt.Sprint(m.CPUs), "-m", fmt.Sprintf("%dM", mebibytes(m.Memory)) + slots(m),
	}
	if m.Alone == nil {
		args = append(args, "-kernel", m.Kernel.Path)
	}
	if m.Code != "" && m.Accel != TCG {
		return p, errors.New("it sees the code of emulated guests alone")
	}
	args = append(args, q.accelerator(m)...)
	if m.Initrd != "" {
		name := m.Initrd
		if q.lastPage {
			name, p.initrd = initrdName, m.Initrd
		}
		args = append(args, "-initrd", name)
	}
	args = append(args, backend...)
	args = append(args, socketBackend("console")...)
	args = append(args, "-serial", "chardev:console")
	thread := ""
	if m.Devices.IOThread {
		if q.bus == "device" && m.Accel == TCG {
			return p, errors.New("a thread of its own for the disks: virtio-mmio tells one of requests under KVM alone (use a machine with PCI)")
		}
		args, thread = append(args, "-object", "iothread,id="+ioThread), ",iothread="+ioThread
	}
	for i, d := range m.Disks {
		args = append(args, "-drive", fmt.Sprintf("if=none,id=disk%d,format=%s,file=%s,%s", i, format(d), strings.ReplaceAll(d.Path, ",", ",,"), access(d)),
			"-device", fmt.Sprintf("virtio-blk-%s,drive=disk%d%s", q.bus, i, thread))
	}
	if n := m.NIC; n != nil {
		device := fmt.Sprintf("virtio-net-%s,netdev=net0,mac=%s", q.bus, n.Hardware)
		if q.bus == "pci" {
			device += ",romfile=" // the firmware's own boot over the network, which takes its time
		}
		args = append(args, "-netdev", "tap,id=net0,ifname="+n.Tap+",script=no,downscript=no"+vhost(m), "-device", device)
	}
	if d := m.Devices; d.PageReporting || d.Balloon > 0 {
		args = append(args, "-device", "virtio-balloon-"+q.bus+",free-page-reporting="+onOff(d.PageReporting))
	}
	if m.Share != "" {
		h, err := virtiofsd(m)
		if err != nil {
			return p, err
		}
		p.helpers = append(p.helpers, h)
		args = append(args, "-chardev", "socket,id=share,path="+h.socket, "-device", "vhost-user-fs-"+q.bus+",chardev=share,tag="+shareTag)
	}
	if m.Agent {
		var more []string
		more, p.channels = q.agent()
		args = append(args, more...)
	}
	args = append(args, socketBackend("qmp")...)
	args = append(args, "-mon", "chardev=qmp,mode=control")
	if m.Alone != nil {
		args = append(args, m.Alone.qemu()...)
	} else {
		args = append(args, "-append", strings.Join(q.parameters(m, p.channels), " "))
	}
	p.args = args
	return p, nil
}

// accelerator is what executes the guest's instructions, and shows their code.
func (q qemuMachine) accelerator(m Machine) []string {
	if m.Accel == KVM {
		return []string{"-accel", "kvm", "-cpu", cmp.Or(q.kvmCPU, "host")}
	}
	args := []string{"-accel", fmt.Sprintf("tcg,thread=multi,tb-size=%d", cmp.Or(mebibytes(m.Translations), TranslationCache)), "-cpu", q.cpu}
	if m.Code == "" {
		return args
	}
	args = append(args, "-d", "in_asm")
	if q.text != "" {
		args = append(args, "-dfilter", q.text)
	}
	return append(args, "-D", m.Code)
}

func access(d Disk) string {
	switch {
	case d.ReadOnly:
		return "readonly=on"
	case d.Own && d.Direct:
		return "cache=none"
	case d.Own:
		return "cache=writeback"
	}
	return "snapshot=on"
}

func socketBackend(name string) []string {
	return []string{"-chardev", fmt.Sprintf("socket,id=%[1]s,path=%[1]s", name)}
}

// agent gives the guest a port of virtio-serial, and for kernels without virtio
// a second serial port.
func (q qemuMachine) agent() ([]string, []plug) {
	args := append([]string{"-device", "virtio-serial-" + q.bus}, socketBackend("port")...)
	args = append(args, "-device", "virtserialport,chardev=port,name=tare")
	channels := []plug{{socket: "port", way: "port:tare"}}
	if q.second != "" {
		args = append(append(args, socketBackend("second")...), q.secondArgs...)
		channels = append(channels, plug{socket: "second", way: "tty:/dev/" + q.second})
	}
	return args, channels
}

func (q qemuMachine) parameters(m Machine, channels []plug) []string {
	all := append([]string{"console=" + q.serial}, q.options...)
	if q.earlycon != "" {
		all = append(all, "earlycon="+q.earlycon)
	}
	if m.Accel == TCG && q.tsc { // x86
		all = append(append(all, clockParameters()...), withoutCX16)
	}
	if m.Agent {
		all = append(all, ways(channels))
	}
	if m.Devices.Hotplug > 0 {
		all = append(all, "memhp_default_state=online")
	}
	return append(all, m.Append...)
}

// withoutCX16 keeps the kernel from cmpxchg16b (bit 13 of word 4 of its features), after
// which QEMU 7.2's TCG may leave any flags: of Linux 6.12, whose allocator uses it, one
// boot in three died of them. Programs still find the instruction.
const withoutCX16 = "clearcpuid=141"

// clockParameters name the frequency of x86's TSC, which a guest under TCG reads
// from the host. On a busy host the guest's own calibration against a timer
// fails, and its check whether the CPUs agree: it would hang, or have a clock of
// 4 ms where the machine has no other (microvm), or panic because the timer does
// not tick in the time that it is given.
func clockParameters() []string {
	khz := sys.TSC()
	if khz == 0 {
		return nil
	}
	return []string{fmt.Sprintf("tsc_early_khz=%d", khz), "tsc=reliable", "no_timer_check"}
}
