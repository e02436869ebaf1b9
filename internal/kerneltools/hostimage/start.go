package hostimage

import (
	"encoding/json"
	"encoding/xml"
	"path/filepath"
	"strings"
	"text/template"
)

// The network address of the guest on monitors that ask for one: locally
// administered, and the same in each start file, as one of them runs at a time.
const hardware = "52:54:00:74:61:72"

// defaultMemory is that of the start files, in MiB.
const defaultMemory = 1024

// starter is what the templates of the start files know.
type starter struct {
	Disk, Stem, Raw, Dir string
	Format               string
	Parameters           string // of the kernel
	Hardware             string
	Memory               int
	Bare                 bool // the disk is raw
}

const qemuStart = `#!/bin/sh
# Starts {{.Disk}} on QEMU, with the serial console on this terminal (Ctrl-A X ends it)
# and the machine's SSH on a port of this one:
#
#   ssh -p 2222 root@127.0.0.1
#   docker -H ssh://root@127.0.0.1:2222 run --rm hello-world     # an image with Docker
#
# PORT, MEMORY (MiB), CPUS and ACCEL (kvm, tcg or kvm:tcg) may be set. More arguments go
# to QEMU: -snapshot keeps what is written apart, and throws it away.
cd "$(dirname "$0")" || exit 1
accel=${ACCEL:-kvm:tcg}
emulated=
if [ "$accel" = tcg ] || ! (: </dev/kvm) 2>/dev/null; then
	emulated=" clearcpuid=141" # cmpxchg16b, after which QEMU's emulation may leave any flags: programs still find it
fi
exec qemu-system-x86_64 -nodefaults -no-user-config -display none -serial mon:stdio \
	-machine "q35,accel=$accel" -cpu max -smp "${CPUS:-2}" -m "${MEMORY:-{{.Memory}}}" \
	-kernel {{.Stem}}.vmlinuz -append "{{.Parameters}}$emulated" \
	-drive if=none,id=root,file={{.Disk}},format={{.Format}} -device virtio-blk-pci,drive=root \
	-netdev "user,id=net0,hostfwd=tcp:127.0.0.1:${PORT:-2222}-:22" -device virtio-net-pci,netdev=net0,romfile= \
	-device virtio-rng-pci "$@"
`

// rawDisk makes the raw disk that a monitor takes, once. What a start has written to it is
// not thrown away for a packed disk that was made anew.
const rawDisk = `{{define "raw"}}{{if not .Bare}}if [ ! -e {{.Raw}} ]; then
	(umask 077 && qemu-img convert -f {{.Format}} -O raw {{.Disk}} {{.Raw}}) || exit 1
elif [ {{.Disk}} -nt {{.Raw}} ]; then
	echo "{{.Disk}} is newer than {{.Raw}}, which earlier starts have written to: remove {{.Raw}} to start from {{.Disk}}, or touch it to keep it" >&2
	exit 1
fi
{{end}}{{end}}`

const stratovirtStart = `#!/bin/sh
# Starts {{.Raw}} on StratoVirt's microvm, with the serial console on this terminal. It
# needs KVM, and a tap device with DHCP behind it:
#
#   ip tuntap add tap0 mode tap && ip link set tap0 master BRIDGE up
#
# TAP, MEMORY (MiB) and CPUS may be set; more arguments go to StratoVirt.
cd "$(dirname "$0")" || exit 1
{{template "raw" .}}exec stratovirt -machine microvm -smp "${CPUS:-2}" -m "${MEMORY:-{{.Memory}}}" -kernel {{.Stem}}.vmlinuz \
	-append "pci=off reboot=t {{.Parameters}}" \
	-drive id=root,file={{.Raw}},readonly=off,direct=off -device virtio-blk-device,id=blk0,drive=root \
	-netdev "tap,id=net0,ifname=${TAP:-tap0}" -device virtio-net-device,id=nic0,netdev=net0,mac={{.Hardware}} \
	-serial stdio "$@"
`

const cloudHypervisorStart = `#!/bin/sh
# Starts {{.Disk}} on Cloud Hypervisor, with the serial console on this terminal. It
# needs KVM, and a tap device with DHCP behind it:
#
#   ip tuntap add tap0 mode tap && ip link set tap0 master BRIDGE up
#
# TAP, MEMORY (MiB) and CPUS may be set; more arguments go to Cloud Hypervisor.
cd "$(dirname "$0")" || exit 1
{{template "raw" .}}# From 50.1 on it must be told, else the guest may not write to the first sector; before,
# it does not know the word.
raw=
cloud-hypervisor --help 2>/dev/null | grep -q image_type= && raw=,image_type=raw
exec cloud-hypervisor --kernel {{.Stem}}.vmlinux --cmdline "{{.Parameters}}" \
	--cpus "boot=${CPUS:-2}" --memory "size=${MEMORY:-{{.Memory}}}M" --disk "path={{.Raw}}$raw" \
	--net "tap=${TAP:-tap0},mac={{.Hardware}}" --serial tty --console off "$@"
`

// libvirtStart has the whole path of the disk, which libvirt asks for.
const libvirtStart = `<!-- virsh define THIS-FILE, virsh start NAME, virsh domifaddr NAME for its address.
     The disk's path is that of the machine where it was made: change it with the disk.
     Where there is no KVM, say type='qemu' in the next line. -->
<domain type='kvm'>
  <name>{{xml .Stem}}</name>
  <memory unit='MiB'>{{.Memory}}</memory>
  <vcpu>2</vcpu>
  <os>
    <type arch='x86_64' machine='q35'>hvm</type>
    <boot dev='hd'/>
  </os>
  <features>
    <acpi/>
    <apic/>
  </features>
  <on_reboot>restart</on_reboot>
  <devices>
    <disk type='file' device='disk'>
      <driver name='qemu' type='{{.Format}}'/>
      <source file='{{xml (path .Dir .Disk)}}'/>
      <target dev='{{if or (eq .Format "vmdk") (eq .Format "vdi")}}sda' bus='sata{{else}}vda' bus='virtio{{end}}'/>
    </disk>
    <interface type='network'>
      <source network='default'/>
      <model type='virtio'/>
    </interface>
    <serial type='pty'/>
    <console type='pty'/>
    <rng model='virtio'>
      <backend model='random'>/dev/urandom</backend>
    </rng>
  </devices>
</domain>
`

// starts are the start files of a disk, by their ending.
func starts(disk, dir string, o Options) (map[string]string, error) {
	stem := strings.TrimSuffix(disk, filepath.Ext(disk))
	s := starter{Disk: disk, Stem: stem, Raw: stem + ".raw", Dir: dir, Format: o.Format, Hardware: hardware, Memory: defaultMemory,
		Parameters: "console=ttyS0 " + rootParameters}
	if o.Format == "raw" {
		s.Raw, s.Bare = disk, true
	}
	all := map[string]string{}
	for ending, text := range map[string]string{"qemu.sh": qemuStart, "libvirt.xml": libvirtStart, "stratovirt.sh": stratovirtStart, "cloud-hypervisor.sh": cloudHypervisorStart} {
		t, err := template.New(ending).Funcs(template.FuncMap{"xml": escaped, "path": filepath.Join}).Parse(rawDisk + text)
		if err != nil {
			return nil, err
		}
		var out strings.Builder
		if err := t.Execute(&out, s); err != nil {
			return nil, err
		}
		all[ending] = out.String()
	}
	var err error
	all["firecracker.json"], err = s.firecracker()
	return all, err
}

// escaped is a text as it may stand in XML.
func escaped(text string) (string, error) {
	var out strings.Builder
	err := xml.EscapeText(&out, []byte(text))
	return out.String(), err
}

// firecracker is its configuration, for --no-api --config-file, run in the image's
// directory. It loads raw disks alone: another one is converted first.
func (s starter) firecracker() (string, error) {
	type object = map[string]any
	text, err := json.MarshalIndent(object{
		"boot-source":        object{"kernel_image_path": s.Stem + ".vmlinux", "boot_args": "reboot=k pci=off " + s.Parameters},
		"drives":             []object{{"drive_id": "root", "path_on_host": s.Raw, "is_root_device": false, "is_read_only": false}},
		"machine-config":     object{"vcpu_count": 2, "mem_size_mib": s.Memory},
		"network-interfaces": []object{{"iface_id": "eth0", "host_dev_name": "tap0", "guest_mac": s.Hardware}},
	}, "", "  ")
	return string(text) + "\n", err
}
