package lab

import (
	"context"
	"strings"
	"testing"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/driver/fake"
	"github.com/tarelab/tare/internal/store"
	"github.com/tarelab/tare/internal/study"
)

// unreporting is a virtual machine whose guest reports no free pages.
type unreporting struct{ driver.Driver }

func (u unreporting) Properties() driver.Properties {
	p := u.Driver.Properties()
	p.Machine = &driver.Machine{Takes: func(_ context.Context, pageReporting, _ bool) error {
		if pageReporting {
			return &driver.CannotError{Target: "qemu/microvm", Lacks: "the guest's kernel has no virtio_balloon"}
		}
		return nil
	}}
	return p
}

// A level that guests cannot have leaves its cells out, with the reason; targets
// without a guest are as they are.
func TestGuestsThatCannotBeAreLeftOut(t *testing.T) {
	p := &Plan{Manifest: store.Manifest{LeftOut: map[string]string{}}, drivers: map[string]driver.Driver{
		"host": fake.New("host", nil), "qemu/microvm": unreporting{fake.New("qemu/microvm", nil)},
	}}
	level := study.Limits{Name: "reporting", Guest: &study.Guest{PageReporting: true}}
	cells := []study.Cell{
		{ID: "host/footprint+reporting", Target: "host", Limits: level},
		{ID: "qemu/microvm/footprint+reporting", Target: "qemu/microvm", Limits: level},
		{ID: "qemu/microvm/footprint", Target: "qemu/microvm"},
	}
	kept, err := p.fitGuests(t.Context(), cells)
	if err != nil || len(kept) != 2 || kept[0].Target != "host" || kept[1].ID != "qemu/microvm/footprint" {
		t.Fatalf("kept %+v, %v", kept, err)
	}
	if why := p.Manifest.LeftOut["qemu/microvm/footprint+reporting"]; !strings.Contains(why, "virtio_balloon") {
		t.Errorf("left out because of %q", why)
	}
}

// KSM is the whole machine's: nothing of a study that turns it on runs unless the
// user has allowed that. The control, which has no guest, is not waited for.
func TestKSMIsAsked(t *testing.T) {
	level := study.Limits{Name: "512MiB-ksm", Guest: &study.Guest{KSM: true}}
	st := study.Study{Limits: []study.Limits{level}}
	if err := (&Lab{}).canSet(st); err == nil || !strings.Contains(err.Error(), "--allow-sysctl") {
		t.Error(err)
	}
	if err := (&Lab{config: Config{AllowSysctl: true}}).canSet(st); err != nil {
		t.Error(err)
	}
	p := &Plan{drivers: map[string]driver.Driver{"host": fake.New("host", nil), "qemu/q35": unreporting{fake.New("qemu/q35", nil)}}}
	if p.merges(study.Cell{Target: "host", Limits: level}) || p.merges(study.Cell{Target: "qemu/q35"}) || !p.merges(study.Cell{Target: "qemu/q35", Limits: level}) {
		t.Error("merged is not what has a guest and a level with KSM")
	}
}
