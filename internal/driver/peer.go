package driver

import (
	"context"
	"net/netip"
)

// Peer is another machine, on which another tare takes the far ends of paths. Its calls
// return a *LostError as soon as that machine does not answer any more.
type Peer interface {
	// Addresses are IPv4 addresses of this machine and of the peer, by which they reach
	// each other; invalid where they meet by another protocol.
	Addresses() (here, there netip.Addr)
	// Prove has the peer check a target of its own.
	Prove(ctx context.Context, target string) (Facts, error)
	// Start starts a far end there, and returns when it listens.
	Start(ctx context.Context, end FarEnd) (*Far, error)
	// Lost is closed when the peer does not answer any more. Err says why then.
	Lost() <-chan struct{}
	Err() error
}

// FarEnd is the server of a path, on the peer's machine.
type FarEnd struct {
	ID     string   `json:"id"`     // as Spec.ID
	Target string   `json:"target"` // without a path
	Path   string   `json:"path"`
	Server []string `json:"server"` // as Spec.Peer
	Limits Limits   `json:"limits"` // of which CPUs, Memory and Pids are used: other machines have other CPUs
	MTU    int      `json:"mtu,omitempty"`
	Range  string   `json:"range,omitempty"`  // as Network.Range
	Number uint32   `json:"number,omitempty"` // of the network that both machines share: 24 bits
	Tunnel *Tunnel  `json:"tunnel,omitempty"` // the nearer end, without a port: it begins
	// Here and There are the machines' addresses, as the peer sees them: it fills them in.
	Here  netip.Addr `json:"-"`
	There netip.Addr `json:"-"`
}

// Far is a far end that listens. What it runs on may be gone at any time: see Peer.Lost.
type Far struct {
	Address netip.Addr   // at which it listens, where the peer alone can know that
	Port    string       // at which it listens
	Tunnel  *Tunnel      // the farther end; nil on paths without one
	Ended   <-chan error // why it has ended; nothing while it runs
	Close   func() error // ends it, and removes all that was made for it; idempotent
}

// Tunnel is one end of an encrypted tunnel, as the other end has to know it.
type Tunnel struct {
	Key  string `json:"key"`            // public, in WireGuard's Base64
	Port int    `json:"port,omitempty"` // UDP
}

// LostError means that the peer does not answer any more. It is the laboratory's fault:
// the target that was measured had no say in it.
type LostError struct{ Err error }

func (e *LostError) Error() string { return "the other machine was lost: " + e.Err.Error() }

// Unwrap returns the cause, as the laboratory's.
func (e *LostError) Unwrap() error { return &LabError{e.Err} }
