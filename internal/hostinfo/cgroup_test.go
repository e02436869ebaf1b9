package hostinfo

import (
	"slices"
	"testing"

	"github.com/tarelab/tare/internal/sys"
)

func TestControllersAreNamedByVersion(t *testing.T) {
	v1 := func(controllers ...string) sys.Hierarchy { return sys.Hierarchy{Version: 1, Controllers: controllers} }
	v2 := func(controllers ...string) sys.Hierarchy { return sys.Hierarchy{Version: 2, Controllers: controllers} }
	for want, c := range map[string]struct {
		trees []sys.Hierarchy
		there []string
	}{
		"":                             {},
		"v2: cpu memory pids":          {[]sys.Hierarchy{v2("cpu", "memory", "pids")}, []string{"cpu", "memory", "pids"}},
		"v1: cpu cpuacct pids":         {[]sys.Hierarchy{v1("pids"), v1("cpu", "cpuacct"), v1("name=systemd")}, []string{"cpu", "cpuacct", "pids"}},
		"v1: cpu; v2: none":            {[]sys.Hierarchy{v1("cpu"), v2()}, []string{"cpu"}},
		"v1: memory; v2: hugetlb pids": {[]sys.Hierarchy{v2("hugetlb", "pids"), v1("memory")}, []string{"memory", "hugetlb", "pids"}},
		"v2: none":                     {[]sys.Hierarchy{v1("name=systemd"), v2()}, nil},
	} {
		value, there := controllersOf(sys.Hierarchies{All: c.trees})
		if value != want || !slices.Equal(there, c.there) {
			t.Errorf("%+v: got %q and %v, want %q and %v", c.trees, value, there, want, c.there)
		}
	}
}
