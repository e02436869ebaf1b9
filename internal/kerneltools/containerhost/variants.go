package containerhost

import (
	"cmp"
	"encoding/json"
	"fmt"
	"time"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/driver/bundle"
	"github.com/tarelab/tare/internal/kerneltools/trim"
	"github.com/tarelab/tare/internal/vmm"
)

// arm is one way to boot the container host and to start containers in it.
type arm struct {
	name    string           // after "vm/"
	machine string           // its VMM
	packed  trim.Compression // of the trimmed kernel; "" is the distribution's kernel with its initramfs
	image   string           // the file of another kernel than that
	systemd bool             // the first process; else it is the agent
	engine  bool             // which the agent starts
	run     func(spec driver.Spec) []string
	append  []string
	why     string

	way     trim.Way // "" is bottom-up; top-down starts from the distribution's configuration
	symbols []string // of the kernel beside what hosts need, as "PARPORT" or "PRINTK=n"
	needs   []string // of the kernel beside hostNeeds
	objects []string // of the kernel's build, which lie apart by these words; nil: with those of other arms
	lacks   []string // those of hostNeeds, or included by them, that the kernel goes without
	initrd  initrd   // of a trimmed kernel
	cpus    int      // 0: as many as the host's
	memory  int64    // 0: hostMemory, or what the user says
	code    string   // vmm.Machine.Code
	// lever: one change of trimmed-crun. That its container acts is its proof, but
	// where proof says that containers of an engine are at stake.
	lever bool
	proof bool
}

// initrd is a minimal initramfs; "" is none.
type initrd string

// The minimal initramfs: the agent, or busybox, whose shell mounts the disk and
// starts the agent on it.
const (
	agentInitrd   initrd = "agent"
	busyboxInitrd initrd = "busybox"
)

// toProve reports whether the arm's kernel is put to the proof.
func (a arm) toProve() bool { return !a.lever || a.proof }

// stock reports whether the arm boots what the distribution ships.
func (a arm) stock() bool { return a.packed == "" && a.image == "" }

// usual is about how long an arm takes to its container under emulation, for the
// estimate of a run's length.
func (a arm) usual() time.Duration {
	switch {
	case a.systemd:
		return 30 * time.Second
	case a.engine:
		return 15 * time.Second
	}
	return 3 * time.Second
}

// arms are all of them, the control first.
func arms() []arm {
	return append([]arm{
		{name: "stock", machine: vmm.QEMUQ35, systemd: true, run: dockerRun,
			why: "the distribution's cloud kernel, its initramfs, systemd, Docker"},
		{name: "trimmed", machine: vmm.QEMUQ35, packed: "lz4", systemd: true, run: dockerRun,
			why: "a kernel of what containers need, no initramfs; the same disk"},
		{name: "trimmed-masked", machine: vmm.QEMUQ35, packed: "lz4", systemd: true, run: dockerRun, append: masks(),
			why: "and without the units that no container needs"},
		{name: "trimmed-lean", machine: vmm.QEMUQ35, packed: "lz4", systemd: true, run: dockerRun, append: append(masks(), "systemd.mask=containerd.service", leanEngine),
			why: "and dockerd told what it would look for: its storage driver, cgroups without systemd, no proxy for ports, a containerd of its own without Kubernetes' part"},
		{name: "trimmed-engine", machine: vmm.QEMUQ35, packed: "lz4", engine: true, run: engineRun,
			why: "no systemd: tare's agent is the first process and starts dockerd"},
		{name: "trimmed-runc", machine: vmm.QEMUQ35, packed: "lz4", run: runtimeRun("runc"),
			why: "no engine: the agent starts runc"},
		{name: "trimmed-crun", machine: vmm.QEMUQ35, packed: "lz4", run: runtimeRun("crun"),
			why: "no engine: the agent starts crun"},
		{name: "trimmed-pvh", machine: vmm.QEMUQ35, packed: "none", systemd: true, run: dockerRun,
			why: "the kernel as an ELF image, which nothing has to unpack"},
		{name: "trimmed-microvm", machine: vmm.QEMUMicroVM, packed: "none", systemd: true, run: dockerRun,
			why: "and on a machine without PCI"},
		{name: "topdown", machine: vmm.QEMUQ35, packed: "lz4", systemd: true, run: dockerRun, way: trim.TopDown,
			why: "the distribution's configuration without its modules and without what costs, and with what containers need"},
	}, levers()...)
}

// levers are single changes of trimmed-crun, each as an arm of its own.
func levers() []arm {
	security := []string{"SECURITY", "SECURITYFS", "AUDIT"}
	all := []arm{
		{name: "elf", packed: "none", why: "the kernel as an ELF image, started by PVH: nothing unpacks it"},
		{name: "zstd", packed: "zstd", why: "the kernel packed with zstd"},
		{name: "gzip", packed: "gzip", why: "the kernel packed with gzip"},
		{name: "xz", packed: "xz", why: "the kernel packed with xz"},
		{name: "microvm", machine: vmm.QEMUMicroVM, packed: "none", why: "a machine without PCI and firmware's tables; the kernel as an ELF image"},
		{name: "initrd", initrd: agentInitrd, symbols: []string{"BLK_DEV_INITRD"}, why: "a minimal initramfs: the agent, which mounts the disk"},
		{name: "initrd-busybox", initrd: busyboxInitrd, symbols: []string{"BLK_DEV_INITRD"}, why: "a minimal initramfs: that of tare trim build --initrd busybox, whose shell mounts the disk and starts the agent"},
		{name: "quiet", append: []string{"quiet", "loglevel=0"}, why: "the kernel says nothing on the console"},
		{name: "no-printk", symbols: []string{"PRINTK=n"}, why: "the kernel says nothing at all: its marks are the agent's alone"},
		{name: "one-cpu", cpus: 1, why: "one virtual CPU"},
		{name: "small", memory: 256 << 20, why: "256 MiB of memory"},
		{name: "large", memory: 4 << 30, why: "4 GiB of memory"},
		{name: "calibrated", append: []string{"lpj=0"}, why: "each CPU's speed is measured, which a parameter says elsewhere"},
		{name: "no-netfilter", lacks: []string{"netfilter", "iptables", "nftables"}, symbols: []string{"NETFILTER=n", "BRIDGE_NETFILTER=n"}, proof: true, why: "no packet filter: crun's container does without, and the proof must refuse it"},
		{name: "rtc", symbols: []string{"RTC_CLASS", "RTC_HCTOSYS=n", "RTC_DRV_CMOS=n"}, why: "the classes of clocks, and no driver"},
		{name: "rtc-cmos", symbols: []string{"RTC_CLASS", "RTC_HCTOSYS=n", "RTC_DRV_CMOS"}, why: "the PC's clock, not asked for the time at boot"},
		{name: "rtc-hctosys", symbols: []string{"RTC_CLASS", "RTC_HCTOSYS", "RTC_DRV_CMOS"}, why: "the PC's clock, asked for the time at boot"},
		{name: "usb", symbols: []string{"USB_SUPPORT", "USB", "USB_XHCI_HCD", "USB_EHCI_HCD", "USB_UHCI_HCD", "USB_STORAGE", "SCSI"}, why: "USB with its controllers and disks"},
		{name: "parport", symbols: []string{"PARPORT", "PARPORT_PC", "PRINTER"}, why: "parallel ports"},
		{name: "apparmor", symbols: append([]string{"SECURITY_APPARMOR", `LSM="apparmor"`}, security...), why: "AppArmor built in and on"},
		{name: "apparmor-off", symbols: append([]string{"SECURITY_APPARMOR", `LSM="apparmor"`}, security...), append: []string{"apparmor=0"}, why: "AppArmor built in, and off by a parameter"},
		{name: "selinux", symbols: append([]string{"SECURITY_SELINUX", "SECURITY_NETWORK", `LSM="selinux"`}, security...), why: "SELinux built in and on, without a policy"},
		{name: "selinux-off", symbols: append([]string{"SECURITY_SELINUX", "SECURITY_NETWORK", "SECURITY_SELINUX_BOOTPARAM", `LSM="selinux"`}, security...), append: []string{"selinux=0"}, why: "SELinux built in, and off by a parameter"},
		{name: "no-smp", cpus: 1, symbols: []string{"SMP=n"}, why: "one virtual CPU, and a kernel that knows no other"},
		{name: "hardened", needs: []string{"hardening"}, why: "mitigations of the CPU's faults, address randomisation, hardened copies and stacks"},
		{name: "hardened-off", needs: []string{"hardening"}, append: []string{"mitigations=off", "nokaslr"}, why: "the same, and off by parameters"},
	}
	for i := range all {
		a := &all[i]
		a.name, a.lever, a.run = "lever-"+a.name, true, runtimeRun("crun")
		a.machine, a.packed = cmp.Or(a.machine, vmm.QEMUQ35), cmp.Or(a.packed, "lz4")
	}
	return all
}

// masked are the units that cost boot time and that containers do without: clean-up
// and update timers, terminals, logins, modules of a kernel that has none, and the
// other engine, Podman. All of them are named in a kernel's command line, which has
// room for 2047 letters: units that skip themselves in such a kernel are not here.
var masked = []string{
	"apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer", "e2scrub_all.timer", "e2scrub_reap.service", "fstrim.timer",
	"systemd-tmpfiles-clean.timer", "getty@tty1.service", "serial-getty@ttyS0.service", "systemd-logind.service", "systemd-user-sessions.service",
	"systemd-ask-password-wall.path", "systemd-ask-password-console.path", "systemd-update-utmp.service", "systemd-update-utmp-runlevel.service",
	"systemd-random-seed.service", "systemd-modules-load.service", "modprobe@configfs.service", "modprobe@dm_mod.service", "modprobe@drm.service",
	"modprobe@efi_pstore.service", "modprobe@fuse.service", "modprobe@loop.service", "dev-mqueue.mount", "systemd-journal-flush.service",
	"systemd-sysusers.service", "podman.service", "podman.socket", "podman-restart.service", "podman-auto-update.service", "podman-auto-update.timer",
}

func masks() []string {
	var all []string
	for _, unit := range masked {
		all = append(all, "systemd.mask="+unit)
	}
	return all
}

// leanEngine are Docker's options, which its unit takes from the environment that
// systemd gives every unit.
const leanEngine = `systemd.setenv="DOCKER_OPTS=--containerd= --storage-driver=overlay2 --userland-proxy=false --exec-opt=native.cgroupdriver=cgroupfs"`

// Where things lie in the disk of the container host.
const (
	hostAgent   = "/usr/lib/tare/agent"
	hostRootfs  = "/var/lib/tare/rootfs"    // the files of hostImage, for runtimes
	hostArchive = "/var/lib/tare/image.tar" // and for Docker; only until it is loaded
	hostImage   = "tare/workbench:latest"
)

// hostEnv is that of programs in the container host.
var hostEnv = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LC_ALL=C"}

// dockerRun is the payload as a user starts it.
func dockerRun(spec driver.Spec) []string {
	args := []string{"/usr/bin/docker", "run", "--rm"}
	if spec.Stdio.Stdin != nil {
		args = append(args, "-i")
	}
	for _, e := range spec.Env {
		args = append(args, "-e", e)
	}
	if spec.Cwd != "" {
		args = append(args, "-w", spec.Cwd)
	}
	if spec.User != (driver.User{}) {
		args = append(args, "-u", fmt.Sprintf("%d:%d", spec.User.UID, spec.User.GID))
	}
	l := spec.Limits
	if l.CPUs > 0 {
		args = append(args, "--cpus", fmt.Sprint(l.CPUs))
	}
	if l.CPUSet != "" {
		args = append(args, "--cpuset-cpus", l.CPUSet)
	}
	if l.Memory > 0 {
		args = append(args, "--memory", fmt.Sprint(l.Memory))
	}
	if l.Pids > 0 {
		args = append(args, "--pids-limit", fmt.Sprint(l.Pids))
	}
	return append(append(args, hostImage), spec.Args...)
}

// engineScript starts the engine, whose socket takes requests before it can
// answer them, and becomes its arguments.
const engineScript = `dockerd >/run/dockerd.log 2>&1 &
until [ -S /run/docker.sock ]; do sleep 0.05; done
exec "$@"`

func engineRun(spec driver.Spec) []string {
	return append([]string{"/bin/sh", "-c", engineScript, "sh"}, dockerRun(spec)...)
}

// runtimeScript makes a bundle of a configuration, and its container.
const runtimeScript = `mkdir -p /run/bundle && printf %s "$2" >/run/bundle/config.json && exec "$1" run --bundle /run/bundle tare`

func runtimeRun(runtime string) func(driver.Spec) []string {
	return func(spec driver.Spec) []string {
		return []string{"/bin/sh", "-c", runtimeScript, "sh", runtime, string(bundleOf(spec))}
	}
}

// bundleOf is the configuration of a bundle in the container host.
func bundleOf(spec driver.Spec) []byte {
	config, err := json.Marshal(bundle.Config(spec, bundle.Place{Rootfs: hostRootfs, Cgroup: "/tare", Hostname: "tare"}))
	if err != nil {
		panic(err) // it holds numbers and texts alone
	}
	return config
}
