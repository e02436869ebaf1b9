package net

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unsafe"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/tarelab/tare/internal/sys"
)

// tune sets what the options say of every link of the laboratory.
func (l *Lab) tune() error {
	for _, n := range l.all {
		links, err := n.nl.LinkList()
		if err != nil {
			return fmt.Errorf("list links: %w", err)
		}
		for _, link := range links {
			if link.Attrs().Name == "lo" {
				continue
			}
			if err := l.tuneLink(n, link); err != nil {
				return fmt.Errorf("%s: %w", link.Attrs().Name, err)
			}
		}
		if l.options.RPS {
			if err := n.steer(); err != nil {
				return fmt.Errorf("receive packet steering: %w", err)
			}
		}
	}
	return nil
}

func (l *Lab) tuneLink(n *Namespace, link netlink.Link) error {
	if mtu := l.options.MTU; mtu > 0 && link.Attrs().MTU < mtu {
		if err := n.nl.LinkSetMTU(link, mtu); err != nil {
			return fmt.Errorf("MTU %d: %w", mtu, err)
		}
	}
	if err := n.queue(link, l.options.Qdisc); err != nil {
		return err
	}
	switches, known := offloads[l.options.Offload]
	if !known {
		return fmt.Errorf("offload %q is none of on, off, no-checksums, no-tso, no-gso", l.options.Offload)
	}
	if len(switches) == 0 {
		return nil
	}
	return n.Do(func() error { return offload(link.Attrs().Name, switches) })
}

// queue gives a link a queueing discipline with its defaults; "" leaves it as it is.
func (n *Namespace) queue(link netlink.Link, kind string) error {
	if kind == "" {
		return nil
	}
	err := n.nl.QdiscReplace(&netlink.GenericQdisc{QdiscType: kind,
		QdiscAttrs: netlink.QdiscAttrs{LinkIndex: link.Attrs().Index, Parent: netlink.HANDLE_ROOT}})
	if errors.Is(err, unix.ENOENT) {
		return &UnsupportedError{"qdisc " + kind, err}
	}
	if err != nil {
		return fmt.Errorf("queueing discipline %s: %w", kind, err)
	}
	return nil
}

// Offload is what is left to a link: putting together what was received (GRO),
// cutting what is sent (TSO for TCP, GSO for all), and checksums.
type Offload string

// What may be switched. A veth link has all but GRO by itself (drivers/net/veth.c).
const (
	OffloadKept        Offload = ""             // the kernel's own
	OffloadOn          Offload = "on"           // all four
	OffloadOff         Offload = "off"          // none
	OffloadNoChecksums Offload = "no-checksums" // the kernel takes TSO away with them
	OffloadNoTSO       Offload = "no-tso"
	OffloadNoGSO       Offload = "no-gso"
)

// offloads are ethtool's commands with what they set: checksums first, because
// segmentation needs them on and goes off with them.
var offloads = map[Offload][][2]uint32{
	OffloadKept:        nil,
	OffloadOn:          {{unix.ETHTOOL_STXCSUM, 1}, {unix.ETHTOOL_SGSO, 1}, {unix.ETHTOOL_STSO, 1}, {unix.ETHTOOL_SGRO, 1}},
	OffloadOff:         {{unix.ETHTOOL_STXCSUM, 0}, {unix.ETHTOOL_SGSO, 0}, {unix.ETHTOOL_STSO, 0}, {unix.ETHTOOL_SGRO, 0}},
	OffloadNoChecksums: {{unix.ETHTOOL_STXCSUM, 0}},
	OffloadNoTSO:       {{unix.ETHTOOL_STSO, 0}},
	OffloadNoGSO:       {{unix.ETHTOOL_SGSO, 0}},
}

// offload makes a link's switches. A link that has no such switch keeps what it does.
func offload(link string, switches [][2]uint32) error {
	for _, s := range switches {
		value := struct{ command, data uint32 }{s[0], s[1]}
		if err := ethtool(link, unsafe.Pointer(&value)); err != nil && !errors.Is(err, unix.EOPNOTSUPP) {
			return fmt.Errorf("offload %#x: %w", s[0], err)
		}
	}
	return nil
}

// ethtool makes a request of a link's, which begins with its command.
func ethtool(link string, data unsafe.Pointer) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("socket: %w", err)
	}
	defer unix.Close(fd) //nolint:errcheck // it was only asked
	request := struct {
		name [unix.IFNAMSIZ]byte
		data unsafe.Pointer
		_    [16]byte
	}{data: data}
	copy(request.name[:unix.IFNAMSIZ-1], link)
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&request))); errno != 0 {
		return errno
	}
	return nil
}

// steer lets every CPU work on what the namespace's links receive.
func (n *Namespace) steer() error {
	return n.withSysfs(func(sysfs string) error {
		queues, err := filepath.Glob(filepath.Join(sysfs, "class/net/*/queues/rx-*/rps_cpus"))
		if err != nil {
			return err
		}
		cpus, err := sys.OnlineCPUs()
		if err != nil {
			return err
		}
		mask := []byte(cpuMask(cpus))
		for _, q := range queues {
			if err := os.WriteFile(q, mask, 0); err != nil {
				return err
			}
		}
		return nil
	})
}

// cpuMask writes CPUs, which are in ascending order, as the hexadecimal mask of rps_cpus.
func cpuMask(cpus []int) string {
	words := make([]uint32, cpus[len(cpus)-1]/32+1)
	for _, cpu := range cpus {
		words[cpu/32] |= 1 << (cpu % 32)
	}
	var text []string
	for _, word := range slices.Backward(words) {
		text = append(text, fmt.Sprintf("%08x", word))
	}
	return strings.Join(text, ",")
}

// withSysfs runs f inside the namespace with its own sysfs mounted over the machine's, in
// a mount namespace that nobody else sees and that ends with f.
func (n *Namespace) withSysfs(f func(sysfs string) error) error {
	const dir = "/sys"
	return n.Do(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
			return fmt.Errorf("new mount namespace: %w", err)
		}
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			return fmt.Errorf("private mounts: %w", err)
		}
		if err := unix.Mount("sysfs", dir, "sysfs", 0, ""); err != nil {
			return fmt.Errorf("mount sysfs: %w", err)
		}
		return f(dir)
	})
}
