package net

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
)

// bridgeNetfilter says whether bridged packets pass the rules for routed ones.
// The setting is each namespace's own from Linux 5.3 on; before, it is the machine's, and
// is not changed. A kernel without it never passes them.
func (l *Lab) bridgeNetfilter(n *Namespace, value string) error {
	setting := "bridge/bridge-nf-call-iptables"
	if l.six() {
		setting = "bridge/bridge-nf-call-ip6tables"
	}
	err := n.Sysctl(setting, value)
	if !errors.Is(err, os.ErrNotExist) {
		return err
	}
	of, missing := os.ReadFile(filepath.Join("/proc/sys/net", setting))
	switch machine := strings.TrimSpace(string(of)); {
	case missing == nil && machine == value:
		return nil
	case missing == nil:
		return &UnsupportedError{fmt.Sprintf("net/%s = %s (this kernel has one for the whole machine, which is %s)", setting, value, machine), err}
	case value == "0":
		return nil
	}
	return &UnsupportedError{"bridge netfilter", err}
}

// tableFamily is that of routed packets.
func (l *Lab) tableFamily() nftables.TableFamily {
	if l.six() {
		return nftables.TableFamilyIPv6
	}
	return nftables.TableFamilyIPv4
}

// rules runs f on a connection to the namespace's nftables and commits.
func (n *Namespace) rules(of nftables.TableFamily, f func(*nftables.Conn, *nftables.Table)) error {
	c, err := nftables.New(nftables.WithNetNSFd(int(n.fd)))
	if err != nil {
		return fmt.Errorf("nftables: %w", err)
	}
	f(c, c.AddTable(&nftables.Table{Name: "tare", Family: of}))
	if err := c.Flush(); err != nil {
		return fmt.Errorf("nftables: %w", err)
	}
	return nil
}

// forwardRules are what an engine has a packet between containers pass: the
// connection's state is looked up, and what belongs to one is accepted.
func (n *Namespace) forwardRules(of nftables.TableFamily) error {
	return n.rules(of, func(c *nftables.Conn, t *nftables.Table) {
		accept := nftables.ChainPolicyAccept
		chain := c.AddChain(&nftables.Chain{Name: "forward", Table: t, Type: nftables.ChainTypeFilter,
			Hooknum: nftables.ChainHookForward, Priority: nftables.ChainPriorityFilter, Policy: &accept})
		known := binaryutil.NativeEndian.PutUint32(expr.CtStateBitESTABLISHED | expr.CtStateBitRELATED)
		c.AddRule(&nftables.Rule{Table: t, Chain: chain, Exprs: []expr.Any{
			&expr.Ct{Register: 1, Key: expr.CtKeySTATE},
			&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 4, Mask: known, Xor: []byte{0, 0, 0, 0}},
			&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: []byte{0, 0, 0, 0}},
			&expr.Counter{},
			&expr.Verdict{Kind: expr.VerdictAccept},
		}})
	})
}

// publish sends what is for the address at to the server, and gives packets of
// the server's own network the host's address, so that answers come back here.
func (n *Namespace) publish(of nftables.TableFamily, at, server netip.Addr) error {
	return n.rules(of, func(c *nftables.Conn, t *nftables.Table) {
		in := c.AddChain(&nftables.Chain{Name: "prerouting", Table: t, Type: nftables.ChainTypeNAT,
			Hooknum: nftables.ChainHookPrerouting, Priority: nftables.ChainPriorityNATDest})
		c.AddRule(&nftables.Rule{Table: t, Chain: in, Exprs: append(destination(at),
			&expr.Immediate{Register: 1, Data: server.AsSlice()},
			&expr.NAT{Type: expr.NATTypeDestNAT, Family: uint32(of), RegAddrMin: 1})})
		out := c.AddChain(&nftables.Chain{Name: "postrouting", Table: t, Type: nftables.ChainTypeNAT,
			Hooknum: nftables.ChainHookPostrouting, Priority: nftables.ChainPriorityNATSource})
		c.AddRule(&nftables.Rule{Table: t, Chain: out, Exprs: append(destination(server), &expr.Masq{})})
	})
}

// destination matches packets to an address, by where RFC 791 and 8200 have it.
func destination(a netip.Addr) []expr.Any {
	at := expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: 16, Len: 4}
	if a.Is6() {
		at.Offset, at.Len = 24, 16
	}
	return []expr.Any{
		&at,
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: a.AsSlice()},
	}
}
