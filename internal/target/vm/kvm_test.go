package vm

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tarelab/tare/internal/target"
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
		"a failure":                 {proof{vmm.TCG, "it hangs", now}, nil, vmm.TCG},
		"a failure of long ago":     {proof{vmm.TCG, "it hangs", long}, nil, ""},
		"without its time":          {proof{vmm.TCG, "it hangs", time.Time{}}, nil, ""},
		"success of long ago":       {proof{vmm.KVM, "", long}, nil, vmm.KVM},
		"other rights":              {proof{vmm.TCG, "it hangs", now}, func(t *testing.T, h *home) { must(t, os.Chmod(h.device, 0o640)) }, ""},
		"another device":            {proof{vmm.KVM, "", now}, func(t *testing.T, h *home) { must(t, os.Rename(h.device+"2", h.device)) }, ""},
		"another VMM":               {proof{vmm.TCG, "it hangs", now}, func(t *testing.T, h *home) { must(t, os.WriteFile(h.lab.LaunchPath, []byte("new"), 0o600)) }, ""},
		"the device has gone":       {proof{vmm.KVM, "", now}, func(t *testing.T, h *home) { must(t, os.Remove(h.device)) }, vmm.TCG},
		"the user wants it proven":  {proof{vmm.TCG, "it hangs", now}, func(t *testing.T, h *home) { must(t, h.forget()) }, ""},
		"what is kept is not whole": {proof{}, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			h := &home{dir: t.TempDir(), proven: map[string]proof{}}
			h.device, h.lab.InitPath, h.lab.LaunchPath = h.dir+"/kvm0", h.dir+"/init", h.dir+"/vmm"
			for _, file := range []string{h.device, h.device + "2", h.lab.InitPath, h.lab.LaunchPath} {
				must(t, os.WriteFile(file, []byte(file), 0o600))
			}
			key, err := h.proofKey(h.lab.LaunchPath, "sha256:1")
			must(t, err)
			text, err := json.Marshal(c.kept)
			must(t, err)
			must(t, os.Mkdir(h.dir+"/kvm", 0o700))
			must(t, os.WriteFile(filepath.Join(h.dir, "kvm", key+".json"), text, 0o600))
			if c.change != nil {
				c.change(t, h)
			}
			// A check that had found what was kept must be made again where that no longer holds.
			found := target.Facts{Path: h.lab.LaunchPath, Notes: map[string]string{target.NoteGuestKernel: "sha256:1", target.NoteAccel: string(c.kept.Accel)}}
			if c.kept.Accel == vmm.TCG {
				found.Notes[target.NoteNoKVM] = c.kept.Why
			}
			stale := (&Driver{home: h}).Stale(found)
			p, _, err := h.remembered(h.lab.LaunchPath, "sha256:1")
			if err != nil || p.Accel != c.want {
				t.Errorf("%+v, %v; want %q", p, err, c.want)
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
	p, file, err := h.remembered("/usr/bin/qemu", "sha256:1")
	must(t, unix.Setfsuid(0))
	runtime.UnlockOSThread()
	if want := "this user may not open /dev/kvm (join the group kvm)"; err != nil || p.Accel != vmm.TCG || p.Why != want || file != "" {
		t.Errorf("%+v in %q, %v; want %q", p, file, err, want)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
