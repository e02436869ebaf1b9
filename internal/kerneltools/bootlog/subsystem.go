package bootlog

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"time"
)

// A Subsystem is a part of the kernel with what the log holds of it.
type Subsystem struct {
	Name      string        `json:"name"`
	Lines     int           `json:"lines"`
	Steps     time.Duration `json:"steps"` // the time before its lines
	Initcalls int           `json:"initcalls"`
	Own       time.Duration `json:"own"` // its initcalls' time without waits
}

// subsystemRules tell a subsystem by the beginning of a line, and by the name
// of an initcall or module. The first that fits wins. A kernel tree tells
// better: see Attribute.
var subsystemRules = []subsystemRule{
	rule("SELinux", `SELinux`, `selinux|selnl|sel_`),
	rule("AppArmor", `AppArmor`, `apparmor|aa_`),
	rule("security", `LSM|Yama|Landlock|TOMOYO|integrity|ima|evm|Security Framework|Key type|keyring|landlock|LoadPin`, `integrity|ima_|evm|key_|.*encrypted|.*trusted|securityfs|yama|tomoyo|init_keys`),
	rule("RTC", `rtc|RTC|hctosys`, `rtc_|cmos_|rtc`),
	rule("USB", `usb|USB|[euox]hci|hub \d|hid`, `usb|[euox]hci|hid_|hub_|xhci`),
	rule("parallel port", `parport|ppdev|lp\d|lp:`, `parport|ppdev|lp_`),
	rule("sound", `snd|ALSA|Advanced Linux Sound|soundcore|sound`, `snd_|alsa|sound|init_soundcore`),
	rule("bluetooth, wireless", `Bluetooth|cfg80211|rfkill|ieee80211|NFC|nfc`, `bt_|cfg80211|rfkill|ieee80211|nfc`),
	rule("graphics", `drm|fbcon|Console: switching|vesafb|efifb|simplefb|\[drm|vga|VGA`, `drm_|fb_|.*fb_init|vga_|fbmem|.*vesafb|.*efifb|agp`),
	rule("input", `input:|i8042|serio|mousedev|psmouse|atkbd`, `i8042|serio|input_|mousedev|psmouse|atkbd|evdev`),
	rule("ACPI", `ACPI|acpi|ACPI:|APIC|IOAPIC|\[Firmware`, `acpi|apei|einj|erst|ghes|bert`),
	rule("PCI", `PCI|pci|pcieport|shpchp|pciehp|acpiphp`, `pci|shpchp|.*quirk`),
	rule("initramfs", `Trying to unpack|Unpacking initramfs|Freeing initrd|RAMDISK`, `populate_rootfs|do_populate_rootfs|.*populate_rootfs`),
	rule("crypto", `alg:|cryptomgr|cryptd|AVX|AES|SSE version|DRBG|alg |raid6|xor:`, `crypto|aes|sha\d|gcm|ghash|cryptd|crc|.*_mod_init|chacha|blake|raid6|drbg|jent|algboss|kdf`),
	rule("netfilter", `nf_|ip_tables|ip6_tables|nft|xt_|Bridge firewalling|ipip|Netfilter|bridge: filtering`, `nf_|ip_tables|ip6_tables|nft_|xt_|ipt_|iptable|br_netfilter|nfnetlink`),
	rule("network", `NET:|TCP|UDP|IPv6|IPv4|IP |Initializing XFRM|bridge|veth|docker0|eth\d|virtio_net|e1000|Segment Routing|mip6|sit|tun:|MPTCP|RPC`, `inet|ip_|ipv6|tcp|udp|net_|netlink|.*_net_|bridge|veth|br_|xfrm|sock|neigh|fib_|genl|ethtool|unix|packet|virtio_net|bpf_sk|sit_|tun_|dev_`),
	rule("audit", `audit`, `audit`),
	rule("block, disks", `sd |sd\d|scsi|SCSI|ata\d|libata|ahci|nvme|loop|virtio_blk|vd[a-z]|Floppy|fd0|md:|device-mapper|io scheduler|brd|zram|sr\d`, `scsi|sd_|ata_|ahci|nvme|loop|virtio_blk|blk|floppy|md_|dm_|sr_|iosched|elevator|.*_deadline|bfq|kyber|genhd|sg_`),
	rule("file systems", `EXT4|XFS|SGI XFS|Btrfs|BTRFS|VFS|squashfs|overlay|fuse|JFS|NFS|FS-Cache|devtmpfs|9p`, `ext4|xfs|btrfs|fuse|nfs|ovl|squashfs|.*fs_init|jbd2|isofs|fs_|init_.*fs|journal_init|fat|vfat`),
	rule("virtio", `virtio|vdso-virtio`, `virtio`),
	rule("serial, tty", `Serial|serial|ttyS|tty|printk: console|printk: legacy|8250`, `serial|tty|pty|8250|univ8250|n_tty|hvc`),
	rule("memory", `Memory|mem auto-init|BIOS-|e820|Zone|node|Movable|SLUB|HugeTLB|Built \d|DMA|percpu|Dentry|Inode|Mount-cache|PM:|Zone ranges|reserve|init_memory|page_owner|zswap|zbud|software IO`, `kswapd|init_zero|.*slab|vmstat|hugetlb|mm_|memory|shmem|.*cma|ksm|khugepaged|zswap|init_.*cache`),
	rule("CPU, timers", `x86|smp|CPU|tsc|clocksource|TSC|hpet|Calibrating|Spectre|rcu|RCU|sched|smpboot|MDS|Speculative|microcode|kvm|mce|Performance|time|timer|NMI|FPU|signal|SRBDS|TAA|MMIO|Retbleed`, `.*cpu|mce|.*timer|rcu|sched|clocksource|hpet|tsc|microcode|perf|intel|amd|kvm|mtrr|init_hw_perf|.*clock.*|.*thermal`),
	rule("tracing", `ftrace|Kprobes|trace|Testing`, `trace|ftrace|event|.*kprobe|init_trace|bpf`),
}

type subsystemRule struct {
	name       string
	line, call *regexp.Regexp
}

func rule(name, line, call string) subsystemRule {
	return subsystemRule{name, regexp.MustCompile(`^(?:` + line + `)`), regexp.MustCompile(`^(?:` + call + `)`)}
}

const other = "other"

func subsystemOfLine(text string) string {
	for _, r := range subsystemRules {
		if r.line.MatchString(text) {
			return r.name
		}
	}
	return other
}

// Part is the part of the kernel that the call starts.
func (c Initcall) Part() string {
	for _, r := range subsystemRules {
		if r.call.MatchString(c.shortName()) || c.Module != "" && r.call.MatchString(c.Module) {
			return r.name
		}
	}
	return other
}

// subsystems sums up, the costliest first: by the initcalls' own time where
// there are any, then by the time before the lines.
func subsystems(b *Boot, calls []Initcall) []Subsystem {
	sum := map[string]*Subsystem{}
	of := func(name string) *Subsystem {
		if sum[name] == nil {
			sum[name] = &Subsystem{Name: name}
		}
		return sum[name]
	}
	var before time.Duration
	for i, l := range b.Lines {
		if i == 0 {
			before = l.At // how long the machine was up before the log begins is no step
		}
		took := max(l.At-before, 0)
		before = l.At
		if l.Source != "" || isTrace(l.Text) {
			continue
		}
		s := of(subsystemOfLine(l.Text))
		s.Lines++
		s.Steps += took
	}
	for _, c := range calls {
		s := of(c.Part())
		s.Initcalls++
		s.Own += c.Own
	}
	var out []Subsystem
	for _, s := range sum {
		out = append(out, *s)
	}
	slices.SortFunc(out, func(x, y Subsystem) int {
		return cmp.Or(cmp.Compare(y.Own, x.Own), cmp.Compare(y.Steps, x.Steps), strings.Compare(x.Name, y.Name))
	})
	return out
}

// isTrace says that a line is there only because of initcall_debug.
func isTrace(text string) bool {
	return calling.MatchString(text) || returned.MatchString(text) || probed.MatchString(text) || strings.HasPrefix(text, "async_") || strings.HasPrefix(text, "entering initcall level")
}
