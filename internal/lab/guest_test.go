package lab

import (
	"context"
	"testing"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/driver/fake"
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

// The control, which has no guest, is not waited for.
func TestMergedAreGuestsAlone(t *testing.T) {
	level := study.Environment{Name: "512MiB-ksm", Guest: &study.Guest{KSM: true}}
	p := &Plan{drivers: map[string]driver.Driver{"host": fake.New("host", nil), "qemu/q35": unreporting{fake.New("qemu/q35", nil)}}}
	if p.merges(study.Cell{Target: "host", Limits: level}) || p.merges(study.Cell{Target: "qemu/q35"}) || !p.merges(study.Cell{Target: "qemu/q35", Limits: level}) {
		t.Error("merged is not what has a guest and a level with KSM")
	}
}
