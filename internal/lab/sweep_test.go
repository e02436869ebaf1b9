package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/driver/fake"
	"github.com/tarelab/tare/internal/sys"
)

// elsewhere is a driver that has made something which only it can remove.
type elsewhere struct {
	*fake.Driver
	asked []string
	err   error
}

func (e *elsewhere) Sweep(_ context.Context, runDir string) ([]string, error) {
	e.asked = append(e.asked, runDir)
	return []string{"removed a container"}, e.err
}

// Drivers are asked to remove what a dead session has made elsewhere; where they
// cannot, the session stays for the next sweep.
func TestSweepAsksDrivers(t *testing.T) {
	state := t.TempDir()
	s := died(t, state)
	dir := s.dir
	d := &elsewhere{Driver: fake.New("fake", nil), err: errors.New("it does not answer")}
	drivers := func(driver.Lab) []driver.Driver { return []driver.Driver{fake.New("other", nil), d} }
	if _, err := Sweep(t.Context(), state, drivers); err == nil || !strings.Contains(err.Error(), "it does not answer") {
		t.Errorf("a sweep that fails: %v", err)
	}
	if _, err := os.Stat(dir); err != nil {
		t.Errorf("the session is not kept: %v", err)
	}
	d.err = nil
	did, err := Sweep(t.Context(), state, drivers)
	if err != nil || !slices.Contains(did, "session "+s.name+": removed a container") {
		t.Errorf("%q, %v", did, err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the session is still there: %v", err)
	}
	if want := filepath.Join(dir, "run"); !slices.Equal(d.asked, []string{want, want}) {
		t.Errorf("asked for %q", d.asked)
	}
}

func (e *elsewhere) Setup(context.Context, driver.Spec) error { return nil }

func (e *elsewhere) Teardown() error { return e.err }

// What a driver could not take away at the end is found by the next sweep.
func TestCloseKeepsWhatIsLeft(t *testing.T) {
	state := t.TempDir()
	d := &elsewhere{Driver: fake.New("fake", nil)}
	for _, refused := range []error{nil, errors.New("it does not answer")} {
		s, err := newSession(state)
		if err != nil {
			t.Fatal(err)
		}
		d.err = refused
		l := &Lab{session: s, drivers: []driver.Driver{d}}
		if err := l.Close(); !errors.Is(err, refused) {
			t.Errorf("%v, want %v", err, refused)
		}
		if _, err := os.Stat(s.dir); errors.Is(err, os.ErrNotExist) != (refused == nil) {
			t.Errorf("its driver says %v: %v", refused, err)
		}
	}
	d.err = nil
	if did, err := Sweep(t.Context(), state, func(driver.Lab) []driver.Driver { return []driver.Driver{d} }); err != nil || len(did) == 0 {
		t.Errorf("%q, %v", did, err)
	}
}

// A setting of the machine that could not be put back is left to a sweep.
func TestCloseKeepsSettings(t *testing.T) {
	state := t.TempDir()
	s, err := newSession(state)
	if err != nil {
		t.Fatal(err)
	}
	self, err := sys.Self()
	if err != nil {
		t.Fatal(err)
	}
	keep := func(boot, value string) {
		t.Helper()
		text := fmt.Sprintf(`{"boot":%q,"values":{"net.ipv4.neigh.default.gc_thresh3":%q}}`, boot, value)
		if err := os.WriteFile(s.settings(), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	keep(self.Boot, "9999999999") // more than the kernel takes
	if err := (&Lab{session: s}).Close(); err == nil || !strings.Contains(err.Error(), "gc_thresh3") {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(s.settings()); err != nil {
		t.Error(err)
	}
	keep("an earlier boot", "1")
	if did, err := Sweep(t.Context(), state, func(driver.Lab) []driver.Driver { return nil }); err != nil || len(did) == 0 {
		t.Errorf("%q, %v", did, err)
	}
}

// died is a session as a kill leaves it.
func died(t *testing.T, state string) *session {
	t.Helper()
	s, err := newSession(state)
	if err != nil {
		t.Fatal(err)
	}
	s.proof.Process.Start++ // of another process, which had this pid
	if err := errors.Join(s.writeProof(), os.Mkdir(s.runDir(), 0o700), s.lock.Close()); err != nil {
		t.Fatal(err)
	}
	return s
}

// A sweep deletes what it has proven, and nothing else: on a2ee321 any directory below
// sessions/ was a session, and a copy of one was as good.
func TestSweepByProof(t *testing.T) {
	state, copied := t.TempDir(), t.TempDir()
	live, err := newSession(state)
	if err != nil {
		t.Fatal(err)
	}
	dead := died(t, state)
	elsewhere, rebooted := died(t, state), died(t, state)
	elsewhere.proof.Process.Boot, elsewhere.proof.Process.Machine = "another", "another"
	rebooted.proof.Process.Boot = "an earlier one"
	below := sessionsDir(state)
	foreign := filepath.Join(below, "s0000000f")
	err = errors.Join(elsewhere.writeProof(), rebooted.writeProof(),
		os.Mkdir(foreign, 0o700), os.WriteFile(filepath.Join(foreign, "thesis.tex"), []byte("x"), 0o600),
		os.Mkdir(filepath.Join(below, "backup"), 0o700), os.Symlink(t.TempDir(), filepath.Join(below, "s00000001")),
		os.Mkdir(filepath.Join(below, "s00000002"), 0o700), os.WriteFile(filepath.Join(below, "s00000002", "lock"), nil, 0o600), // a husk
		os.CopyFS(filepath.Join(copied, "sessions"), os.DirFS(below)))
	if err != nil && !strings.Contains(err.Error(), "s00000001") { // CopyFS takes no links that lead out
		t.Fatal(err)
	}
	for _, dir := range []string{state, copied} {
		did, err := Sweep(t.Context(), dir, func(driver.Lab) []driver.Driver { return nil })
		if err != nil {
			t.Errorf("%s: %v", dir, err)
		}
		t.Logf("%q", did)
	}
	for what, test := range map[string]struct {
		path string
		stay bool
	}{
		"live": {live.dir, true}, "dead": {dead.dir, false}, "of another machine": {elsewhere.dir, true}, "of an earlier boot": {rebooted.dir, false},
		"somebody's directory": {filepath.Join(foreign, "thesis.tex"), true}, "another name": {filepath.Join(below, "backup"), true},
		"a link": {filepath.Join(below, "s00000001"), true}, "a husk": {filepath.Join(below, "s00000002"), false},
		"a copy of a live one": {filepath.Join(copied, "sessions", live.name, proofFile), true},
		"a copy of a dead one": {filepath.Join(copied, "sessions", dead.name, proofFile), true},
	} {
		if _, err := os.Lstat(test.path); (err == nil) != test.stay {
			t.Errorf("%s: %v, want it to stay: %v", what, err, test.stay)
		}
	}
	if err := live.remove(); err != nil {
		t.Error(err)
	}
}

// A copy of the state directory never ends the live run, whose groups have the same
// names: on a2ee321 it did.
func TestSweepOfACopyEndsNothing(t *testing.T) {
	groups, err := newGroups("s0c0ffee0")
	if err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() != 0 || !groups.trees.Usable() {
		t.Skip("needs cgroups that this user may make")
	}
	state, copied := t.TempDir(), t.TempDir()
	live, err := newSession(state)
	if err != nil {
		t.Fatal(err)
	}
	if groups, err = newGroups(live.name); err != nil {
		t.Fatal(err)
	}
	name, err := groups.Make("i1", driver.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	sleep := exec.Command("sleep", "100")
	if err := sleep.Start(); err != nil {
		t.Fatal(err)
	}
	for _, dir := range groups.trees.Dirs(name) {
		if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(sleep.Process.Pid)), 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.CopyFS(copied, os.DirFS(state)); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{copied, state} {
		if _, err := Sweep(t.Context(), dir, func(driver.Lab) []driver.Driver { return nil }); err != nil {
			t.Error(err)
		}
		if err := sleep.Process.Signal(syscall.Signal(0)); err != nil {
			t.Errorf("swept %s: the live run's process: %v", dir, err)
		}
		if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", sleep.Process.Pid)); err != nil || strings.Contains(string(stat), ") Z ") {
			t.Errorf("swept %s: the live run's process was killed: %s, %v", dir, stat, err)
		}
	}
	if err := errors.Join(groups.close(), live.remove()); err != nil {
		t.Error(err)
	}
	_ = sleep.Wait() // closing the groups has killed it
}

// Root executes what lies below the state directory: one that another user can rename is
// no place for it, unless that user has called root.
func TestStateOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("needs root, to make directories of another user")
	}
	home := t.TempDir()
	state := filepath.Join(home, "state")
	if err := errors.Join(os.Mkdir(state, 0o755), os.Chown(home, 12345, 12345)); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SUDO_UID", "")
	if _, err := newSession(state); !errors.As(err, new(*InputError)) || !strings.Contains(err.Error(), home+" belongs to user 12345") {
		t.Errorf("a session was made: %v", err)
	}
	t.Setenv("SUDO_UID", "12345")
	s, err := newSession(state)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.remove(); err != nil {
		t.Error(err)
	}
}

// Kubernetes mounts an empty volume of mode 0777 at the state directory.
func TestStateOnAnEmptyVolume(t *testing.T) {
	state := t.TempDir()
	if err := syscall.Mount("tare-test", state, "tmpfs", 0, "mode=777,size=1m"); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := syscall.Unmount(state, 0); err != nil {
			t.Error(err)
		}
	}()
	s, err := newSession(state)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.remove(); err != nil {
		t.Error(err)
	}
}
