package all

import (
	"slices"
	"strings"
	"testing"

	"github.com/tarelab/tare/internal/driver"
)

func TestDriversHaveNamesAndAnOrder(t *testing.T) {
	seen := map[string]bool{}
	last := -1 << 31
	for _, d := range Drivers(driver.Lab{}) {
		name, p := d.Name(), d.Properties()
		if name == "" || name != strings.ToLower(name) || seen[name] {
			t.Errorf("name %q is empty, not in lower case, or not unique", name)
		}
		seen[name] = true
		if p.Order < last {
			t.Errorf("%s (order %d) stands after a driver of order %d", name, p.Order, last)
		}
		last = p.Order
		if p.Family == "" || p.MaxParallel < 4 || p.StreamBytes < 8<<20 || p.StartTime <= 0 {
			t.Errorf("%s: properties %+v are not all set", name, p)
		}
	}
	for _, name := range []string{"host", "native", "runc", "crun", "youki", "runsc"} {
		if !seen[name] {
			t.Errorf("no driver %q", name)
		}
	}
}

func TestTheHostIsFirstAndLevelsStandBeforeRuntimes(t *testing.T) {
	var families []string
	for _, d := range Drivers(driver.Lab{}) {
		if f := d.Properties().Family; len(families) == 0 || families[len(families)-1] != f {
			families = append(families, f)
		}
	}
	if want := []string{"host", "native", "oci", "engine", "vm"}; !slices.Equal(families, want) {
		t.Errorf("families in order %q, want %q", families, want)
	}
}

// A session in which nothing was started ends without an error, however often drivers
// that share an engine are torn down.
func TestTeardownWithoutSetup(t *testing.T) {
	sessions := 0
	for range 2 {
		for _, d := range Drivers(driver.Lab{}) {
			s, ok := driver.As[driver.SessionDriver](d)
			if !ok {
				continue
			}
			sessions++
			for range 2 {
				if err := s.Teardown(); err != nil {
					t.Errorf("%s: %v", d.Name(), err)
				}
			}
		}
	}
	if sessions == 0 {
		t.Error("no driver keeps anything for the session")
	}
}
