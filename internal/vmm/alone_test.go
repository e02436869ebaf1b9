package vmm

import (
	"errors"
	"testing"

	"github.com/tarelab/tare/internal/driver"
)

// A machine that boots from its disk has no kernel on its command line; VMMs without a
// BIOS refuse it.
func TestAlone(t *testing.T) {
	m := Machine{CPUs: 2, Memory: 1 << 30, Accel: TCG, Disks: []Disk{{Path: "/host,one.qcow2", Qcow2: true, Own: true}},
		Alone: &Alone{SSH: 2222, Strings: []string{"io.systemd.credential:a=b,c"}}}
	taken := 0
	for _, v := range For("amd64") {
		err := v.Takes(m)
		switch {
		case err == nil:
			taken++
			compare(t, "alone", v, m)
		case !errors.As(err, new(*driver.CannotError)):
			t.Errorf("%s: %v", v.Name, err)
		}
	}
	if taken != 1 {
		t.Errorf("%d VMMs take it, want %s alone", taken, QEMUQ35)
	}
}
