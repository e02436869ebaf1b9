package lab

import (
	"errors"
	"strings"
	"testing"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/driver/fake"
	"github.com/tarelab/tare/internal/preflight"
	"github.com/tarelab/tare/internal/store"
	"github.com/tarelab/tare/internal/study"
)

// A target of another architecture may stand in a study where it may be missing, and
// is passed over in silence; asked for by name, it is refused with the reason.
func TestTargetsOfOtherArchitectures(t *testing.T) {
	l := &Lab{
		config:  Config{StateDir: t.TempDir(), Foreign: map[string][]string{"qemu/elsewhere": {"z80", "pdp11"}}},
		session: &session{name: "s0"}, drivers: []driver.Driver{fake.New("host", nil)},
	}
	foreign := func(names []string) error { return preflight.Foreign(names, l.config.Foreign, "amd64") }
	st := study.Study{ID: "x", Targets: []string{"host", "qemu/elsewhere"}, Optional: []string{"qemu/elsewhere"},
		Workloads: []study.Workload{{Kind: "start"}}}.WithDefaults()
	if err := errors.Join(st.Validate(l.known()), foreign(st.Required())); err != nil {
		t.Error(err)
	}
	p := &Plan{Manifest: store.Manifest{Study: st}}
	if err := l.settleTargets(t.Context(), p); err != nil || len(p.Manifest.LeftOut) != 0 || len(p.Manifest.Cells) != 2 {
		t.Errorf("cells %+v, left out %v: %v", p.Manifest.Cells, p.Manifest.LeftOut, err)
	}
	_, byName := l.Drivers(t.Context(), "qemu/elsewhere")
	for name, err := range map[string]error{
		"required":  foreign(study.Study{Control: "host", Targets: []string{"qemu/elsewhere"}}.Required()),
		"control":   foreign(study.Study{Control: "qemu/elsewhere"}.Required()),
		"on a path": foreign([]string{"qemu/elsewhere@bridge"}),
		"checked":   byName,
	} {
		var cannot *driver.CannotError
		if !errors.As(err, &cannot) || !strings.Contains(err.Error(), "it is for z80, pdp11, and this machine is ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
