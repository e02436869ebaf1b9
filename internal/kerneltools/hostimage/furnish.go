package hostimage

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// rootLabel is the name of the root's partition, by which the kernel finds it on any
// bus, and rootParameters are the kernel's in every start.
const (
	rootLabel      = "tare-root"
	rootParameters = "root=PARTLABEL=" + rootLabel + " rootfstype=ext4 rw quiet no_timer_check"
)

// item is a file, or for link a symbolic link, that an image has beside its packages'.
type item struct {
	path string
	mode fs.FileMode
	text string
	link bool
}

// The host's key is made at the first boot, of one kind: RSA's takes seconds where
// the CPU is emulated.
const hostKeyUnit = `[Unit]
Description=Make this machine's SSH host key
ConditionPathExists=!/etc/ssh/ssh_host_ed25519_key
Before=ssh.service
[Service]
Type=oneshot
ExecStart=/usr/bin/ssh-keygen -q -t ed25519 -N "" -C "" -f /etc/ssh/ssh_host_ed25519_key
[Install]
WantedBy=multi-user.target
`

// The kernel mounts the root, writable, by the name of its partition (rootParameters). A
// line of fstab would have systemd mount it again with the same options, and look for that
// name before udev knows it: that failed in one boot of twelve.
const growUnit = `[Unit]
Description=Grow the root file system to its partition
DefaultDependencies=no
Conflicts=shutdown.target
After=systemd-repart.service
Before=local-fs.target shutdown.target
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/lib/systemd/systemd-growfs /
`

const sshSettings = `HostKey /etc/ssh/ssh_host_ed25519_key
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
`

const network = `[Match]
Name=en* eth*
[Network]
DHCP=yes
`

// The engine waits for the network; a machine without one must not wait for long.
const online = `[Service]
ExecStart=
ExecStart=/lib/systemd/systemd-networkd-wait-online --any --timeout=15
`

const autologin = `[Service]
ExecStart=
ExecStart=-/sbin/agetty --autologin root --noclear --keep-baud 115200,57600,38400,9600 - $TERM
`

// screenAutologin is autologin for a screen, which has no speed.
const screenAutologin = `[Service]
ExecStart=
ExecStart=-/sbin/agetty --autologin root --noclear - $TERM
`

// growing is the unit that grows the root file system.
const growing = "grow-root.service"

// screenGetty is the unit that logs in on a screen.
const screenGetty = "getty@tty1.service"

// idle are units that a container host does without: what looks for updates of
// packages, checks of LVM, and modules of a kernel that has none.
var idle = []string{
	"apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer", "e2scrub_all.timer", "e2scrub_reap.service",
	"systemd-modules-load.service", "modprobe@.service", screenGetty, "systemd-pstore.service",
}

// wanted are units that are on, by the target that wants them.
var wanted = map[string]string{
	growing:                                "local-fs.target.wants",
	"ssh-host-key.service":                 "multi-user.target.wants",
	"systemd-networkd.service":             "multi-user.target.wants",
	"systemd-networkd.socket":              "sockets.target.wants",
	"systemd-networkd-wait-online.service": "network-online.target.wants",
}

// items are the files that make an image of a Debian system.
func items(o Options) ([]item, error) {
	units := "/etc/systemd/system/"
	all := []item{
		{path: "/etc/machine-id", mode: 0o444}, // empty: each machine makes its own, and the boot is no first boot of systemd's, which would switch units on and off
		{path: "/var/lib/dbus/machine-id", text: "/etc/machine-id", link: true},
		{path: "/etc/hostname", mode: 0o644, text: o.Hostname + "\n"},
		{path: "/etc/hosts", mode: 0o644, text: "127.0.0.1\tlocalhost\n127.0.1.1\t" + o.Hostname + "\n::1\tlocalhost ip6-localhost\n"},
		{path: "/etc/resolv.conf", text: "../run/systemd/resolve/stub-resolv.conf", link: true},
		{path: "/etc/fstab", mode: 0o644, text: "# The kernel mounts the root (root=), and " + growing + " grows it.\n"},
		{path: units + growing, mode: 0o644, text: growUnit},
		{path: "/etc/repart.d/50-root.conf", mode: 0o644, text: "[Partition]\nType=root\n"},
		{path: "/etc/systemd/network/80-dhcp.network", mode: 0o644, text: network},
		{path: units + "systemd-networkd-wait-online.service.d/tare.conf", mode: 0o644, text: online},
		{path: units + "ssh-host-key.service", mode: 0o644, text: hostKeyUnit},
		{path: "/etc/ssh/sshd_config.d/tare.conf", mode: 0o644, text: sshSettings},
		{path: "/boot/grub/grub.cfg", mode: 0o644, text: grubMenu(o)},
	}
	for _, unit := range idle {
		if o.stock {
			break
		}
		if unit == screenGetty && o.Console && hasScreen(o) {
			continue
		}
		all = append(all, item{path: units + unit, text: "/dev/null", link: true})
	}
	for unit, by := range wanted {
		from := "/lib/systemd/system/" + unit
		if slices.ContainsFunc(all, func(i item) bool { return i.path == units+unit }) {
			from = units + unit
		}
		all = append(all, item{path: units + by + "/" + unit, text: from, link: true})
	}
	keys, err := authorized(o.Keys)
	if err != nil {
		return nil, err
	}
	if keys != "" {
		all = append(all, item{path: "/root/.ssh/authorized_keys", mode: 0o600, text: keys})
	}
	if o.Console {
		all = append(all, item{path: units + "serial-getty@.service.d/tare.conf", mode: 0o644, text: autologin})
		if hasScreen(o) {
			all = append(all, item{path: units + screenGetty + ".d/tare.conf", mode: 0o644, text: screenAutologin})
		}
	} else {
		all = append(all, item{path: units + "serial-getty@.service", text: "/dev/null", link: true})
	}
	return all, nil
}

// furnish puts into a tree what makes it this image, and takes out what each machine
// makes for itself. The tree is Debian's, made by root; nothing in it is a stranger's.
func furnish(tree string, o Options, kernel string) error {
	all, err := items(o)
	if err != nil {
		return err
	}
	hostKeys, err := filepath.Glob(filepath.Join(tree, "etc/ssh/ssh_host_*"))
	if err != nil {
		return err
	}
	for _, key := range append(hostKeys, filepath.Join(tree, "var/lib/systemd/random-seed")) {
		if err := os.Remove(key); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	for _, i := range all {
		if err := i.put(tree); err != nil {
			return err
		}
	}
	if err := os.Chmod(filepath.Join(tree, "root"), 0o700); err != nil {
		return err
	}
	if o.stock {
		return stockBoot(tree)
	}
	image, err := os.ReadFile(kernel)
	if err != nil {
		return err
	}
	return item{path: "/boot/vmlinuz", mode: 0o644, text: string(image)}.put(tree)
}

// stockBoot puts the distribution's kernel and initramfs to where the menu has them.
func stockBoot(tree string) error {
	for from, to := range map[string]string{"vmlinuz-*": "vmlinuz", "initrd.img-*": "initrd"} {
		found, err := filepath.Glob(filepath.Join(tree, "boot", from))
		if err != nil {
			return err
		}
		if len(found) != 1 {
			return fmt.Errorf("boot/%s: %d files, want one", from, len(found))
		}
		if err := os.Rename(found[0], filepath.Join(tree, "boot", to)); err != nil {
			return err
		}
	}
	return nil
}

// put writes an item into a tree, in the place of what is there.
func (i item) put(tree string) error {
	file := filepath.Join(tree, i.path)
	dir := fs.FileMode(0o755)
	if strings.HasPrefix(i.path, "/root/") {
		dir = 0o700
	}
	if err := os.MkdirAll(filepath.Dir(file), dir); err != nil {
		return err
	}
	if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if i.link {
		return os.Symlink(i.text, file)
	}
	if err := os.WriteFile(file, []byte(i.text), i.mode); err != nil {
		return err
	}
	return os.Chmod(file, i.mode) // whatever the umask takes away
}

// grubMenu starts the kernel without asking.
func grubMenu(o Options) string {
	initrd := ""
	if o.stock {
		initrd = "\tinitrd /boot/initrd\n"
	}
	return fmt.Sprintf("set timeout=0\nset default=0\nmenuentry tare {\n\tlinux /boot/vmlinuz %s %s\n%s}\n", consoles(o), rootParameters, initrd)
}

// hasScreen says whether the monitors of a disk's format show a screen; their serial
// port is switched off until somebody adds it.
func hasScreen(o Options) bool { return foreign[o.Format] != nil }

// consoles are the kernel's: the last one is /dev/console.
func consoles(o Options) string {
	if hasScreen(o) {
		return "console=ttyS0 console=tty0"
	}
	return "console=ttyS0"
}
