// Package all is the explicit list of targets: the only place that names
// families.
package all

import (
	"cmp"
	"runtime"
	"slices"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/driver/engine"
	"github.com/tarelab/tare/internal/driver/host"
	"github.com/tarelab/tare/internal/driver/native"
	"github.com/tarelab/tare/internal/driver/oci"
	"github.com/tarelab/tare/internal/driver/vm"
)

// Drivers are all targets that this build of tare knows, nearest to the host
// first. Whether they can run here their Check says.
func Drivers(lab driver.Lab) []driver.Driver {
	all := slices.Concat([]driver.Driver{engine.WithDocker(host.New(lab), lab)}, native.Drivers(lab), oci.Drivers(lab), engine.Drivers(lab), vm.Drivers(lab))
	slices.SortStableFunc(all, func(a, b driver.Driver) int {
		return cmp.Compare(a.Properties().Order, b.Properties().Order)
	})
	return all
}

// Foreign are the names of targets that tare has on other architectures alone, each
// with these.
func Foreign() map[string][]string { return vm.Foreign(runtime.GOARCH) }
