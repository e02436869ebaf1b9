package driver

import (
	"context"
	"net"
	"net/netip"
)

// Join is a network that was made for a payload; the zero value is none.
type Join struct {
	// Namespace is the path of a network namespace: the payload runs in it
	// (JoinsNamespace), or its machine does, whose link is Tap (JoinsTap).
	Namespace string
	Tap       string           // name of a tap device in Namespace
	Hardware  net.HardwareAddr // of the guest's link
	Gateway   netip.Addr       // of the guest's default route; invalid for none
	Network   string           // name of a network that the driver has made (Networks)
	// Address is the payload's own, with the length of its network: of the guest's
	// link, or in Network.
	Address netip.Prefix
	Publish string // port of the payload, of TCP and UDP, that the engine publishes on its host; "" for none
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
	// Proxies: for clients of the same network, the engine publishes a port by a
	// process that copies.
	Proxies bool
}

// HostNetwork is the Join.Network of a payload on its engine's host.
const HostNetwork = "host"

// Network says what stands between and around two ends. Zero values leave what
// the kernel has by default.
type Network struct {
	Containers int    // attached in all, the two ends among them; 0 is 2
	Neighbours string // what the ends' neighbour tables hold: "", "empty", "permanent", "learned"
	Chatter    bool   // the others send a little
	MTU        int    // bytes, of every link
	Offload    string // what is left to the links (net.Offload): "" for the kernel's own, "on", "off", "no-checksums", "no-tso", "no-gso"
	RPS        bool   // receive packet steering over all CPUs
	Limit      int    // of learned neighbours, for the whole machine (gc_thresh3); 0 leaves it
	Range      string // of addresses, as "10.213.0.0/16"
	Pin        string // of the two ends to CPUs: "" or "free", "apart", "same"
}

// What stands in an argument for where the peer listens.
const (
	PeerAddress = "@peer"
	PeerPort    = "@port"
)
