package vm_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/driver/drivertest"
	"github.com/tarelab/tare/internal/driver/vm"
	"github.com/tarelab/tare/internal/vmm"
)

// Each device is proven by what the guest has: a balloon leaves it less memory, hotplug
// gives it more, and the files of a workload lie on a disk or on virtio-fs. What the VMM,
// its kernel or this machine lacks is skipped with the reason.
func TestDevices(t *testing.T) {
	v, ok := vmm.ByName(vmm.QEMUQ35)
	if !ok {
		t.Skip("the machine with all devices is x86's")
	}
	lab := drivertest.New(t)
	d := vm.New(lab, v)
	var cannot *driver.CannotError
	if _, err := d.Check(t.Context()); errors.As(err, &cannot) {
		t.Skip(cannot)
	}
	const mib = 1 << 20
	usual := memoryOf(t, lab, d, driver.Devices{}, "ext4", "")
	for name, c := range map[string]struct {
		devices  driver.Devices
		low, top int64 // what it changes of the guest's memory; a kernel that may be given memory above 4 GiB keeps 64 MiB for bounce buffers
		files    string
		mark     driver.Phase
	}{
		"balloon":   {driver.Devices{Balloon: 128 * mib}, -130 * mib, -126 * mib, "ext4", "ballooned"},
		"hotplug":   {driver.Devices{Hotplug: 128 * mib}, 40 * mib, 128 * mib, "ext4", "plugged"},
		"virtio-fs": {driver.Devices{VirtioFS: true}, -8 * mib, 8 * mib, "virtiofs", ""},
		"iothread":  {driver.Devices{IOThread: true}, -8 * mib, 8 * mib, "ext4", ""},
	} {
		t.Run(name, func(t *testing.T) {
			if err := d.Properties().Machine.Takes(t.Context(), driver.Limits{}, c.devices); errors.As(err, &cannot) {
				t.Skip(cannot)
			} else if err != nil {
				t.Fatal(err)
			}
			if more := memoryOf(t, lab, d, c.devices, c.files, c.mark) - usual; more < c.low || more > c.top {
				t.Errorf("its guest has %d MiB more than without it, want %d to %d", more/mib, c.low/mib, c.top/mib)
			}
		})
	}
}

var memTotal = regexp.MustCompile(`MemTotal: +(\d+) kB`)

// memoryOf boots a guest with these devices and gives its memory, in bytes; its files lie
// on a file system of that type, and its start has the mark.
func memoryOf(t *testing.T, lab driver.Lab, d driver.Driver, devices driver.Devices, files string, mark driver.Phase) int64 {
	t.Helper()
	script := "grep MemTotal /proc/meminfo; echo written >/files/f && cat /files/f && grep ' /files ' /proc/mounts"
	var said string
	err := vmm.Again(func(text string) { t.Log(text) }, func() (err error) {
		said, err = guestSays(t, lab, d, devices, script, mark)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	found := memTotal.FindStringSubmatch(said)
	if found == nil || !strings.Contains(said, "written\n") || !strings.Contains(said, " /files "+files+" ") {
		t.Fatalf("it says %q, want its files on %s", said, files)
	}
	kilobytes, err := strconv.ParseInt(found[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return kilobytes << 10
}

func guestSays(t *testing.T, lab driver.Lab, d driver.Driver, devices driver.Devices, script string, mark driver.Phase) (said string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		return "", err
	}
	defer out.Close()
	dir := t.TempDir()
	inst, err := d.Prepare(ctx, driver.Spec{ID: "tare-devices", Rootfs: lab.TestRootfs, Args: []string{"/bin/sh", "-c", script}, Env: []string{"PATH=/bin"},
		Stdio: driver.Stdio{Stdout: out, Stderr: out}, Disk: "/files", Devices: devices}, dir)
	if err != nil {
		return "", err
	}
	var mu sync.Mutex
	seen := map[driver.Phase]bool{"": true}
	err = inst.Start(ctx, func(p driver.Phase) {
		mu.Lock()
		defer mu.Unlock()
		seen[p] = true
	})
	var exit driver.Exit
	if err == nil {
		exit, err = inst.Wait(ctx)
	}
	if err = errors.Join(err, inst.Close()); err != nil {
		return "", err
	}
	mu.Lock()
	defer mu.Unlock()
	if !seen[mark] {
		t.Errorf("marks %v lack %s", seen, mark)
	}
	text, err := os.ReadFile(out.Name())
	if err == nil && exit.Code != 0 {
		err = fmt.Errorf("it ended with code %d and said %q", exit.Code, text)
	}
	for _, left := range []string{"qmp", "virtiofs"} { // sockets; what the instance's files are is the caller's to remove
		if info, statErr := os.Lstat(filepath.Join(dir, left)); statErr == nil && !info.IsDir() {
			t.Errorf("left is %s", left)
		}
	}
	return string(text), err
}
