package lab

import (
	"context"
	"maps"
	"testing"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/driver/fake"
	"github.com/tarelab/tare/internal/schedule"
	"github.com/tarelab/tare/internal/store"
	"github.com/tarelab/tare/internal/study"
	"github.com/tarelab/tare/internal/sys"
)

// unreporting is a virtual machine whose guest reports no free pages.
type unreporting struct{ driver.Driver }

func (u unreporting) Properties() driver.Properties {
	p := u.Driver.Properties()
	p.Machine = &driver.Machine{Memory: func(l driver.Limits) int64 { return l.Memory }, Takes: func(_ context.Context, _ driver.Limits, devices driver.Devices) error {
		if devices.PageReporting {
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

// The pool of huge pages grows by what a trial's guests take, those of all its instances,
// and by nothing for the control.
func TestHugePagesOfTrials(t *testing.T) {
	if why := sys.HugePagesLack(); why != "" {
		t.Skip(why)
	}
	huge := study.Environment{Name: "huge", Memory: 512 << 20, Guest: &study.Guest{HugePages: true, Hotplug: 128 << 20}}
	p := &Plan{drivers: map[string]driver.Driver{"host": fake.New("host", nil), "qemu/q35": unreporting{fake.New("qemu/q35", nil)}}}
	p.Manifest = store.Manifest{Cells: []study.Cell{{Target: "host", Limits: huge, Copies: 1}, {Target: "qemu/q35", Limits: huge, Copies: 3}}}
	none, err := p.settings([]schedule.Trial{{Cell: 0}})
	if err != nil || len(none) != 0 {
		t.Errorf("the control takes %v, %v", none, err)
	}
	all, err := p.settings([]schedule.Trial{{Cell: 0}, {Cell: 1}})
	want, wantErr := sys.HugePagesSettings(3 * (512 + 128) / 2)
	if err != nil || wantErr != nil || len(all) != 1 || !maps.Equal(all, want) {
		t.Errorf("%v, %v; want %v, %v", all, err, want, wantErr)
	}
}
