package probe

import (
	"context"
	"fmt"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/net"
	"github.com/tarelab/tare/internal/sample"
)

// Neighbours counts, when the payloads have ended, how many entries the IPv4
// neighbour tables of both ends of a path hold: what was filled in before may
// have been collected by the kernel since. It gives nothing elsewhere.
type Neighbours struct{}

var neighboursOf = map[driver.Role]string{driver.RolePayload: sample.ClientNeighbours, driver.RolePeer: sample.ServerNeighbours}

// Begin notes whose tables are to be counted.
func (Neighbours) Begin(_ context.Context, on []driver.Watch) (func() ([]sample.Value, error), error) {
	return func() ([]sample.Value, error) {
		var values []sample.Value
		for _, w := range on {
			metric := neighboursOf[w.Role]
			if w.Network == "" || metric == "" {
				continue
			}
			n, err := net.Neighbours(w.Network)
			if err != nil {
				return nil, fmt.Errorf("neighbour probe: %w", err)
			}
			values = append(values, sample.Value{Metric: metric, Value: float64(n)})
		}
		return values, nil
	}, nil
}

// Counts records what stands around two ends: other containers, rules, processes. It is
// to be armed before all other probes, whose readings would have what it uses.
type Counts struct{}

// Begin notes what is to be counted.
func (Counts) Begin(_ context.Context, on []driver.Watch) (func() ([]sample.Value, error), error) {
	return func() ([]sample.Value, error) {
		var values []sample.Value
		for _, w := range on {
			if w.Counts == nil {
				continue
			}
			counted, err := w.Counts()
			if err != nil {
				return nil, fmt.Errorf("what is on the network: %w", err)
			}
			values = append(values, counted...)
		}
		return values, nil
	}, nil
}
