package net

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"unsafe"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// policyBatch is how many rules one message to the kernel has. Its answers to them must
// fit in a socket's buffer.
const policyBatch = 100

// policy adds rules to the bridge's hosts that every packet between the ends passes one
// after another. None of them matches: they stand for the rules of others.
func (l *Lab) policy() error {
	if l.options.Rules == 0 {
		return nil
	}
	var hosts []*Namespace
	for _, b := range l.bridges {
		if slices.Contains(hosts, b.host) {
			continue
		}
		hosts = append(hosts, b.host)
		if err := b.host.policy(l.policyFamily(), l.nobody(), l.options.Rules); err != nil {
			return fmt.Errorf("network policy: %w", err)
		}
	}
	return nil
}

// policyFamily is where the path's packets pass rules: bridged ones those of the bridge,
// routed ones, and bridged ones on bridge-netfilter, those of IPv4 or IPv6.
func (l *Lab) policyFamily() nftables.TableFamily {
	if p := l.options.Path; p == Bridge || p == CNI || p == VXLAN {
		return nftables.TableFamilyBridge
	}
	return l.tableFamily()
}

// nobody has the addresses of a range for documentation (RFC 5737, RFC 3849).
func (l *Lab) nobody() netip.Prefix {
	if l.six() {
		return netip.MustParsePrefix("2001:db8::/32")
	}
	return netip.MustParsePrefix("198.51.100.0/24")
}

func (n *Namespace) policy(family nftables.TableFamily, nobody netip.Prefix, rules int) error {
	c, err := nftables.New(nftables.WithNetNSFd(int(n.fd)))
	if err != nil {
		return err
	}
	table := c.AddTable(&nftables.Table{Name: "tare-policy", Family: family})
	accept := nftables.ChainPolicyAccept
	chain := c.AddChain(&nftables.Chain{Name: "forward", Table: table, Type: nftables.ChainTypeFilter,
		Hooknum: nftables.ChainHookForward, Priority: nftables.ChainPriorityMangle, Policy: &accept})
	for i := range rules {
		c.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: append(destination(Nth(nobody, 1+i%250)), &expr.Verdict{Kind: expr.VerdictDrop})})
		if i%policyBatch == policyBatch-1 {
			if err := c.Flush(); err != nil {
				return lacksRules(family, err)
			}
		}
	}
	return lacksRules(family, c.Flush())
}

// lacksRules names what a kernel lacks that takes no rules of a family.
func lacksRules(family nftables.TableFamily, err error) error {
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, unix.ENOENT) {
		return &UnsupportedError{fmt.Sprintf("nftables (family %d)", family), err}
	}
	return err
}

// Rules is how many rules packets may pass in a network namespace.
type Rules struct {
	NFT    int // of nftables; also those that iptables-nft makes
	Legacy int // entries of the old iptables tables, of IPv4 and IPv6, with policies and ends of chains
}

// CountRules counts them in the namespace at a path. It loads nothing into the kernel.
func CountRules(path string) (Rules, error) {
	n, err := namespaceAt(path)
	if err != nil {
		return Rules{}, err
	}
	defer n.close()
	nft, err := n.countNFT()
	if err != nil {
		return Rules{}, fmt.Errorf("count nftables rules: %w", err)
	}
	all := Rules{NFT: nft}
	err = n.Do(func() error {
		for _, f := range legacyFamilies {
			entries, err := countLegacy(f.names, f.family, f.level)
			if err != nil {
				return fmt.Errorf("count iptables rules: %w", err)
			}
			all.Legacy += entries
		}
		return nil
	})
	return all, err
}

func (n *Namespace) countNFT() (int, error) {
	c, err := nftables.New(nftables.WithNetNSFd(int(n.fd)))
	if err != nil {
		return 0, err
	}
	chains, err := c.ListChains()
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EPROTONOSUPPORT) || errors.Is(err, unix.EINVAL) {
		return 0, nil // a kernel without netfilter's netlink, without nftables, or without both
	}
	count := 0
	for _, chain := range chains {
		rules, err := c.GetRules(chain.Table, chain)
		if err != nil {
			return 0, err
		}
		count += len(rules)
	}
	return count, err
}

// legacyFamilies have a list each of the old tables that a namespace has, below the
// thread's /proc/.../net: to ask for another one would make it.
var legacyFamilies = []struct {
	names         string
	family, level int
}{{"ip_tables_names", unix.AF_INET, unix.SOL_IP}, {"ip6_tables_names", unix.AF_INET6, unix.SOL_IPV6}}

// ofThread is a file of the network namespace that the thread is in. /proc/thread-self
// came with Linux 3.17.
func ofThread(file string) string {
	return fmt.Sprintf("/proc/self/task/%d/net/%s", unix.Gettid(), file)
}

// getInfo is IPT_SO_GET_INFO and IP6T_SO_GET_INFO (linux/netfilter_ipv4/ip_tables.h).
const getInfo = 64

// infoBytes is sizeof(struct ipt_getinfo), and infoEntries where its num_entries is.
const (
	infoBytes   = 84
	infoEntries = 76
)

// countLegacy counts the entries of all tables of a family in the thread's namespace.
func countLegacy(names string, family, level int) (int, error) {
	text, err := os.ReadFile(ofThread(names))
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	tables := strings.Fields(string(text))
	if err != nil || len(tables) == 0 {
		return 0, err
	}
	fd, err := unix.Socket(family, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd) //nolint:errcheck // it was only asked
	count := 0
	for _, table := range tables {
		var info [infoBytes]byte
		copy(info[:31], table)
		size := uint32(len(info))
		_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), uintptr(level), getInfo, uintptr(unsafe.Pointer(&info[0])), uintptr(unsafe.Pointer(&size)), 0)
		if errno != 0 {
			return 0, fmt.Errorf("table %s: %w", table, errno)
		}
		count += int(binary.NativeEndian.Uint32(info[infoEntries:]))
	}
	return count, nil
}

// ListenersAt counts the IPv4 UDP sockets that are bound in the network namespace at a
// path: to an address, or to a port; an invalid address or 0 stands for any.
func ListenersAt(path string, address netip.Addr, port uint16) (int, error) {
	n, err := namespaceAt(path)
	if err != nil {
		return 0, err
	}
	defer n.close()
	count := 0
	err = n.Do(func() error {
		text, err := os.ReadFile(ofThread("udp"))
		if err == nil {
			count, err = listeners(string(text), address, port)
		}
		return err
	})
	return count, err
}

// listeners counts them in the text of /proc/net/udp.
func listeners(text string, address netip.Addr, port uint16) (int, error) {
	count := 0
	for i, line := range strings.Split(text, "\n") {
		fields := strings.Fields(line)
		if i == 0 || len(fields) < 2 {
			continue
		}
		var a, p uint32
		if _, err := fmt.Sscanf(fields[1], "%X:%X", &a, &p); err != nil {
			return 0, fmt.Errorf("/proc/net/udp: %q: %w", line, err)
		}
		var bound [4]byte
		binary.NativeEndian.PutUint32(bound[:], a)
		if (port == 0 || uint32(port) == p) && (!address.IsValid() || netip.AddrFrom4(bound) == address) {
			count++
		}
	}
	return count, nil
}

// Host is the path of the network namespace that has the first bridge; "" where the
// path has none.
func (l *Lab) Host() string {
	if len(l.bridges) == 0 {
		return ""
	}
	return l.bridges[0].host.Path()
}
