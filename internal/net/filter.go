package net

import (
	"errors"
	"fmt"
	"net/netip"
	"os"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// bridgeNetfilter says whether bridged packets pass the rules for routed ones.
// The setting is each namespace's own; a kernel without it never passes them.
func (n *Namespace) bridgeNetfilter(value string) error {
	err := n.Sysctl("bridge/bridge-nf-call-iptables", value)
	if errors.Is(err, os.ErrNotExist) {
		if value == "0" {
			return nil
		}
		return &UnsupportedError{"bridge netfilter", err}
	}
	return err
}

// rules runs f on a connection to the namespace's nftables and commits.
func (n *Namespace) rules(f func(*nftables.Conn, *nftables.Table)) error {
	c, err := nftables.New(nftables.WithNetNSFd(int(n.fd)))
	if err != nil {
		return fmt.Errorf("nftables: %w", err)
	}
	f(c, c.AddTable(&nftables.Table{Name: "tare", Family: nftables.TableFamilyIPv4}))
	if err := c.Flush(); err != nil {
		return fmt.Errorf("nftables: %w", err)
	}
	return nil
}

// forwardRules are what an engine has a packet between containers pass: the
// connection's state is looked up, and what belongs to one is accepted.
func (n *Namespace) forwardRules() error {
	return n.rules(func(c *nftables.Conn, t *nftables.Table) {
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
func (n *Namespace) publish(at, server netip.Addr) error {
	return n.rules(func(c *nftables.Conn, t *nftables.Table) {
		in := c.AddChain(&nftables.Chain{Name: "prerouting", Table: t, Type: nftables.ChainTypeNAT,
			Hooknum: nftables.ChainHookPrerouting, Priority: nftables.ChainPriorityNATDest})
		c.AddRule(&nftables.Rule{Table: t, Chain: in, Exprs: append(destination(at),
			&expr.Immediate{Register: 1, Data: server.AsSlice()},
			&expr.NAT{Type: expr.NATTypeDestNAT, Family: unix.NFPROTO_IPV4, RegAddrMin: 1})})
		out := c.AddChain(&nftables.Chain{Name: "postrouting", Table: t, Type: nftables.ChainTypeNAT,
			Hooknum: nftables.ChainHookPostrouting, Priority: nftables.ChainPriorityNATSource})
		c.AddRule(&nftables.Rule{Table: t, Chain: out, Exprs: append(destination(server), &expr.Masq{})})
	})
}

// destination matches packets to an address.
func destination(a netip.Addr) []expr.Any {
	return []expr.Any{
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: 16, Len: 4},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: a.AsSlice()},
	}
}
