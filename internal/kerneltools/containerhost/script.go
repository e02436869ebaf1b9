package containerhost

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/driver/vm"
	"github.com/tarelab/tare/internal/limit"
	"github.com/tarelab/tare/internal/sys"
	"github.com/tarelab/tare/internal/vmm"
)

// outcome is how a script went in a machine.
type outcome struct {
	text []byte // what it printed
	exit driver.Exit
	off  bool // the machine powered off in time
}

// mostOnce bounds a boot outside of any trial, against a script that hangs.
const mostOnce = 40 * time.Minute

// booter prepares a machine whose agent runs spec; dir is an empty directory.
type booter func(ctx context.Context, spec driver.Spec, dir string) (vm.Instance, error)

// once boots an arm and runs a script in it, outside of any trial.
func (m *hostParts) once(ctx context.Context, h *Host, a arm, disks []vmm.Disk, script string, tell func(string)) (outcome, error) {
	return once(ctx, h.lab.RunDir, func(ctx context.Context, spec driver.Spec, dir string) (i vm.Instance, err error) {
		path, err := h.Locate()
		if err != nil {
			return i, err
		}
		machine, err := h.machineOf(ctx, path, a)
		if err != nil {
			return i, err
		}
		machine.Disks = disks
		return h.boot(ctx, path, machine, spec, dir)
	}, script, tell)
}

// once runs a script in a machine of its own.
func once(ctx context.Context, runDir string, boot booter, script string, tell func(string)) (out outcome, err error) {
	ctx, cancel := context.WithTimeout(ctx, mostOnce)
	defer cancel()
	err = vmm.Again(tell, func() (err error) {
		out, err = oneBoot(ctx, runDir, boot, script)
		return err
	})
	return out, err
}

func oneBoot(ctx context.Context, runDir string, boot booter, script string) (out outcome, err error) {
	dir, err := os.MkdirTemp(runDir, driver.Label+"-host-")
	if err != nil {
		return out, driver.Labf("%w", err)
	}
	defer func() { err = errors.Join(err, sys.RemoveTree(dir)) }()
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	words, err := listen(end)
	if err != nil {
		return out, err
	}
	i, err := boot(ctx, driver.Spec{ID: filepath.Base(dir), Args: []string{"/bin/sh", "-c", script}, Env: hostEnv,
		Stdio: driver.Stdio{Stdout: words.to, Stderr: words.to}}, dir)
	if err != nil {
		words.end()
		return out, err
	}
	defer func() { err = errors.Join(err, i.Close()) }()
	err = i.Start(ctx, func(driver.Phase) {})
	if err == nil {
		out.exit, err = i.Wait(ctx)
	}
	out.text = words.end() // also of a machine that ended early
	var long *limit.Error
	if cause := context.Cause(ctx); errors.As(cause, &long) {
		err = driver.Labf("what the machine printed: %w", cause)
	}
	if err != nil {
		return out, err
	}
	select {
	case <-i.Ended():
		out.off = true
	default:
	}
	return out, nil
}

// words are what a guest's script prints, bounded: the guest is not trusted.
type words struct {
	from, to *os.File
	all      chan []byte
}

// listen collects until end. Who prints more than limit.ErrandText is ended by tooMuch.
func listen(tooMuch context.CancelCauseFunc) (*words, error) {
	from, to, err := os.Pipe()
	if err != nil {
		return nil, driver.Labf("%w", err)
	}
	w := &words{from: from, to: to, all: make(chan []byte, 1)}
	go func() {
		text, err := io.ReadAll(limit.ErrandText.Reader(from))
		var long *limit.Error
		if errors.As(err, &long) {
			tooMuch(err)
			_, _ = io.Copy(io.Discard, from) // until end
		}
		w.all <- text
	}()
	return w, nil
}

// end returns all that was printed.
func (w *words) end() []byte {
	w.to.Close()
	_ = w.from.SetReadDeadline(time.Now().Add(10 * time.Second)) // a writer that nobody ended; a pipe takes deadlines
	text := <-w.all
	w.from.Close()
	return text
}
