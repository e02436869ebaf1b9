package vm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/sys"
	"github.com/tarelab/tare/internal/vmm"
)

// saved are the guests that a driver has saved in this session.
type saved struct {
	mu  sync.Mutex        // guards what follows, and one guest is saved at a time
	dir string            // of all of them, below lab.RunDir; "" before the first
	all map[string]string // their own directories, by the digest of what they are made of
}

// Setup implements driver.SessionDriver. A guest is saved when its machine is known,
// outside of the clock of the first trial that needs it.
func (d *Driver) Setup(context.Context, driver.Spec) error { return nil }

// Teardown implements driver.SessionDriver: it removes the saved guests.
func (d *Driver) Teardown() error {
	if d.saved == nil {
		return nil
	}
	d.saved.mu.Lock()
	defer d.saved.mu.Unlock()
	if d.saved.dir == "" {
		return nil
	}
	clear(d.saved.all)
	err := sys.RemoveTree(d.saved.dir)
	d.saved.dir = ""
	return err
}

// savedGuest is the directory of a saved guest of that machine. Where there is none yet,
// one is booted and saved, outside of every clock and of the instance's cgroup.
func (d *Driver) savedGuest(ctx context.Context, path string, m vmm.Machine, spec driver.Spec) (string, error) {
	if spec.Disk != "" || d.lab.Guest.Rootfs != "" {
		return "", d.Cannot("measure it on "+d.vmm.Name, "a guest that is restored has no disk of its own to write to")
	}
	d.saved.mu.Lock()
	defer d.saved.mu.Unlock()
	name := Digest(path, fmt.Sprintf("%+v", m))
	if dir, ok := d.saved.all[name]; ok {
		return dir, nil
	}
	if d.saved.dir == "" {
		var err error
		if d.saved.dir, err = os.MkdirTemp(d.lab.RunDir, driver.Label+"-saved-"); err != nil {
			return "", driver.Labf("save a guest: %w", err)
		}
	}
	m.SaveTo = filepath.Join(d.saved.dir, name)
	if err := os.Mkdir(m.SaveTo, 0o700); err != nil {
		return "", driver.Labf("save a guest: %w", err)
	}
	if err := d.save(ctx, path, m); err != nil {
		return "", errors.Join(fmt.Errorf("save the guest that others are restored from: %w", err), sys.RemoveTree(m.SaveTo))
	}
	d.saved.all[name] = m.SaveTo
	return m.SaveTo, nil
}

// save boots a machine up to its agent, which knows no payload yet, and saves it.
func (d *Driver) save(ctx context.Context, path string, m vmm.Machine) (err error) {
	dir, err := os.MkdirTemp(d.saved.dir, "machine-")
	if err != nil {
		return driver.Labf("save a guest: %w", err)
	}
	defer func() { err = errors.Join(err, sys.RemoveTree(dir)) }()
	i, err := d.prepare(ctx, Boot{Path: path, Machine: m, Dir: dir, Off: offTime}, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, i.Close()) }()
	i.mark = func(driver.Phase) {}
	if err := i.vm.Start(); err != nil {
		return err
	}
	defer context.AfterFunc(ctx, i.kill)()
	if err := i.settle(ctx); err != nil {
		return guestError(ctx, i.vm, err)
	}
	return nil
}

// settle waits for the agent, and saves the machine when the agent reports that nothing
// is under way.
func (i *instance) settle(ctx context.Context) error {
	a, err := i.meet()
	if err != nil {
		return err
	}
	i.vm.Marked(vmm.MarkAgent)
	if err := a.send(frameSave, nil); err != nil {
		return i.lost(err)
	}
	if kind, _, err := a.receive(); err != nil {
		return i.lost(err)
	} else if kind != frameSave {
		return fmt.Errorf("the agent answered with a frame of kind %q to the news that its machine is to be saved", kind)
	}
	return i.vm.Save(ctx)
}
