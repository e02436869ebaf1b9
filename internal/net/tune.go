package net

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unsafe"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
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
	if l.options.Offload == nil {
		return nil
	}
	return n.Do(func() error { return offload(link.Attrs().Name, *l.options.Offload) })
}

// offloads are ethtool's commands for what is switched: checksums first, because
// segmentation needs them on and goes off with them.
var offloads = []uint32{unix.ETHTOOL_STXCSUM, unix.ETHTOOL_SGSO, unix.ETHTOOL_STSO, unix.ETHTOOL_SGRO}

// offload switches segmentation, aggregation and checksum offloads of a link. A
// link that has no such switch keeps what it does.
func offload(link string, on bool) error {
	for _, command := range offloads {
		value := struct{ command, data uint32 }{command, 0}
		if on {
			value.data = 1
		}
		if err := ethtool(link, unsafe.Pointer(&value)); err != nil && !errors.Is(err, unix.EOPNOTSUPP) {
			return fmt.Errorf("offload %#x: %w", command, err)
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
	return n.withSysfs(func(sys string) error {
		queues, err := filepath.Glob(filepath.Join(sys, "class/net/*/queues/rx-*/rps_cpus"))
		if err != nil {
			return err
		}
		all, err := os.ReadFile("/sys/devices/system/cpu/online")
		if err != nil {
			return err
		}
		mask, err := cpuMask(strings.TrimSpace(string(all)))
		if err != nil {
			return err
		}
		for _, q := range queues {
			if err := os.WriteFile(q, []byte(mask), 0); err != nil {
				return err
			}
		}
		return nil
	})
}

// cpuMask writes a list of CPUs ("0-3,8") as the hexadecimal mask of rps_cpus.
func cpuMask(list string) (string, error) {
	var words []uint32
	for part := range strings.SplitSeq(list, ",") {
		var low, high int
		if n, err := fmt.Sscanf(part, "%d-%d", &low, &high); err != nil {
			if n != 1 {
				return "", fmt.Errorf("list of CPUs %q: %w", list, err)
			}
			high = low
		}
		for cpu := low; cpu <= high; cpu++ {
			for len(words) <= cpu/32 {
				words = append(words, 0)
			}
			words[cpu/32] |= 1 << (cpu % 32)
		}
	}
	var text []string
	for i := len(words) - 1; i >= 0; i-- {
		text = append(text, fmt.Sprintf("%08x", words[i]))
	}
	return strings.Join(text, ","), nil
}

// withSysfs runs f inside the namespace with its own sysfs mounted, in a mount
// namespace that nobody else sees and that ends with f.
func (n *Namespace) withSysfs(f func(sys string) error) error {
	dir, err := os.MkdirTemp("", "tare-sysfs-")
	if err != nil {
		return err
	}
	defer os.Remove(dir)
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
