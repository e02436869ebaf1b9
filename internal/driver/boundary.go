package driver

// Boundary is what keeps a hostile payload from the machine. SECURITY.md says what
// each one promises; the escape checks of the contract suite prove it.
type Boundary string

// The boundaries, weakest first.
const (
	// NoBoundary: a payload that runs as root there is root on the machine. Only
	// programs and images that one would run as root oneself belong there.
	NoBoundary Boundary = "none"
	// ContainerBoundary: namespaces, capabilities, device rules and hidden paths of
	// the machine's own kernel, as runc has them by default. A bug of that kernel is
	// a way out.
	ContainerBoundary Boundary = "container"
	// SandboxBoundary: a kernel of its own in user space, which makes few system
	// calls of the machine's.
	SandboxBoundary Boundary = "sandbox"
	// MachineBoundary: a virtual machine with a kernel of its own. What holds the
	// guest is its monitor.
	MachineBoundary Boundary = "machine"
)

// Holds reports whether there is a boundary at all.
func (b Boundary) Holds() bool { return b != NoBoundary && b != "" }
