package native_test

import (
	"os"
	"strings"
	"testing"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/driver/drivertest"
	"github.com/tarelab/tare/internal/driver/launch"
	"github.com/tarelab/tare/internal/driver/native"
	"github.com/tarelab/tare/internal/sys"
)

// TestDeviceRules runs a payload under each kind of device group that this machine
// has: it keeps CAP_MKNOD, and cannot open what it makes.
func TestDeviceRules(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("needs root: a user namespace makes no nodes")
	}
	groups, err := sys.Cgroups()
	if err != nil {
		t.Fatal(err)
	}
	_, any := launch.FindDeviceGuard(groups)
	_, v1 := launch.V1DeviceGuard(groups)
	lab := drivertest.New(t)
	for name, c := range map[string]struct {
		driver driver.Driver
		has    bool
	}{"found": {native.New(lab), any}, "version 1": {native.NewV1(lab), v1}} {
		if !c.has {
			t.Logf("%s: this machine has no such device group", name)
			continue
		}
		said := outputIn(t, c.driver, lab, driver.Label+"/test-devices", `cd /tmp
mknod mem c 1 1 && mknod loop b 7 0 && mknod zero c 1 5 && mknod ptmx c 5 2 || exit 1
for n in mem loop zero ptmx; do (true <$n) 2>&1 && echo "$n opens"; done
: </dev/ptmx && echo "own ptmx opens"; grep CapEff /proc/self/status`)
		for _, want := range []string{"mem: Operation not permitted", "loop: Operation not permitted", "zero opens", "own ptmx opens", "CapEff:\t00000000a80425fb"} {
			if !strings.Contains(said, want) {
				t.Errorf("%s: want %q in\n%s", name, want, said)
			}
		}
	}
}
