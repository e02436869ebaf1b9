// Package all is the explicit list of engines: the only place that names them.
package all

import (
	"github.com/tarelab/tare/internal/fleet/engine"
	"github.com/tarelab/tare/internal/fleet/kubernetes"
	"github.com/tarelab/tare/internal/fleet/slurm"
)

// Engines are all engines that a fleet can use, each a line.
func Engines() []engine.Kind {
	return []engine.Kind{
		kubernetes.Kind(),
		slurm.Kind(),
	}
}
