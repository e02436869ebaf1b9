// Package all is the explicit list of targets: the only place that names
// families.
package all

import (
	"cmp"
	"runtime"
	"slices"

	"github.com/tarelab/tare/internal/target"
	"github.com/tarelab/tare/internal/target/engine"
	"github.com/tarelab/tare/internal/target/host"
	"github.com/tarelab/tare/internal/target/native"
	"github.com/tarelab/tare/internal/target/oci"
	"github.com/tarelab/tare/internal/target/vm"
)

// Drivers are all targets that this build of tare knows, nearest to the host
// first. Whether they can run here their Check says.
func Drivers(lab target.Lab) []target.Driver {
	all := slices.Concat([]target.Driver{engine.WithDocker(host.New(lab), lab)}, native.Drivers(lab), oci.Drivers(lab), engine.Drivers(lab), vm.Drivers(lab))
	slices.SortStableFunc(all, func(a, b target.Driver) int {
		return cmp.Compare(a.Properties().Order, b.Properties().Order)
	})
	return all
}

// Foreign are the names of targets that tare has on other architectures alone, each
// with these.
func Foreign() map[string][]string { return vm.Foreign(runtime.GOARCH) }
