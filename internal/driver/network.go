package driver

import (
	"context"
	"net"
	"net/netip"
)

// Join is a network that was made for a payload; the zero value is none.
type Join struct {
	// Namespace is the path of a network namespace. The payload runs in it
	// (JoinsNamespace), or the VMM of its machine does, with Tap as its link (JoinsTap).
	Namespace string
	Tap       string           // name of a tap device in Namespace
	Hardware  net.HardwareAddr // of the guest's link
	Gateway   netip.Addr       // of the guest's default route; invalid for none
	Network   string           // name of a network that Networks.Make made, or HostNetwork
	// Address is the payload's address with the prefix length of its network: on the
	// guest's link, or in Network.
	Address netip.Prefix
	Publish string // TCP and UDP port of the payload that the engine publishes on its host; "" for none
}

// Joining is how a driver puts payloads on a network.
type Joining string

// The ways; "" is none.
const (
	JoinsNamespace Joining = "namespace" // Join.Namespace
	JoinsTap       Joining = "tap"       // Join.Namespace, Tap, Hardware, Address, Gateway
	JoinsOwn       Joining = "own"       // Join.Network, Address, Publish: the driver has Networks
)

// Networks is how a driver's engine makes networks.
type Networks struct {
	// Host returns the path of the network namespace of the engine's host, where its
	// bridges are.
	Host func(ctx context.Context) (string, error)
	// Make makes a bridge network of that name and range, with the range's first
	// address on the host. It stays until remove is called.
	Make func(ctx context.Context, name string, of netip.Prefix) (remove func() error, err error)
	// Proxies: clients of the same network reach a published port through a process
	// of the engine that copies.
	Proxies bool
}

// HostNetwork is the Join.Network of a payload on its engine's host.
const HostNetwork = "host"

// Network describes the network between a payload and its peer. A zero field keeps
// the kernel's default.
type Network struct {
	Containers int    // attached in total, with the two ends; 0 is 2
	Neighbours string // content of the ends' neighbour tables: "", "empty", "permanent", "learned"
	Chatter    bool   // the other containers send a little
	MTU        int    // bytes, of every link
	Offload    string // work that the links do (net.Offload): "" for the kernel's choice, "on", "off", "no-checksums", "no-tso", "no-gso"
	RPS        bool   // receive packet steering over all CPUs
	Limit      int    // of learned neighbours, for the whole machine (gc_thresh3); 0 changes nothing
	Range      string // of addresses, as "10.213.0.0/16"
	Pin        string // of the two ends to CPUs: "" or "free", "apart", "same"
}

// Placeholders in arguments, for the address and the port at which the peer listens.
const (
	PeerAddress = "@peer"
	PeerPort    = "@port"
)
