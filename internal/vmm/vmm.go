// Package vmm makes and runs virtual machines: from the description of a
// machine to a VMM's command line or API, and the channels between the two: the
// console, the control channel, and the one over which a guest's agent talks.
// It knows nothing of payloads; driver/vm runs those. What is peculiar to one VMM
// is in the files with its name.
package vmm

import (
	"context"
	"fmt"
	"maps"
	"net"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/tarelab/tare/internal/driver"
)

// Accel is how a guest's instructions are executed.
type Accel string

// The accelerators.
const (
	KVM Accel = "kvm" // by the CPU itself
	TCG Accel = "tcg" // translated by QEMU
)

// Machine describes a virtual machine.
type Machine struct {
	Kernel Kernel   // in a format that the VMM loads, see VMM.Kernel; none for Alone
	Initrd string   // path of the initramfs; "" for none
	Append []string // kernel parameters, beside those that the VMM's machine needs
	CPUs   int      // virtual; at least 1
	Memory int64    // of the guest, in bytes
	Disks  []Disk
	Alone  *Alone // it boots from its first disk; nil for a machine with a kernel
	// Firmware is the file of a machine's that boots by UEFI; "" is where the
	// distribution has it.
	Firmware string
	Accel    Accel
	NIC      *NIC // a link to the outside; nil for none
	// Translations is how much translated code an emulating VMM may keep, in bytes;
	// 0 is what one small program needs. What does not fit is translated again.
	Translations int64
	// Code is the path of a named pipe that gets the code of the guest's kernel, each block
	// when it is first run, for ReadCode; "" for none. It takes an emulating QEMU.
	Code        string
	Agent       bool // the guest has tare's agent (helpers/init.c): give it a channel
	Devices     driver.Devices
	Share       string // a directory of the host's that the guest sees by virtio-fs; "" for none
	ShareDirect bool   // its files are accessed past the host's page cache where the guest asks for that
	NoSeccomp   bool   // the VMM's own filters of system calls are off
	// SaveTo is the absolute path of an existing empty directory that VM.Save saves the
	// guest to; "" for a guest that is not saved.
	SaveTo string
	// From is the absolute path of a directory that a guest of the same machine was
	// saved to. This one is restored from it and not booted. "" for a boot.
	From    string
	options string // what the program says of its options (VMM.Options)
}

// Modules are those of the guest's kernel for its devices and its shared directory.
func (m Machine) Modules() []string {
	var all []string
	if m.Devices.PageReporting || m.Devices.Balloon > 0 {
		all = append(all, "virtio_balloon")
	}
	if m.Share != "" || m.Devices.VirtioFS {
		all = append(all, "virtiofs")
	}
	if m.NIC != nil {
		all = append(all, "virtio_net")
	}
	return all
}

// Takes says why a VMM cannot have a machine, with a CannotError; nil where it can.
func (v VMM) Takes(m Machine) error {
	_, err := v.planned(m)
	return err
}

// ask has the program at path tell what the plan of a machine depends on.
func (v VMM) ask(ctx context.Context, path string, m *Machine) error {
	if v.Options == nil || len(m.Disks) == 0 {
		return nil
	}
	out, err := exec.CommandContext(ctx, path, v.Options...).Output()
	if err != nil {
		return fmt.Errorf("%s %s: %w", path, strings.Join(v.Options, " "), err)
	}
	m.options = string(out)
	return nil
}

// planned is the plan of a machine, or a CannotError.
func (v VMM) planned(m Machine) (plan, error) {
	if err := v.cannot(m); err != nil {
		return plan{}, err
	}
	if m.Code != "" && !v.Can(Emulating) {
		return plan{}, &driver.CannotError{Target: v.Name, Lacks: "it emulates no guest, whose code could be seen"}
	}
	p, err := v.plan(m)
	if err != nil {
		return p, &driver.CannotError{Target: v.Name, Lacks: err.Error()}
	}
	return p, nil
}

// NIC is a link behind virtio-net, whose other end is a tap device of the network
// namespace that the VMM runs in.
type NIC struct {
	Tap      string
	Hardware net.HardwareAddr
}

// Disk is an image behind virtio-blk: /dev/vda and so on.
type Disk struct {
	Path     string
	Qcow2    bool // it has QEMU's format, which QEMU alone takes; else it is raw
	ReadOnly bool // what the guest writes is refused
	Own      bool // the file is this machine's own: what the guest writes goes into it; without either, into a private copy that is lost
	Direct   bool // the host's page cache is passed by (O_DIRECT), by VMMs that can; the file system must, too
}

// earlyX86 is the first serial port of a PC, from before its driver: without it the
// kernel's first words come when the driver does.
const earlyX86 = "uart8250,io,0x3f8"

// earlyARM is the same of the virtual ARM machines that QEMU began.
const earlyARM = "pl011,0x9000000"

// uefiTime is what UEFI firmware may take before it starts a kernel.
const uefiTime = 20 * time.Second

// noComma refuses a path that would end an option, where a VMM has no way to write it.
func noComma(path string) error {
	if strings.Contains(path, ",") {
		return fmt.Errorf("it takes no disk with a comma in its path: %s (set XDG_CACHE_HOME or --state to another)", path)
	}
	return nil
}

// onOff is how command lines say whether.
func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

// VMM is one machine type of one virtual machine monitor.
type VMM struct {
	Name      string   // "qemu/microvm"
	Arch      string   // of its guests, as GOARCH has it
	Binary    string   // looked for in PATH
	Remedy    string   // how it is installed
	Version   []string // arguments that make it print its version
	Banner    string   // what it prints before the version; "" for nothing
	Options   []string // arguments that make it list its options, where releases differ in one that disks need; nil where they do not
	Formats   []Format // of kernels that it loads, the fastest first
	Modules   []string // that a guest needs here where its kernel has them not built in
	Symbols   []string // of a kernel's configuration, without which a guest finds no channel here
	MaxCPUs   int      // 0: any number
	Offers    Abilities
	StartTime time.Duration
	Order     int

	// plan turns a machine into a command line. It runs nothing. Its error says why the
	// VMM cannot have the machine.
	plan func(m Machine) (plan, error)
}

// plan is how a machine is started and talked to. Its sockets are named
// relative to the machine's directory, in which the VMM runs: a path of any
// length fits into an address so.
type plan struct {
	args     []string
	files    map[string][]byte // written into the machine's directory, by name
	helpers  []helper          // that run beside the VMM, each before it
	initrd   string            // copied in whole pages to initrdName in that directory; "" for none
	console  plug
	control  plug
	channels []plug        // the agent comes on one of them
	firmware time.Duration // that may pass before the kernel, beside what every machine has
	protocol func(context.Context, net.Conn, Machine) (control, error)
	save     func(context.Context, control, Machine) error             // pauses the guest and saves it to Machine.SaveTo
	adjust   func(context.Context, control, Machine, func(Mark)) error // changes the guest's memory once its agent runs, while control is watched; nil for VMMs that cannot
	restore  func(context.Context, control, Machine) error             // returns when the guest of Machine.From runs; nil where the command line does that
}

// helper is a program that serves a device of the VMM.
type helper struct {
	args   []string // of which the first is its path
	socket string   // that it listens on
}

// plug is one connection with the VMM.
type plug struct {
	socket string // name of the Unix socket; "" is the VMM's standard output
	dial   bool   // the VMM listens; else tare does, and the VMM connects
	way    string // of a channel: what helpers/init.c knows it by
}

// control is a VMM's control channel once it works. Its connection is closed with the
// machine.
type control interface {
	// watch returns when the VMM has reported that the guest cannot go on, with
	// what it said, or when the connection has ended, with nil.
	watch() error
}

// Architectures are those that tare is made for, by Go's names.
var Architectures = []string{"amd64", "arm64", "loong64", "mips64le", "riscv64"}

// VMMs are those that tare knows for this architecture, the usual one first.
func VMMs() []VMM { return For(runtime.GOARCH) }

// For are those that it knows for an architecture.
func For(arch string) []VMM {
	all := slices.Concat(qemus(arch), stratovirts(arch), firecrackers(arch), cloudHypervisors(arch))
	for i := range all {
		all[i].Arch = arch
	}
	return all
}

// Foreign are the names of those that it knows for other architectures than this
// one alone, each with these.
func Foreign(arch string) map[string][]string {
	all := map[string][]string{}
	for _, other := range Architectures {
		for _, v := range For(other) {
			all[v.Name] = append(all[v.Name], other)
		}
	}
	maps.DeleteFunc(all, func(_ string, of []string) bool { return slices.Contains(of, arch) })
	return all
}

// ByName finds a VMM of this architecture.
func ByName(name string) (VMM, bool) {
	all := VMMs()
	i := slices.IndexFunc(all, func(v VMM) bool { return v.Name == name })
	if i < 0 {
		return VMM{}, false
	}
	return all[i], true
}

// Kernel gives k in a format that the VMM loads, unpacked below dir where that
// takes it there.
func (v VMM) Kernel(ctx context.Context, k Kernel, dir string) (Kernel, error) {
	if err := k.fits(v.Arch); err != nil {
		return k, err
	}
	if k.Format == Gzip {
		var err error
		if k, err = k.unpacked(ctx, dir); err != nil {
			return k, err
		}
	}
	if k.Format == v.Formats[0] {
		return k, nil
	}
	inner, err := k.unpacked(ctx, dir)
	for _, want := range v.Formats {
		switch {
		case err == nil && inner.Format == want:
			return inner, nil
		case k.Format == want:
			return k, nil
		}
	}
	if err != nil {
		return k, err
	}
	return k, fmt.Errorf("kernel %s is a %s (with a %s in it), and %s loads %v", k.Path, k.Format, inner.Format, v.Name, v.Formats)
}

// ways are the channels as the agent is told them.
func ways(channels []plug) string {
	var all []string
	for _, c := range channels {
		all = append(all, c.way)
	}
	return "tare_channel=" + strings.Join(all, ",")
}

// Mapped is the size of the mapping that is the guest's memory, in bytes: VMMs take
// whole mebibytes.
func (m Machine) Mapped() int64 { return mebibytes(m.Memory) << 20 }

// mebibytes rounds memory up.
func mebibytes(bytes int64) int64 { return (bytes + 1<<20 - 1) >> 20 }
