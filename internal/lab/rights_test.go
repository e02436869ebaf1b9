package lab

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
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
		l := &Lab{place: driver.Lab{Root: true, VolatileDir: t.TempDir()}}
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
		unmounted := unix.Unmount(l.place.VolatileDir, 0)
		if errors.Is(err, unix.EPERM) || !without && !l.place.Root {
			t.Skip("needs the rights of the machine's root")
		}
		if err != nil || l.place.Root == without {
			t.Errorf("without the right %v: root %v, %v", without, l.place.Root, err)
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

// Without /proc no session can be proven, and the error says so. A child without /proc
// tries, as what a process knows of itself is asked once.
func TestASessionThatCannotBeProvenSaysWhy(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	if os.Getenv("TARE_TEST_WITHOUT_PROC") == "" {
		child := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
		child.Env = append(os.Environ(), "TARE_TEST_WITHOUT_PROC=1")
		child.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
		if out, err := child.CombinedOutput(); errors.Is(err, unix.EPERM) {
			t.Skip("needs the rights of the machine's root")
		} else if err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	if err := unix.Mount(driver.Label, "/proc", "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := newSession(t.TempDir()); err == nil || !strings.Contains(err.Error(), "identity of this process") {
		t.Errorf("got %v", err)
	}
}
