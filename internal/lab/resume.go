package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/store"
	"github.com/tarelab/tare/internal/study"
)

// BootStudy is the id of runs that tare boot run makes. They cannot be resumed.
const BootStudy = "boot-run"

// Resume makes the plan of a run that was broken off. The image, the targets and
// what is asked of virtual machines must be what they were. The run must be this
// user's; prepare allows its commands that run on the host.
func (l *Lab) Resume(ctx context.Context, ref *store.Run, prepare bool) (*Plan, error) {
	m, err := Resumable(ref, prepare)
	if err != nil {
		return nil, err
	}
	l.name(ctx, named(m.Study))
	if err := errors.Join(sameGuest(m.Guest, l.config.Guest), canPrepare(m)); err != nil {
		return nil, err
	}
	if _, _, _, err := l.checkStudy(ctx, m.Study, true); err != nil {
		return nil, err
	}
	p := &Plan{Manifest: m}
	o := Options{Rootfs: m.Rootfs, Image: m.ImageSource}
	if err := l.resolve(ctx, p, o); err != nil {
		return nil, err
	}
	if err := sameGround(m, p.Manifest); err != nil {
		return nil, err
	}
	p.Manifest = m
	if _, err := l.checkCells(ctx, p, true); err != nil {
		return nil, err // the run's cells stay as they are
	}
	p.trials = TrialsOf(m)
	if p.Run, err = store.Resume(ref.Dir()); err != nil {
		return nil, err
	}
	end, over, err := p.Run.End()
	if err == nil && !over && len(p.Run.Done()) < len(p.trials) {
		err = sameOrder(p)
	}
	if err != nil {
		return nil, errors.Join(err, p.Run.Close())
	}
	if over { // it has what it was made for
		p.trials = upTo(p.trials, end.Blocks)
	}
	p.Notes = append(p.Notes, p.Run.Notes()...)
	p.Estimate = newEnding(m.Study, 0).left(newPace(p, p.Run.Done()).left())
	return p, nil
}

// sameOrder says that the records that a run has are of the trials that its plan has in their
// places. Versions before 2026-11-27 put several runs of a cell at the front of a block.
func sameOrder(p *Plan) error {
	for record, err := range p.Run.Records() {
		if err != nil {
			return err
		}
		if record.Seq >= len(p.trials) {
			continue // reading has told what it makes of it
		}
		t := p.trials[record.Seq]
		if cell := p.Manifest.Cells[t.Cell].ID; cell != record.Cell || t.Block != record.Block {
			return &InputError{fmt.Errorf("the run %s was begun by a version that ordered its trials otherwise: trial %d is %s in block %d, and here %s in block %d. It can be read; measure it anew, or go on with tare %s",
				p.Manifest.ID, record.Seq, record.Cell, record.Block, cell, t.Block, p.Manifest.Tool)}
		}
	}
	return nil
}

// Resumable is the manifest of a run that this user may go on with, as it is to be
// measured. Nothing of it has been done or made room for. A run whose study runs
// commands on the host, outside of any target, needs prepare: the error shows them.
func Resumable(ref *store.Run, prepare bool) (store.Manifest, error) {
	err := ref.Ours()
	if err == nil {
		err = ref.Manifest().CanGoOn()
	}
	m := ref.Manifest()
	if err == nil && m.Study.ID == BootStudy {
		err = errors.New("boots of tare boot run do not go on: call it again; those that ended are in the run's report")
	}
	if err == nil && m.Study.ID == WatchStudy && len(m.Cells) == 0 {
		err = errors.New("a watch does not go on: call tare watch --record again; what was read is in the run's report")
	}
	if err == nil {
		m, err = ref.Measured()
	}
	if err == nil && !prepare {
		err = unseenCommands(m)
	}
	if err != nil {
		return store.Manifest{}, &InputError{err}
	}
	return m, nil
}

// unseenCommands is the error that shows what a run would execute on the host.
func unseenCommands(m store.Manifest) error {
	var shown []string
	for _, w := range m.Study.Workloads {
		if len(w.Prepare) > 0 {
			shown = append(shown, fmt.Sprintf("\n  %s: %s", w.Name, strings.Join(w.Prepare, " ")))
		}
	}
	if len(shown) == 0 {
		return nil
	}
	return fmt.Errorf("the run's study executes these commands on the host, in %s:%s\nread them, then allow them with --prepare", m.Dir, strings.Join(shown, ""))
}

// canPrepare refuses to go on with a run whose prepare commands ran in a directory that
// is no longer there.
func canPrepare(m store.Manifest) error {
	prepares := slices.ContainsFunc(m.Study.Workloads, func(w study.Workload) bool { return len(w.Prepare) > 0 })
	if info, err := os.Stat(m.Dir); prepares && m.Dir != "" && (err != nil || !info.IsDir()) {
		return &InputError{fmt.Errorf("the run's prepare commands ran in %s, which is not a directory any more: create it again, or start a new run", m.Dir)}
	}
	return nil
}

// sameGuest refuses to go on with other guests than a run began with, where it says
// with which. Kernels are told by their digests (sameGround).
func sameGuest(before *driver.Guest, now driver.Guest) error {
	if before == nil {
		return nil
	}
	was := *before
	was.Kernel, now.Kernel = "", ""
	if was != now {
		return &InputError{fmt.Errorf("of virtual machines is asked now: %v; and was when the run began: %v; leave these flags out to go on as it began, or start it anew", now, was)}
	}
	return nil
}

// sameGround refuses to go on with a run on another ground than it began on.
func sameGround(before, now store.Manifest) error {
	if before.Image != now.Image {
		return &InputError{fmt.Errorf("the image is %s now and was %s: the programs on this machine have changed, so the run cannot go on; start it anew", now.Image, before.Image)}
	}
	for level, image := range before.Images {
		if got := now.Images[level]; got.Digest != image.Digest {
			return &InputError{fmt.Errorf("the image of the environment %s is %s now and was %s, so the run cannot go on; start it anew", level, got.Digest, image.Digest)}
		}
	}
	if before.Host.Kernel != now.Host.Kernel {
		return &InputError{fmt.Errorf("the kernel is %s now and was %s: the run cannot go on; start it anew", now.Host.Kernel, before.Host.Kernel)}
	}
	if err := samePeer(before.Peer, now.Peer); err != nil {
		return err
	}
	for name, facts := range before.Targets {
		got, ok := now.Targets[name]
		if !ok {
			return &InputError{fmt.Errorf("target %s cannot be measured now: %s; the run goes on when it can", name, now.LeftOut[name])}
		}
		if got.Version != facts.Version || got.Digest != facts.Digest || got.Notes[driver.NoteAccel] != facts.Notes[driver.NoteAccel] || got.Notes[driver.NoteGuestKernel] != facts.Notes[driver.NoteGuestKernel] || got.Notes[driver.NoteSystem] != facts.Notes[driver.NoteSystem] {
			return &InputError{fmt.Errorf("target %s is not what it was when the run began: it was %s, and is %s; start it anew", name, identity(facts), identity(got))}
		}
	}
	return nil
}

// identity tells a target's program from another one, for messages.
func identity(f driver.Facts) string {
	return strings.Join(slices.DeleteFunc([]string{f.Version, fmt.Sprintf("%.19s", f.Digest), f.Notes[driver.NoteAccel], f.Notes[driver.NoteGuestKernel], f.Notes[driver.NoteSystem]}, func(s string) bool { return s == "" }), " ")
}

// samePeer refuses to go on with another machine at the far ends than a run began with.
func samePeer(before, now *store.Peer) error {
	switch {
	case before == nil:
		return nil
	case now == nil:
		return &InputError{fmt.Errorf("the far ends of the run were on another machine, %s: start tare serve there, and name it with --peer", before.Host.Hostname)}
	case before.Host.Machine != now.Host.Machine || before.Host.Hostname != now.Host.Hostname || before.Host.Kernel != now.Host.Kernel:
		return &InputError{fmt.Errorf("the other machine is %s with Linux %s now and was %s with Linux %s: the run cannot go on; start it anew",
			now.Host.Hostname, now.Host.Kernel, before.Host.Hostname, before.Host.Kernel)}
	}
	return nil
}
