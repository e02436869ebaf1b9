package lab

import (
	"errors"
	"os"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tarelab/tare/internal/driver"
)

// The root of a user namespace may mount a tmpfs, and yet is a user: it may make no
// device. A thread without CAP_MKNOD is refused as it is.
func TestARootThatMayMakeNoDeviceIsAUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	for _, without := range []bool{false, true} {
		l := &Lab{Target: driver.Lab{Root: true, VolatileDir: t.TempDir()}}
		settled := make(chan error)
		go func() {
			runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
			if without {
				if err := dropMknod(); err != nil {
					settled <- err
					return
				}
			}
			settled <- l.settleRights()
		}()
		err := <-settled
		unmounted := unix.Unmount(l.Target.VolatileDir, 0)
		if errors.Is(err, unix.EPERM) || !without && !l.Target.Root {
			t.Skip("needs the rights of the machine's root")
		}
		if err != nil || l.Target.Root == without {
			t.Errorf("without the right %v: root %v, %v", without, l.Target.Root, err)
		}
		if notes := strings.Join(l.notes, "\n"); without && (unmounted == nil || !strings.Contains(notes, "no right to make devices")) {
			t.Errorf("it still was mounted: %v; notes %q", unmounted == nil, notes)
		}
	}
}

func dropMknod() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return err
	}
	data[0].Effective &^= 1 << unix.CAP_MKNOD
	return unix.Capset(&header, &data[0])
}

// Without /proc no session can be proven, and the error says so.
func TestASessionThatCannotBeProvenSaysWhy(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	state, made := t.TempDir(), make(chan error)
	go func() {
		runtime.LockOSThread() // the mount namespace is this thread's alone, and ends with it
		err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS)
		if err == nil {
			err = unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
		}
		if err == nil {
			err = unix.Mount(driver.Label, "/proc", "tmpfs", 0, "")
		}
		if err == nil {
			_, err = newSession(state)
		}
		made <- err
	}()
	err := <-made
	if errors.Is(err, unix.EPERM) {
		t.Skip("needs the rights of the machine's root")
	}
	if err == nil || !strings.Contains(err.Error(), "identity of this process") {
		t.Errorf("got %v", err)
	}
}
