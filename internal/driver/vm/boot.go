package vm

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"path/filepath"
	"strings"
	"time"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/vmm"
)

// What follows is for packages whose targets boot machines of their own by these
// drivers, with another kernel and another disk than guests have.

// Boot is a machine whose agent runs a payload.
type Boot struct {
	Path     string                     // of the VMM's program
	Machine  vmm.Machine                // with an agent
	Spec     driver.Spec                // as the agent is asked for it
	Dir      string                     // an existing empty directory
	Off      time.Duration              // that it may take to power off; Close ends one that takes longer
	Patience map[vmm.Mark]time.Duration // how long each mark may take
	Slow     bool                       // as in vmm.Config
}

// Instance is a machine that was booted by Boot.
type Instance struct{ *instance }

// Ended is closed when the VMM has ended.
func (i Instance) Ended() <-chan struct{} { return i.vm.Ended() }

// Boot prepares a machine. Its console's milestones are phases, and Spec.Console gets
// its lines and, at the end, the names of its processes.
func (d *Driver) Boot(ctx context.Context, b Boot) (Instance, error) {
	i, err := d.prepare(ctx, b, true)
	if err != nil {
		return Instance{}, err
	}
	if tell := b.Spec.Console; tell != nil {
		i.seen = func(process string) { tell("tare: process " + process) }
	} else {
		i.seen = func(string) {}
	}
	return Instance{i}, nil
}

// prepare prepares a machine; of one that boots a system, the console's lines count.
func (d *Driver) prepare(ctx context.Context, b Boot, system bool) (*instance, error) {
	i := &instance{driver: d, spec: b.Spec, memory: b.Machine.Mapped(), from: b.Machine.From, off: b.Off, result: make(chan result, 1)}
	config := vmm.Config{VMM: d.vmm, Path: b.Path, Machine: b.Machine, Dir: b.Dir, Launcher: d.lab.LaunchPath, Cgroup: b.Spec.Group(driver.RolePayload),
		Network: b.Spec.Join.Namespace, Slow: b.Slow, Mark: func(at vmm.Mark) { i.mark(driver.Phase(at)) }, Patience: b.Patience}
	if system {
		config.Line = i.lines()
	}
	if err := i.open(ctx, config); err != nil {
		return nil, errors.Join(err, i.Close())
	}
	return i, nil
}

// lines takes a console's lines: its milestones are phases, and what systemd says of its
// start is of the guest's own clock.
func (i *instance) lines() func(string) {
	milestone := vmm.Milestones(func(name string) { i.mark(driver.Phase(name)) })
	return func(text string) {
		milestone(text)
		if own := vmm.SystemdTimes(text); own != nil {
			i.note(own)
		}
		if i.spec.Console != nil {
			i.spec.Console(text)
		}
	}
}

// Acceleration is what runs the CPU of this VMM's guests, as a boot of the
// distribution's kernel proves.
func (d *Driver) Acceleration(ctx context.Context, path string) (vmm.Accel, error) {
	g, err := d.home.kernelFor(ctx, d)
	if err != nil {
		return "", err
	}
	p, err := d.home.acceleration(ctx, d, path, g)
	return p.Accel, err
}

// NoteAcceleration notes it, and why it is not KVM.
func (d *Driver) NoteAcceleration(ctx context.Context, path string, notes map[string]string) error {
	g, err := d.home.kernelFor(ctx, d)
	if err != nil {
		return err
	}
	return d.accelerated(ctx, path, g, notes)
}

// AgentInitramfs is the path of an initramfs that holds the agent alone.
func (d *Driver) AgentInitramfs(ctx context.Context) (string, error) {
	return d.home.initramfs(ctx, guestKernel{}, "", "")
}

// Kept is the path of a file of that name, which build makes where it is not there. It
// is there whole or not at all, and goes when nobody has used it for Unused.
func (d *Driver) Kept(name string, build func(file string) error) (string, error) {
	return d.home.kept(name, build)
}

// GuestsDir is the directory, below lab.CacheDir, of what is kept of guests.
func GuestsDir(lab driver.Lab) string { return filepath.Join(lab.CacheDir, "guests") }

// Digest names a thing by what it is made of.
func Digest(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:])
}
