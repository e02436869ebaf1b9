package vm

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/driver/drivertest"
	"github.com/tarelab/tare/internal/vmm"
)

// The proof of KVM that failed holds for a while, one that did not for as long as
// nothing changes.
func TestProofsOfKVMHold(t *testing.T) {
	long, now := time.Now().Add(-2*failureHolds), time.Now()
	for name, c := range map[string]struct {
		kept   proof
		change func(t *testing.T, h *home)
		want   vmm.Accel // "" where it is to be made anew
	}{
		"a failure":                 {proof{Accel: vmm.TCG, Why: "it hangs", When: now}, nil, vmm.TCG},
		"a failure of long ago":     {proof{Accel: vmm.TCG, Why: "it hangs", When: long}, nil, ""},
		"without its time":          {proof{Accel: vmm.TCG, Why: "it hangs"}, nil, ""},
		"no channel":                {proof{Accel: vmm.KVM, Deaf: "tty:/dev/hvc0", When: now}, nil, vmm.KVM},
		"no channel long ago":       {proof{Accel: vmm.KVM, Deaf: "tty:/dev/hvc0", When: long}, nil, ""},
		"success of long ago":       {proof{Accel: vmm.KVM, When: long}, nil, vmm.KVM},
		"other rights":              {proof{Accel: vmm.TCG, Why: "it hangs", When: now}, func(t *testing.T, h *home) { must(t, os.Chmod(h.device, 0o640)) }, ""},
		"another device":            {proof{Accel: vmm.KVM, When: now}, func(t *testing.T, h *home) { must(t, os.Rename(h.device+"2", h.device)) }, ""},
		"another VMM":               {proof{Accel: vmm.TCG, Why: "it hangs", When: now}, func(t *testing.T, h *home) { must(t, os.WriteFile(h.lab.LaunchPath, []byte("new"), 0o600)) }, ""},
		"the device has gone":       {proof{Accel: vmm.KVM, When: now}, func(t *testing.T, h *home) { must(t, os.Remove(h.device)) }, vmm.TCG},
		"the user wants it proven":  {proof{Accel: vmm.TCG, Why: "it hangs", When: now}, func(t *testing.T, h *home) { must(t, h.forget()) }, ""},
		"what is kept is not whole": {proof{}, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			h := &home{dir: t.TempDir(), proven: map[string]proof{}}
			h.device, h.lab.InitPath, h.lab.LaunchPath = h.dir+"/kvm0", h.dir+"/init", h.dir+"/vmm"
			for _, file := range []string{h.device, h.device + "2", h.lab.InitPath, h.lab.LaunchPath} {
				must(t, os.WriteFile(file, []byte(file), 0o600))
			}
			key, err := h.proofKey("stratovirt/microvm", h.lab.LaunchPath, "sha256:1")
			must(t, err)
			text, err := json.Marshal(c.kept)
			must(t, err)
			must(t, os.Mkdir(h.dir+"/kvm", 0o700))
			must(t, os.WriteFile(filepath.Join(h.dir, "kvm", key+".json"), text, 0o600))
			if c.change != nil {
				c.change(t, h)
			}
			// A check that had found what was kept must be made again where that no longer holds.
			found := driver.Facts{Path: h.lab.LaunchPath, Notes: map[string]string{driver.NoteGuestKernel: "sha256:1", driver.NoteAccel: string(c.kept.Accel)}}
			if c.kept.Accel == vmm.TCG {
				found.Notes[driver.NoteNoKVM] = c.kept.Why
			}
			stale := (&Driver{home: h, vmm: vmm.VMM{Name: "stratovirt/microvm"}}).Stale(found)
			p, _, err := h.remembered("stratovirt/microvm", h.lab.LaunchPath, "sha256:1")
			if err != nil || p.Accel != c.want {
				t.Errorf("%+v, %v; want %q", p, err, c.want)
			}
			if p, _, err := h.remembered("stratovirt/q35", h.lab.LaunchPath, "sha256:1"); name != "the device has gone" && (err != nil || p.Accel != "") {
				t.Errorf("its sibling of the same program has %+v, %v", p, err)
			}
			if want := c.kept.Accel != "" && c.want != c.kept.Accel; stale != want {
				t.Errorf("stale: %v, want %v", stale, want)
			}
		})
	}
}

// A user without rights on /dev/kvm is told what to do, and nothing is proven or
// kept: joining the group is enough.
func TestNoRightsOnKVM(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("not root: another user's rights cannot be taken")
	}
	h := &home{dir: t.TempDir(), device: filepath.Join(t.TempDir(), "kvm"), proven: map[string]proof{}}
	must(t, os.WriteFile(h.device, nil, 0o600))
	runtime.LockOSThread() // whose rights alone are taken (setfsuid(2))
	must(t, unix.Setfsuid(65534))
	p, file, err := h.remembered("qemu/microvm", "/usr/bin/qemu", "sha256:1")
	must(t, unix.Setfsuid(0))
	runtime.UnlockOSThread()
	if want := "this user may not open /dev/kvm (join the group kvm)"; err != nil || p.Accel != vmm.TCG || p.Why != want || file != "" {
		t.Errorf("%+v in %q, %v; want %q", p, file, err, want)
	}
}

// What a boot under KVM shows is told by how far it came: a guest whose agent finds
// no channel has run under KVM, one that dies at its first process has not.
func TestWhatABootUnderKVMShows(t *testing.T) {
	failed := errors.New("it failed; the console ends:\n...")
	for name, c := range map[string]struct {
		console []string
		failed  error
		want    proof
	}{
		"heard":          {[]string{"tare: init"}, nil, proof{Accel: vmm.KVM}},
		"no channel":     {[]string{"[1.0] Run /.tare/init as init process", "tare: init", "tare: no channel to the host: tty:/dev/hvc0: No such device"}, failed, proof{Accel: vmm.KVM, Deaf: "tty:/dev/hvc0: No such device"}},
		"then it hangs":  {[]string{"\x1b[0mtare: init"}, failed, proof{Accel: vmm.TCG, Why: "a guest under KVM reached user mode here, and no farther: it failed; the console ends:"}},
		"no system call": {[]string{"[1.0] Run /.tare/init as init process", "[1.1] Kernel panic - not syncing: Attempted to kill init!"}, failed, proof{Accel: vmm.TCG, Why: "no guest reaches user mode under KVM here: it failed; the console ends:", Until: vmm.MarkInit}},
		"no kernel":      {[]string{"[0.1] Linux version 6.1.0"}, failed, proof{Accel: vmm.TCG, Why: "no guest reaches user mode under KVM here: it failed; the console ends:"}},
	} {
		t.Run(name, func(t *testing.T) {
			var said agentWords
			for _, line := range c.console {
				said.take(line)
			}
			if got := said.proof(c.failed); got != c.want {
				t.Errorf("%+v, want %+v", got, c.want)
			}
		})
	}
}

// Who waits for another machine's proof of KVM can be called off, and its check has the
// time for all of them; what is known waits for nobody.
func TestProofsTakeTurns(t *testing.T) {
	lab := drivertest.New(t)
	lab.CacheDir = t.TempDir()
	d, path := machineAt(t, lab, "no-virtio")
	d.home.device = filepath.Join(t.TempDir(), "kvm")
	must(t, os.WriteFile(d.home.device, nil, 0o600))
	g := guestKernel{kernel: vmm.Kernel{Path: "/kernel", Digest: "sha256:1"}}
	d.home.proofs <- struct{}{} // another's
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	if p, err := d.home.proof(ctx, d, path, g); !errors.Is(err, context.Canceled) || p.Accel != "" || !strings.Contains(err.Error(), "stratovirt/microvm: waiting") {
		t.Errorf("who was called off has %+v, %v", p, err)
	}
	d.home.proven[proofName(d.vmm.Name, path, g.kernel.Digest)] = proof{Accel: vmm.KVM}
	if p, err := d.home.proof(t.Context(), d, path, g); err != nil || p.Accel != vmm.KVM {
		t.Errorf("what is known is %+v, %v", p, err)
	}
	if need, has := time.Duration(len(vmm.VMMs()))*25*time.Second, d.Properties().CheckTime; has < need {
		t.Errorf("a check has %v beside its own, and the proofs may take %v", has, need)
	}
}

// A guest without a channel is told with the agent's own line and the symbols that its
// kernel lacks, and the sibling of the same program is proven by itself.
func TestNoChannelUnderKVM(t *testing.T) {
	lab := drivertest.New(t)
	lab.CacheDir = t.TempDir()
	d, path := machineAt(t, lab, "no-virtio")
	d.home.device = filepath.Join(t.TempDir(), "kvm")
	must(t, os.WriteFile(d.home.device, nil, 0o600))
	g := guestKernel{kernel: vmm.Kernel{Path: "/kernel", Version: "6.1.0-stock", Digest: "sha256:1"}}
	p, err := d.home.acceleration(t.Context(), d, path, g)
	var cannot *driver.CannotError
	if p.Accel != vmm.KVM || p.Why != "" || !errors.As(err, &cannot) ||
		!strings.Contains(cannot.Lacks, "kernel 6.1.0-stock finds no channel on stratovirt/microvm: tty:/dev/hvc0: No such device") ||
		!strings.Contains(cannot.Remedy, "VIRTIO_MMIO_CMDLINE_DEVICES") {
		t.Errorf("%+v, %v", p, err)
	}
}

// A kernel that comes up under KVM and runs no user mode is a boot that ends there: its
// check says so and proves no payload, its machine outlives the panic, and the marks of
// a boot come with the panic's own. A restored guest has no such boot.
func TestBootsToInit(t *testing.T) {
	lab := drivertest.New(t)
	lab.CacheDir = t.TempDir()
	d, path := machineAt(t, lab, "no-user")
	d.home.device = filepath.Join(t.TempDir(), "kvm")
	must(t, os.WriteFile(d.home.device, nil, 0o600))
	g := guestKernel{kernel: vmm.Kernel{Path: "/kernel", Digest: "sha256:1"}}
	notes := map[string]string{driver.NoteGuestKernel: "sha256:1"}
	if err := d.accelerated(t.Context(), path, g, notes); err != nil {
		t.Fatal(err)
	}
	if notes[driver.NoteAccel] != "kvm" || notes[driver.NoteBootsTo] != "init" || !strings.Contains(notes[driver.NoteNoKVM], "Attempted to kill init!") {
		t.Errorf("notes %v", notes)
	}
	if d.Stale(driver.Facts{Path: path, Notes: notes}) {
		t.Error("what was found just now is stale")
	}
	_, _, phases, err := bootOn(t, d, path)
	if err == nil || !slices.Contains(phases, driver.Phase("init")) || !slices.Contains(phases, driver.Phase("panicked")) || slices.Contains(phases, driver.Phase("agent")) {
		t.Errorf("marks %q, %v", phases, err)
	}
	restored := *d
	restored.saved = &saved{all: map[string]string{}}
	if err := restored.accelerated(t.Context(), path, g, map[string]string{}); !errors.As(err, new(*driver.CannotError)) {
		t.Errorf("restored: %v", err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
