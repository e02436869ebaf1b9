package vmm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
)

// stratovirt is one machine type of StratoVirt. It has one serial port and, on
// microvm, one port of virtio-serial; its sockets are its own to listen on
// (docs/config_guidebook.md there).
type stratovirt struct {
	name    string
	machine string
	bus     string // as in qemuMachine
	serial  string
	early   string // its first serial port, as earlycon has it
	append  []string
	uefi    *uefi // nil where it needs no firmware
}

// uefi is the firmware of a machine type: the code alone, where distributions have put
// it, and the package that brings it.
type uefi struct {
	files []string
	pack  string
}

// ovmf is x86's firmware: Debian's and Ubuntu's until and from 2024, Fedora's and
// openEuler's, Arch's, SUSE's.
var ovmf = &uefi{pack: "ovmf", files: []string{
	"/usr/share/OVMF/OVMF_CODE.fd", "/usr/share/OVMF/OVMF_CODE_4M.fd",
	"/usr/share/edk2/ovmf/OVMF_CODE.fd", "/usr/share/edk2/x64/OVMF_CODE.4m.fd", "/usr/share/edk2/x64/OVMF_CODE.fd", "/usr/share/qemu/OVMF.fd",
}}

// aavmf is arm64's, in the same order.
var aavmf = &uefi{pack: "qemu-efi-aarch64", files: []string{
	"/usr/share/AAVMF/AAVMF_CODE.fd", "/usr/share/AAVMF/AAVMF_CODE.no-secboot.fd",
	"/usr/share/edk2/aarch64/QEMU_EFI-pflash.raw", "/usr/share/edk2/aarch64/QEMU_CODE.fd", "/usr/share/qemu/aavmf-aarch64-code.bin",
}}

// find is the first of the files that is there.
func (u *uefi) find() (string, error) {
	for _, f := range u.files {
		if _, err := os.Stat(f); err == nil {
			return f, nil
		}
	}
	return "", fmt.Errorf("it boots by UEFI, and none of %s is there (apt-get install %s)", strings.Join(u.files, ", "), u.pack)
}

func stratovirts(arch string) []VMM {
	serial, early := map[string]string{"amd64": "ttyS0", "arm64": "ttyAMA0"}[arch], earlyX86
	if serial == "" {
		return nil
	}
	formats := []Format{BzImage}
	standard, firmware := "q35", ovmf
	if arch == "arm64" {
		formats, standard, firmware, early = []Format{Image}, "virt", aavmf, earlyARM
	}
	var all []VMM
	for n, s := range []stratovirt{
		// It announces its devices on the kernel's command line, has neither ACPI
		// nor a keyboard controller, and ends at a triple fault.
		{name: "microvm", machine: "microvm", bus: "device", serial: serial, early: early, append: []string{"pci=off", "reboot=t", "tare_off=reset"}},
		{name: standard, machine: standard, bus: "pci", serial: serial, early: early, uefi: firmware},
	} {
		modules, symbols := []string{"virtio_mmio", "virtio_console", "virtio_blk"}, []string{"VIRTIO_MMIO_CMDLINE_DEVICES", "VIRTIO_CONSOLE"}
		if s.bus == "pci" {
			modules[0], symbols[0] = "virtio_pci", "VIRTIO_PCI"
		} else if arch == "arm64" { // the device tree names them
			symbols[0] = "VIRTIO_MMIO"
		}
		all = append(all, VMM{
			Offers: stratovirtAbilities(),
			Name:   "stratovirt/" + s.name, Binary: "stratovirt", Version: []string{"-version"},
			Remedy:  "apt-get install cargo git libpixman-1-dev libcap-ng-dev libseccomp-dev; git clone https://gitee.com/openeuler/stratovirt && cd stratovirt && cargo build --release --bin stratovirt && install target/release/stratovirt /usr/local/bin",
			Formats: formats, Modules: modules, Symbols: symbols, StartTime: 500 * time.Millisecond, Order: 620 + 10*n, plan: s.plan,
		})
	}
	return all
}

// stratovirtAbilities are those of all its machines (docs/config_guidebook.md and
// docs/qmp.md there).
func stratovirtAbilities() Abilities {
	return Abilities{Has: map[Ability]string{
		Uncached: "`direct=on`", Restoring: "`migrate` to `file:`, `-incoming`", Reporting: "`virtio-balloon`", Ballooning: "`virtio-balloon`, QMP's `balloon`",
		Threading: "`-object iothread`", Vhost: "`vhost=on`",
	}, Lacks: map[Ability]string{
		Emulating: "KVM alone", SelfBooting: "tare boots it with a kernel alone", PrivateCopies: "what a guest writes goes into the file", Cloning: "not in its documentation",
		Plugging: "tare does not use its virtio-mem", HugePages: "tare mounts no hugetlbfs for its `-mem-path`", Merging: "it offers none", SharingFiles: "tare does not use its `vhost-user-fs`",
	}}
}

func (s stratovirt) plan(m Machine) (plan, error) {
	p := plan{console: plug{socket: "console", dial: true}, control: plug{socket: "qmp", dial: true}, protocol: dialQMP, save: stratovirtSave, adjust: adjustQMP}
	if m.Devices.PageReporting && (m.SaveTo != "" || m.From != "") {
		return p, errors.New("stratovirt saves no guest that has a balloon (free page reporting)")
	}
	args := []string{
		"-machine", s.machine, "-smp", fmt.Sprint(m.CPUs), "-m", fmt.Sprintf("%dM", mebibytes(m.Memory)), "-kernel", m.Kernel.Path,
		"-qmp", "unix:qmp,server,nowait",
		// Not stdio: that takes a terminal.
		"-serial", "socket,path=console,server,nowait",
	}
	if m.NoSeccomp {
		args = append(args, "-disable-seccomp")
	}
	if m.From != "" { // it runs at once
		args = append(args, "-incoming", "file:"+m.From)
	}
	if m.Initrd != "" {
		args = append(args, "-initrd", m.Initrd)
	}
	thread := ""
	if m.Devices.IOThread {
		args, thread = append(args, "-object", "iothread,id="+ioThread), ",iothread="+ioThread
	}
	slot := 1
	on := func() string { // the place of a device on the bus
		if s.bus != "pci" {
			return ""
		}
		slot++
		return fmt.Sprintf(",bus=pcie.0,addr=0x%x", slot)
	}
	if s.uefi != nil {
		firmware := m.Firmware
		if firmware == "" {
			var err error
			if firmware, err = s.uefi.find(); err != nil {
				return p, err
			}
		}
		args = append(args, "-drive", "file="+firmware+",if=pflash,unit=0,readonly=true")
		p.firmware = uefiTime
	}
	for i, d := range m.Disks {
		if err := noComma(d.Path); err != nil {
			return p, err
		}
		args = append(args, "-drive", fmt.Sprintf("id=disk%d,file=%s,readonly=%s,direct=%s", i, d.Path, onOff(d.ReadOnly), onOff(d.Direct)),
			"-device", fmt.Sprintf("virtio-blk-%s,id=blk%d,drive=disk%d%s%s", s.bus, i, i, thread, on()))
	}
	parameters := append([]string{"console=" + s.serial, "earlycon=" + s.early}, s.append...)
	if n := m.NIC; n != nil {
		args = append(args, "-netdev", "tap,id=net0,ifname="+n.Tap+vhost(m), "-device", fmt.Sprintf("virtio-net-%s,id=nic0,netdev=net0,mac=%s%s", s.bus, n.Hardware, on()))
	}
	if d := m.Devices; d.PageReporting || d.Balloon > 0 {
		balloon := "virtio-balloon-" + s.bus + ",id=balloon0"
		if d.PageReporting {
			balloon += ",free-page-reporting=true"
		}
		args = append(args, "-device", balloon+on())
	}
	if m.Agent {
		// Its ports have no names. On microvm there is one, number 0, which only a
		// console may have.
		port, way := "virtserialport,id=agent,chardev=port,nr=1", "dev:/dev/vport0p1"
		if s.bus != "pci" {
			port, way = "virtconsole,id=agent,chardev=port,nr=0", "tty:/dev/hvc0"
		}
		args = append(args, "-device", "virtio-serial-"+s.bus+",id=serial0"+on(),
			"-chardev", "socket,path=port,id=port,server,nowait", "-device", port)
		p.channels = []plug{{socket: "port", dial: true, way: way}}
		parameters = append(parameters, ways(p.channels))
	}
	p.args = append(args, "-append", strings.Join(append(parameters, m.Append...), " "))
	return p, nil
}

func stratovirtSave(ctx context.Context, c control, m Machine) error {
	q := c.(*qmp)
	return q.bounded(ctx, func() error { return q.saveQMP(ctx, "file:"+m.SaveTo) })
}
