package boots

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tarelab/tare/helpers"
	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/driver/drivertest"
	"github.com/tarelab/tare/internal/driver/vm"
	"github.com/tarelab/tare/internal/image"
	"github.com/tarelab/tare/internal/kerneltools/bootstudy"
	"github.com/tarelab/tare/internal/lab"
	"github.com/tarelab/tare/internal/net/nettest"
	"github.com/tarelab/tare/internal/sys"
	"github.com/tarelab/tare/internal/vmm"
)

// monitor stands for Firecracker: its console is its standard output, and what it
// boots it reads in the file of its machine.
const monitor = `#!/bin/sh
echo 'Linux version 6.1.0-test (x@y)'
sed -n 's/.*"path_on_host": "\(.*\)",*/\1/p' machine.json | while read -r disk; do echo written >>"$disk"; done
case "$(cat machine.json)" in
*/dies\"*)
	echo 'Kernel panic - not syncing: no root'
	exit 0 ;;
*/off\"*)
	echo 'reboot: Power down'
	exit 0 ;;
esac
echo 'Run /sbin/init as init process'
echo 'systemd[1]: Startup finished in 1.5s (kernel) + 2.25s (userspace) = 3.75s.'
echo 'host login: '
exec sleep 60
`

// scripted is the driver of that monitor.
type scripted struct {
	driver.Driver
	path  string
	notes map[string]string
	err   error // of its check
}

func (scripted) Name() string                  { return "firecracker" }
func (scripted) Properties() driver.Properties { return driver.Properties{} }
func (s scripted) Check(context.Context) (driver.Facts, error) {
	if s.err != nil {
		return driver.Facts{Path: s.path, Version: "0", Notes: s.notes}, s.err
	}
	return driver.Facts{Path: s.path, Version: "0", Notes: map[string]string{driver.NoteAccel: string(vmm.TCG)}}, nil
}

// bench is a laboratory of these drivers, which all work.
type bench struct {
	config  lab.Config
	place   driver.Lab
	drivers []driver.Driver
}

func (b bench) Config() lab.Config { return b.config }
func (b bench) Place() driver.Lab  { return b.place }
func (b bench) GuestRoot(_ context.Context, ref string) (string, error) {
	return ref, nil
}
func (b bench) Drivers(context.Context, ...string) ([]driver.Driver, error) {
	return b.drivers, nil
}
func (b bench) Check(ctx context.Context, drivers []driver.Driver, _ bool) (all []lab.Finding) {
	for _, d := range drivers {
		facts, err := d.Check(ctx)
		all = append(all, lab.Finding{Target: d.Name(), Facts: facts, Err: err})
	}
	return all
}

// bootLab is a laboratory with that monitor, and kernels of these names.
func bootLab(t *testing.T, boots int, names ...string) (bench, Options) {
	t.Helper()
	if runtime.GOARCH != "amd64" {
		t.Skip("the kernels of this test are x86's")
	}
	dir := t.TempDir()
	if err := helpers.Extract(dir); err != nil {
		t.Fatal(err)
	}
	write := func(name string, data []byte) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, data, 0o755); err != nil {
			t.Fatal(err)
		}
		return file
	}
	l := bench{config: lab.Config{StateDir: dir}, place: driver.Lab{RunDir: dir, LaunchPath: filepath.Join(dir, "launch")},
		drivers: []driver.Driver{scripted{path: write("monitor", []byte(monitor))}}}
	o := Options{On: []string{"firecracker"}, CPUs: 1, Memory: 1 << 30, Boots: boots, Until: regexp.MustCompile("login:"), Timeout: time.Minute}
	var head bytes.Buffer
	if err := binary.Write(&head, binary.LittleEndian, elf.Header64{Ident: [16]byte{0x7f, 'E', 'L', 'F', 2, 1, 1}, Type: 2, Machine: 62, Version: 1, Phoff: 64, Ehsize: 64, Phentsize: 56}); err != nil {
		t.Fatal(err)
	}
	kernel := append(head.Bytes(), make([]byte, 4096-head.Len())...) // as much of a vmlinux as is looked at
	for _, name := range names {
		o.Kernels = append(o.Kernels, Kernel{Name: name, Kernel: write(name, kernel)})
	}
	return l, o
}

// A boot that fails leaves the others, and its console, in the run.
func TestBootsAreARun(t *testing.T) {
	l, o := bootLab(t, 2, "well", "off", "dies")
	events := 0
	run, err := Run(t.Context(), l, o, func(lab.Event) { events++ })
	if err != nil {
		t.Fatal(err)
	}
	if events != 12 {
		t.Errorf("%d events, want 2 of each of 6 boots", events)
	}
	for r, err := range run.Records() {
		if err != nil {
			t.Fatal(err)
		}
		console, ok, err := run.Log(r.Seq)
		if err != nil || !ok || !strings.Contains(string(console), "] Linux version 6.1.0-test") {
			t.Errorf("the console of boot %d (%s) is %q (%v)", r.Seq, r.Cell, console, err)
		}
		died := r.Cell == "dies/boot"
		if died != (r.Failure != nil) || died && !strings.Contains(r.Failure.Message, "kernel panicked: Kernel panic - not syncing: no root") {
			t.Errorf("%s failed with %+v", r.Cell, r.Failure)
		}
		if died && (r.Failure.Reached["kernel"] <= 0 || r.Failure.Reached["ready"] != 0) {
			t.Errorf("the boot that failed had reached %v", r.Failure.Reached)
		}
		for _, metric := range []string{"ready", "kernel", "cpu", "wall"} {
			if !died && len(r.Values[metric]) != 1 {
				t.Errorf("%s has no %s: %v", r.Cell, metric, r.Values)
			}
		}
		if r.Cell == "off/boot" && (r.Values["init"] != nil || r.Values["off"] != nil) {
			t.Errorf("a machine that switched itself off: %v", r.Values)
		}
	}
	numbers, in, err := lab.Report(run)
	if err != nil {
		t.Fatal(err)
	}
	c, err := bootstudy.Of(run, numbers, in.Claims.Tables)
	if err != nil || c.Whole != bootstudy.Until || len(c.Targets) != 2 || len(c.Profiles) != 2 || in.Claims.Failures != 2 {
		t.Fatalf("%+v", c)
	}
	if p := c.Parts[0]; p.Image != 4096 || !strings.Contains(p.What, "well") {
		t.Errorf("the first kernel is %+v", p)
	}
	if _, err := (&lab.Lab{}).Resume(t.Context(), run, false); !errors.As(err, new(*lab.InputError)) {
		t.Errorf("such a run was resumed: %v", err)
	}
}

// A VMM without private copies of disks gets one for each boot, which is removed, and the
// user's disk is not written to. What systemd reports of its start is kept.
func TestBootsFromACopy(t *testing.T) {
	l, o := bootLab(t, 2, "well")
	o.Rootfs = filepath.Join(l.config.StateDir, "disk")
	if err := image.EmptyExt4(t.Context(), o.Rootfs, 8<<20); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(o.Rootfs)
	if err != nil {
		t.Fatal(err)
	}
	run, err := Run(t.Context(), l, o, func(lab.Event) {})
	if err != nil {
		t.Fatal(err)
	}
	for r, err := range run.Records() {
		if err != nil || r.Failure != nil {
			t.Fatalf("%+v, %v", r.Failure, err)
		}
		if k, u := r.Values["systemd-kernel"], r.Values["systemd-userspace"]; !slices.Equal(k, []float64{1.5}) || !slices.Equal(u, []float64{2.25}) {
			t.Errorf("by systemd the kernel took %v s and userspace %v s", k, u)
		}
	}
	if after, err := os.ReadFile(o.Rootfs); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the user's disk was written to (%v)", err)
	}
	left, err := filepath.Glob(filepath.Join(l.place.RunDir, driver.Label+"-boot-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("copies are left: %q (%v)", left, err)
	}
}

// Where KVM runs no guest of tare's, a kernel of the user's is tried on it: its boot is
// measured as far as it goes. Without KVM, or without a kernel, the reason is told.
func TestUnprovenKVM(t *testing.T) {
	l, o := bootLab(t, 1, "well")
	cannot := &driver.CannotError{Target: "firecracker", Lacks: "no guest reaches user mode"}
	stand := l.drivers[0].(scripted)
	stand.err, stand.notes = cannot, map[string]string{driver.NoteNoKVM: "no guest reaches user mode"}
	l.drivers[0] = stand
	run, err := Run(t.Context(), l, o, func(lab.Event) {})
	if unix.Access("/dev/kvm", unix.R_OK|unix.W_OK) != nil {
		if !errors.Is(err, cannot) {
			t.Errorf("without KVM: %v", err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if facts := run.Manifest().Targets["well"]; facts.Notes[driver.NoteAccel] != "kvm" || len(run.Done()) != 1 {
		t.Errorf("%+v", facts)
	}
	stand.notes = nil
	l.drivers[0] = stand
	if _, err := Run(t.Context(), l, o, func(lab.Event) {}); !errors.Is(err, cannot) {
		t.Errorf("what fails for another reason: %v", err)
	}
}

// Ctrl-C leaves what has ended.
func TestInterruptedBootsAreKept(t *testing.T) {
	l, o := bootLab(t, 3, "well")
	ctx, cancel := context.WithCancel(t.Context())
	run, err := Run(ctx, l, o, func(e lab.Event) {
		if e.Record != nil && e.Done == 2 {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) || run == nil {
		t.Fatalf("%v, %v", run, err)
	}
	if done := len(run.Done()); done != 2 {
		t.Errorf("%d boots are kept, want 2", done)
	}
	left, err := filepath.Glob(filepath.Join(l.place.RunDir, driver.Label+"-boot-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("directories of machines are left: %q (%v)", left, err)
	}
}

// What no machine can be made of is said before a run is made.
func TestBootsRefuse(t *testing.T) {
	for what, spoil := range map[string]func(*Options){
		"no virtual machine \"nemu\"":      func(o *Options) { o.On = []string{"nemu"} },
		"has at most 32":                   func(o *Options) { o.CPUs = 33 },
		"the root file system /disk":       func(o *Options) { o.Rootfs = "/disk" },
		"name at least one, or a --rootfs": func(o *Options) { o.Kernels = nil },
		"--kernel: kernel /dev/null: ":     func(o *Options) { o.Kernels[0].Kernel = "/dev/null" },
	} {
		l, o := bootLab(t, 1, "well")
		spoil(&o)
		run, err := Run(t.Context(), l, o, func(lab.Event) {})
		if run != nil || !errors.As(err, new(*lab.InputError)) || !strings.Contains(err.Error(), what) {
			t.Errorf("%v, want %q", err, what)
		}
	}
}

// asksInit is the first process of a system that asks its network for an address.
const asksInit = `#!/bin/sh
mount -t proc proc /proc
ip link set eth0 up
udhcpc -q -n -i eth0 -s /asked >/dev/console 2>&1
echo "login: " >/dev/console
sleep 60
`

// asked is what it does with the answer.
const asked = `#!/bin/sh
[ "$1" != bound ] || echo "has $ip/$mask by $router" >/dev/console
`

// A system of the user's finds a network where it asks for its address, and nothing of it
// is left.
func TestBootsOnANetwork(t *testing.T) {
	place := drivertest.New(t)
	if !place.Root {
		t.Skip("not root: network namespaces cannot be made")
	}
	machine := "qemu/virt"
	if runtime.GOARCH == "amd64" {
		machine = "qemu/microvm"
	}
	v, ok := vmm.ByName(machine)
	if !ok {
		t.Skip("no such machine: " + machine)
	}
	d := vm.New(place, v)
	if _, err := d.Locate(); err != nil {
		t.Skip(err)
	}
	root := t.TempDir()
	err := errors.Join(sys.CopyTree(root, place.TestRootfs), os.MkdirAll(filepath.Join(root, "sbin"), 0o755),
		os.WriteFile(filepath.Join(root, "sbin/init"), []byte(asksInit), 0o755), os.WriteFile(filepath.Join(root, "asked"), []byte(asked), 0o755))
	if err != nil {
		t.Fatal(err)
	}
	before := nettest.State(t)
	l := bench{config: lab.Config{StateDir: t.TempDir()}, place: place, drivers: []driver.Driver{d}}
	o := Options{On: []string{v.Name}, Rootfs: root, CPUs: 1, Memory: 512 << 20, Boots: 1, Until: regexp.MustCompile("login:"), Timeout: 3 * time.Minute, Network: true}
	run, err := Run(t.Context(), l, o, func(lab.Event) {})
	if err != nil {
		t.Fatal(err)
	}
	for r, err := range run.Records() {
		if err != nil || r.Failure != nil {
			t.Fatalf("%+v, %v", r.Failure, err)
		}
		console, _, err := run.Log(r.Seq)
		if err != nil || !bytes.Contains(console, []byte("has 10.213.0.2/20 by 10.213.0.1")) {
			t.Errorf("the guest has no address (%v):\n%s", err, console)
		}
	}
	if after := nettest.State(t); after != before {
		t.Errorf("the machine's own network was changed:\n%s\nbefore:\n%s", after, before)
	}
}
