package containerhost

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/sys"
	"github.com/tarelab/tare/internal/vmm"
)

// outcome is how a script went in a container host.
type outcome struct {
	text []byte // what it printed
	exit driver.Exit
	off  bool // the machine powered off in time
}

// mostOnce bounds a boot outside of any trial, against a script that hangs.
const mostOnce = 40 * time.Minute

// once boots an arm and runs a script in it, outside of any trial.
func (m *hostParts) once(ctx context.Context, h *Host, a arm, disk vmm.Disk, script string, tell func(string)) (out outcome, err error) {
	ctx, cancel := context.WithTimeout(ctx, mostOnce)
	defer cancel()
	err = vmm.Again(tell, func() (err error) {
		out, err = m.oneBoot(ctx, h, a, disk, script)
		return err
	})
	return out, err
}

func (m *hostParts) oneBoot(ctx context.Context, h *Host, a arm, disk vmm.Disk, script string) (out outcome, err error) {
	path, err := h.Locate()
	if err != nil {
		return out, err
	}
	dir, err := os.MkdirTemp(h.lab.RunDir, driver.Label+"-host-")
	if err != nil {
		return out, driver.Labf("%w", err)
	}
	defer func() { err = errors.Join(err, sys.RemoveTree(dir)) }()
	said, err := os.Create(filepath.Join(dir, "said"))
	if err != nil {
		return out, driver.Labf("%w", err)
	}
	defer said.Close()
	machine, err := h.machineOf(ctx, path, a)
	if err != nil {
		return out, err
	}
	machine.Disks = []vmm.Disk{disk}
	i, err := h.boot(ctx, path, machine, driver.Spec{ID: filepath.Base(dir), Args: []string{"/bin/sh", "-c", script}, Env: hostEnv,
		Stdio: driver.Stdio{Stdout: said, Stderr: said}}, dir)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, i.Close()) }()
	if err := i.Start(ctx, func(driver.Phase) {}); err != nil {
		return out, err
	}
	out.exit, err = i.Wait(ctx)
	text, rerr := os.ReadFile(said.Name()) // also of a machine that ended early
	out.text = text
	if err = errors.Join(err, rerr); err != nil {
		return out, err
	}
	select {
	case <-i.Ended():
		out.off = true
	default:
	}
	return out, nil
}
