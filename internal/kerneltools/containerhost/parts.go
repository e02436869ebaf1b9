package containerhost

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/driver/vm"
	"github.com/tarelab/tare/internal/sys"
)

// hostParts are the parts of container hosts, kept between processes: the
// distribution's files, the disk, and trimmed kernels.
type hostParts struct {
	lab    driver.Lab
	guests *vm.Driver // any, for what all keep together
	dir    string
	mu     sync.Mutex        // guards what follows, and one making at a time
	keys   map[string]string // of disks, by image
}

func newHostParts(lab driver.Lab, guests *vm.Driver) *hostParts {
	return &hostParts{lab: lab, guests: guests, dir: filepath.Join(vm.GuestsDir(lab), "hosts"), keys: map[string]string{}}
}

// locked runs what makes parts, one process at a time.
func (m *hostParts) locked(ctx context.Context, tell func(string), do func() error) error {
	if m.lab.CacheDir == "" {
		return &driver.CannotError{Target: "vm", Lacks: "there is no directory to keep the disk and kernels in", Remedy: "set HOME or XDG_CACHE_HOME"}
	}
	if err := os.MkdirAll(m.dir, 0o755); err != nil {
		return driver.Labf("container host: %w", err)
	}
	f, err := sys.LockFile(ctx, filepath.Join(m.dir, "lock"), func() { tell("waiting for another process that makes the container host") })
	if err != nil {
		return driver.Labf("container host: %w", err)
	}
	defer f.Close()
	return do()
}

// command runs a program that takes long, whose words are kept.
func (m *hostParts) command(ctx context.Context, log, program string, args ...string) error {
	f, err := os.Create(filepath.Join(m.dir, log))
	if err != nil {
		return driver.Labf("container host: %w", err)
	}
	defer f.Close()
	c := exec.CommandContext(ctx, program, args...)
	c.Stdout, c.Stderr = f, f
	c.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	sys.EndsWithUs(c)
	c.Cancel = func() error { return unix.Kill(-c.Process.Pid, unix.SIGTERM) }
	c.WaitDelay = 10 * time.Second
	if err := c.Run(); err != nil {
		text, rerr := os.ReadFile(f.Name())
		return errors.Join(ctx.Err(), driver.Labf("%s: %w: %s (all of it: %s)", filepath.Base(program), err, lastWords(text), f.Name()), rerr)
	}
	return nil
}

// forVariant makes what an arm boots, and gives its disk.
func (m *hostParts) forVariant(ctx context.Context, h *Host, a arm, tell func(string)) (string, error) {
	disk, err := m.disk(ctx, h, h.lab.TestRootfs, h.lab.TestImage, tell)
	if err == nil && a.packed != "" {
		_, err = m.trimmed(ctx, a, tell)
	}
	return disk, err
}

// there reports whether all parts of an arm are made.
func (m *hostParts) there(oci string, a arm) bool {
	if m.lab.CacheDir == "" {
		return false
	}
	key, err := m.diskKey(oci)
	if err != nil {
		return false
	}
	files := []string{m.baseDir(), m.diskFile(key)}
	if !a.stock() {
		dir, _, err := m.kernelDir(a)
		if err != nil {
			return false
		}
		files = append(files, filepath.Join(dir, "kernel.json"))
	}
	return !slices.ContainsFunc(files, func(file string) bool { _, err := os.Stat(file); return err != nil })
}

// notes are the facts of an arm's parts: versions, and sizes in bytes.
func (m *hostParts) notes(ctx context.Context, a arm) (map[string]string, error) {
	notes := map[string]string{"initrd-bytes": "0"}
	k, err := m.kernelOf(ctx, a)
	if err != nil {
		return nil, err
	}
	initrd, err := m.initrdOf(ctx, a)
	if err != nil {
		return nil, err
	}
	notes["kernel"], notes[driver.NoteGuestKernel] = fmt.Sprintf("%s (%s)", k.Version, k.Format), k.Digest
	for note, file := range map[string]string{"kernel-bytes": k.Path, "initrd-bytes": initrd} {
		if file == "" {
			continue
		}
		info, err := os.Stat(file)
		if err != nil {
			return nil, driver.Labf("container host: %w", err)
		}
		notes[note] = fmt.Sprint(info.Size())
	}
	config := filepath.Join(m.baseDir(), "boot", "config-"+k.Version)
	if !a.stock() {
		config = filepath.Join(filepath.Dir(k.Path), "config")
	}
	c, err := readConfig(config)
	if err != nil {
		return nil, err
	}
	notes["symbols"] = countSymbols(c)
	if !a.toProve() {
		return notes, nil
	}
	return notes, m.proven(a, k, notes)
}
