package native_test

import (
	"context"
	"errors"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/driver/drivertest"
	"github.com/tarelab/tare/internal/driver/native"
	"github.com/tarelab/tare/internal/sys"
)

// output runs a shell script on one rung and returns what it says.
func output(t *testing.T, d driver.Driver, lab driver.Lab, script string) string {
	t.Helper()
	return outputIn(t, d, lab, "", script)
}

// outputIn is output of a payload in a cgroup, which it makes and removes.
func outputIn(t *testing.T, d driver.Driver, lab driver.Lab, group, script string) string {
	t.Helper()
	if group != "" {
		groups, err := sys.Cgroups()
		if err == nil {
			err = groups.Make(group)
		}
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if _, err := sys.RemoveCgroups(group); err != nil {
				t.Error(err)
			}
		}()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	inst, err := d.Prepare(ctx, driver.Spec{ID: "tare-test-priv", Rootfs: lab.TestRootfs, Cgroup: group, Env: []string{"PATH=/bin"},
		Args: []string{"/bin/sh", "-c", script}, Stdio: driver.Stdio{Stdout: in, Stderr: in}}, t.TempDir())
	in.Close()
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := inst.Close(); err != nil {
			t.Error(err)
		}
	}()
	if err := inst.Start(ctx, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := inst.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	said, err := io.ReadAll(out)
	if err != nil {
		t.Fatal(err)
	}
	return string(said)
}

// TestPrivileges reads the kernel's own account of what each rung has given up.
func TestPrivileges(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("needs root: without it a payload has the capabilities of a user namespace")
	}
	lab := drivertest.New(t)
	const script = `grep -E '^(CapBnd|CapPrm|NoNewPrivs|Seccomp):' /proc/self/status; hostname; cat /proc/net/dev | grep -c :; unshare -U true 2>&1`
	privileges := 1 << 30 // the order of the rung that drops them
	for _, d := range native.Drivers(lab) {
		if _, err := d.Check(t.Context()); errors.As(err, new(*driver.CannotError)) {
			continue // TestLadder says what it lacks
		}
		order := d.Properties().Order
		if d.Name() == "native/privileges" {
			privileges = order
		}
		said := strings.ReplaceAll(output(t, d, lab, script), "\t", " ")
		dropped, filtered := order >= privileges, d.Name() == "native/seccomp"
		for text, want := range map[string]bool{
			// Without CAP_MKNOD: these payloads have no cgroup, and so no device group.
			"CapBnd: 00000000a00425fb": dropped, "CapPrm: 00000000a00425fb": dropped, "NoNewPrivs: 1": dropped,
			"Seccomp: 2": filtered,
			// On the rungs in a chroot the kernel itself refuses it.
			"Operation not permitted": filtered || !dropped && strings.Contains(said, "Operation not permitted"),
		} {
			if strings.Contains(said, text) != want {
				t.Errorf("%s: %q: want %v in\n%s", d.Name(), text, want, said)
			}
		}
	}
}

// TestSessionKeyring: keys of the session that tare was started in are not a payload's
// from the rung on that drops privileges.
func TestSessionKeyring(t *testing.T) {
	const key = "tare-test-key"
	lab := drivertest.New(t)
	drivers := native.Drivers(lab)
	at := slices.IndexFunc(drivers, func(d driver.Driver) bool { return d.Name() == "native/privileges" })
	runtime.LockOSThread() // a keyring is a thread's; this one ends with the test
	if _, err := unix.KeyctlJoinSessionKeyring(key); err != nil {
		t.Fatal(err)
	}
	id, err := unix.AddKey("user", key, []byte("secret"), unix.KEY_SPEC_SESSION_KEYRING)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.KeyctlSetperm(id, 0x3f000000); err != nil { // all for who possesses it, nothing for its owner
		t.Fatal(err)
	}
	for i, want := range []bool{true, false} {
		d := drivers[at-1+i]
		if said := output(t, d, lab, "cat /proc/keys"); strings.Contains(said, key+": 6") != want {
			t.Errorf("%s: the key can be seen: %v; want %v:\n%s", d.Name(), !want, want, said)
		}
	}
}
