package vm

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/driver/drivertest"
	"github.com/tarelab/tare/internal/image"
	"github.com/tarelab/tare/internal/sys"
	"github.com/tarelab/tare/internal/vmm"
)

// smallInit does of systemd what a system's guest needs: it runs the unit that the agent
// has left, reports its own start, and powers off when the agent asks.
const smallInit = `#!/bin/sh
trap 'poweroff -f' 38
trap 'reboot -f' 39
echo "systemd[1]: systemd 0 running in system mode" >/dev/console
echo "systemd[1]: Reached target sysinit.target - System Initialization" >/dev/console
echo here >/written-by-the-guest
sync
$(sed -n 's/^ExecStart=//p' /run/systemd/system/multi-user.target.wants/tare-agent.service) &
echo "systemd[1]: Startup finished in 1.5s (kernel) + 2min 1ms (userspace) = 2min 1.501s." >/dev/console
while :; do wait; sleep 1; done
`

// smallSystem is a directory with that init.
func smallSystem(t *testing.T, lab driver.Lab) string {
	t.Helper()
	dir := t.TempDir()
	err := errors.Join(sys.CopyTree(dir, lab.TestRootfs), os.RemoveAll(filepath.Join(dir, "data")), os.MkdirAll(filepath.Join(dir, "sbin"), 0o755),
		os.WriteFile(filepath.Join(dir, "sbin/init"), []byte(smallInit), 0o755))
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// A machine boots the user's root file system by its own init, from a copy. The payload
// sees the root that it has on every target, and what systemd reports is kept. The same of
// a disk with partitions, packed as qcow2.
func TestSystem(t *testing.T) {
	lab := drivertest.New(t)
	root := smallSystem(t, lab)
	disk := partitioned(t, root)
	for _, v := range vmm.VMMs() {
		if !v.Can(vmm.Emulating) {
			continue // TestSystemOnStandIn boots it
		}
		for what, rootfs := range map[string]string{"directory": root, "qcow2 disk": disk} {
			t.Run(v.Name+" from a "+what, func(t *testing.T) {
				lab := lab
				lab.Guest.Rootfs = rootfs
				d := New(lab, v)
				if _, err := d.Locate(); err != nil {
					t.Skip(err)
				}
				s, err := d.home.system(t.Context())
				must(t, err)
				before, err := os.Stat(s.Disk)
				must(t, err)
				bootSystem(t, d)
				if after, err := os.Stat(s.Disk); err != nil || after.ModTime() != before.ModTime() {
					t.Errorf("the guest wrote to the disk that all boots begin with (%v)", err)
				}
			})
		}
	}
}

func bootSystem(t *testing.T, d *Driver) {
	t.Helper()
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	must(t, err)
	var lines collected[string]
	var phases collected[driver.Phase]
	exit, err := booted(t, d, driver.Spec{ID: "tare-system", Rootfs: d.lab.TestRootfs, Env: []string{"PATH=/bin"}, Console: lines.add,
		Args:  []string{"/bin/sh", "-c", "wc -c </data/pattern; ls -d /written* 2>/dev/null; grep -c ' / ext4' /proc/1/mounts; echo $(cat /proc/1/comm)"},
		Stdio: driver.Stdio{Stdout: out, Stderr: out}}, func(_ driver.Instance, p driver.Phase) { phases.add(p) })
	must(t, err)
	said, err := os.ReadFile(out.Name())
	must(t, err)
	if want := "1048569\n1\ninit\n"; string(said) != want {
		t.Errorf("the payload said %q, want %q", said, want)
	}
	systemBooted(t, exit, phases.all(), lines.all())
}

// collected keeps what came from several goroutines.
type collected[T any] struct {
	mu   sync.Mutex // guards what follows
	came []T
}

func (c *collected[T]) add(one T) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.came = append(c.came, one)
}

func (c *collected[T]) all() []T {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.came)
}

// systemBooted checks what is kept of a boot.
func systemBooted(t *testing.T, exit driver.Exit, phases []driver.Phase, lines []string) {
	t.Helper()
	if own := exit.Clock; own["systemd-kernel"] != 1500*time.Millisecond || own["systemd-userspace"] != 120001*time.Millisecond || own["guest-kernel"] <= 0 || own["guest-agent"] < own["guest-kernel"] {
		t.Errorf("by the guest's own clock: %v", own)
	}
	for _, want := range []driver.Phase{"init", "root", "modules", "agent", driver.PhaseOff} {
		if !slices.Contains(phases, want) {
			t.Errorf("marks %q lack %q", phases, want)
		}
	}
	if !strings.Contains(strings.Join(lines, "\n"), "Reached target sysinit.target") {
		t.Errorf("the console of %d lines was not passed on", len(lines))
	}
}

// partitioned is a tree on the second partition of a disk, packed.
func partitioned(t *testing.T, root string) string {
	t.Helper()
	dir := t.TempDir()
	raw, packed, fs := filepath.Join(dir, "disk1"), filepath.Join(dir, "disk.qcow2"), filepath.Join(dir, "fs")
	must(t, image.Ext4Of(t.Context(), fs, root, 64<<20))
	data, err := os.ReadFile(fs)
	must(t, err)
	f, err := os.Create(raw)
	must(t, err)
	_, err = f.WriteAt(data, 10<<20)
	must(t, errors.Join(err, f.Truncate(80<<20), f.Close()))
	table := exec.CommandContext(t.Context(), "sfdisk", "--quiet", raw)
	table.Stdin = strings.NewReader("label: gpt\nstart=2048, size=16384\nstart=20480, size=131072\n")
	for _, c := range []*exec.Cmd{table, exec.CommandContext(t.Context(), "qemu-img", "convert", "-O", "qcow2", raw, packed)} {
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v: %s", c.Args, err, out)
		}
	}
	return packed
}

// The same on StratoVirt's stand-in: each boot has a copy of the disk, which it may write
// to, and no guest is looked for on a disk that is the user's.
func TestSystemOnStandIn(t *testing.T) {
	lab := drivertest.New(t)
	lab.Guest.Kernel = filepath.Join(t.TempDir(), "kernel")
	kernel := make([]byte, 4096)
	copy(kernel[0x202:], "HdrS")
	must(t, os.WriteFile(lab.Guest.Kernel, kernel, 0o644))
	lab.Guest.Rootfs = smallSystem(t, lab)
	for _, v := range vmm.VMMs() {
		if v.Binary != "stratovirt" || v.Formats[0] != vmm.BzImage {
			continue
		}
		t.Run(v.Name, func(t *testing.T) {
			d, path := typeAt(t, lab, v.Name, "system")
			d.lab.ToolDirs = []string{filepath.Dir(path)}
			k, err := vmm.Inspect(lab.Guest.Kernel)
			must(t, err)
			d.home.proven[proofName(v.Name, path, k.Digest)] = proof{Accel: vmm.KVM}
			var lines collected[string]
			var phases collected[driver.Phase]
			dir := t.TempDir()
			inst, err := d.Prepare(t.Context(), driver.Spec{ID: "tare-system", Rootfs: lab.TestRootfs, Args: []string{"/bin/echo", "hello"}, Limits: driver.Limits{Memory: 256 << 20},
				Console: lines.add}, dir)
			if err != nil && strings.Contains(err.Error(), "it boots by UEFI") {
				t.Skip(err)
			}
			must(t, err)
			if info, err := os.Stat(filepath.Join(dir, "system.raw")); err != nil || info.Size() < systemRoom {
				t.Errorf("the boot has no copy of its own: %v", err)
			}
			must(t, inst.Start(t.Context(), phases.add))
			exit, err := inst.Wait(t.Context())
			must(t, errors.Join(err, inst.Close()))
			systemBooted(t, exit, phases.all(), lines.all())
		})
	}
}

// What is no root file system is refused by name.
func TestNoSystem(t *testing.T) {
	dir := t.TempDir()
	backed, empty, apart := filepath.Join(dir, "backed.qcow2"), filepath.Join(dir, "empty"), filepath.Join(dir, "apart.qcow2")
	head := append([]byte("QFI\xfb\x00\x00\x00\x03\x00\x00\x00\x00\x00\x00\x02\x00"), make([]byte, 200)...)
	must(t, os.WriteFile(backed, head, 0o600))
	head = append([]byte("QFI\xfb\x00\x00\x00\x03"), make([]byte, 200)...)
	head[79] = 4
	must(t, os.WriteFile(apart, head, 0o600))
	must(t, os.WriteFile(empty, make([]byte, 1<<20), 0o600))
	for rootfs, want := range map[string]string{
		backed:                     "a qcow2 image with a backing file",
		apart:                      "a qcow2 image with a data file",
		empty:                      "none of ext4, xfs, btrfs is found on it",
		filepath.Join(dir, "none"): "no such file",
	} {
		lab := drivertest.New(t)
		lab.Guest.Rootfs = rootfs
		_, err := SystemDisk(t.Context(), lab)
		var cannot *driver.CannotError
		if !errors.As(err, &cannot) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want a CannotError with %q", rootfs, err, want)
		}
	}
}

func TestPartitions(t *testing.T) {
	got, err := parsePartitions([]byte(`{"partitiontable":{"sectorsize":512,"partitions":[
		{"node":"/d/disk1p1","start":2048,"size":100},{"node":"/d/disk1p14","start":4096,"size":200}]}}`), "/d/disk1")
	if want := []partition{{"14", 4096 * 512, 200 * 512}, {"1", 2048 * 512, 100 * 512}}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
}
