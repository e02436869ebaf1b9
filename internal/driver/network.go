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
	// Attach joins a running container to a network that Make made, at an address, and
	// Detach takes it away, as an engine's user does. Both return when the engine has
	// answered.
	Attach func(ctx context.Context, of Instance, network string, at netip.Addr) error
	Detach func(ctx context.Context, of Instance, network string) error
	// Proxy is the name of the engine's program that copies: clients of the same network
	// reach a published port through such a process. "" for none.
	Proxy string
}

// HostNetwork is the Join.Network of a payload on its engine's host.
const HostNetwork = "host"

// Network describes the network between a payload and its peer. A zero field keeps
// the kernel's default.
type Network struct {
	Containers int    // attached in total, with the two ends; 0 is 2
	Neighbours string // content of the ends' neighbour tables: "", "empty", "permanent", "learned"
	Others     string // what the containers besides the two ends are (OthersAre...); "" for the target's usual kind
	Pairs      int    // pairs of containers that do the payload's work at once, the two ends among them; 0 is 1
	Chatter    bool   // the other containers send a little
	MTU        int    // bytes, of every link
	Offload    string // work that the links do (net.Offload): "" for the kernel's choice, "on", "off", "no-checksums", "no-tso", "no-gso"
	Rules      int    // of a policy that packets pass on the bridge's host, none of which matches
	Qdisc      string // queueing discipline of every link: "" for the kernel's choice
	RPS        bool   // receive packet steering over all CPUs
	Limit      int    // of learned neighbours, for the whole machine (gc_thresh3); 0 changes nothing
	Range      string // of addresses, as "10.213.0.0/16"; one of IPv6 makes a network of IPv6
	Pin        string // of the two ends to CPUs: "" or "free", "apart", "same"
}

// What the containers besides the two ends are. An engine that makes its networks
// itself has containers alone; elsewhere namespaces are the usual kind.
const (
	OthersAreNamespaces = "namespaces" // a network namespace and a link each, and no process
	OthersAreContainers = "containers" // containers of the target, each with a small process
)

// Placeholders in arguments, for the address and the port at which the peer listens.
const (
	PeerAddress = "@peer"
	PeerPort    = "@port"
)
