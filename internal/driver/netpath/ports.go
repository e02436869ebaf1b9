package netpath

import (
	"slices"
	"sync"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/net"
)

// ports gives out free ports. It remembers the last ones, because their servers listen
// later: two instances that start at once could get the same port, and the second client
// would measure the first server.
type ports struct {
	mu    sync.Mutex
	given []string
}

// remembered is how many instances may be about to listen.
const remembered = 1024

// take returns a port of free that was not given lately. A machine that has fewer ports
// than are remembered gets one again.
func (p *ports) take(free func() (string, error)) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for tries := 0; ; tries++ {
		port, err := free()
		if err != nil {
			return "", driver.Labf("%w", err)
		}
		if tries < remembered && slices.Contains(p.given, port) {
			continue
		}
		p.given = append(p.given, port)
		p.given = p.given[max(0, len(p.given)-remembered):]
		return port, nil
	}
}

// servers are the ports of this process's servers, of all targets.
var servers ports

// freePort is a port for a server in a network that others may share.
func freePort() (string, error) { return servers.take(net.FreePort) }
