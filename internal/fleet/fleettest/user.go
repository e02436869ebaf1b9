package fleettest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tarelab/tare/internal/fleet"
)

// User is somebody who calls tare, and has the fleets in State.
type User struct {
	T       *testing.T
	Program string   // absolute path of tare
	State   string   // directory
	Env     []string // beside that of the test
}

// Command is tare with these arguments; it dies with the test.
func (u *User) Command(args ...string) *exec.Cmd {
	cmd := exec.Command(u.Program, append([]string{"--state", u.State}, args...)...)
	cmd.Env = append(os.Environ(), u.Env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

// Tare runs tare, which must end with this code, and returns what it wrote.
func (u *User) Tare(code int, args ...string) (stdout, stderr string) {
	u.T.Helper()
	cmd := u.Command(args...)
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	began := time.Now()
	err := cmd.Run()
	u.T.Logf("tare %s: exit %d after %v", strings.Join(args, " "), cmd.ProcessState.ExitCode(), time.Since(began).Round(time.Second))
	if cmd.ProcessState.ExitCode() != code {
		u.T.Fatalf("tare %q: %v, want exit code %d\n%s\n%s", args, err, code, out.String(), errs.String())
	}
	return out.String(), errs.String()
}

// Dir is the directory of a fleet.
func (u *User) Dir(name string) string { return filepath.Join(u.State, "fleets", name) }

// Runs are the runs of a fleet, with how many records each has.
func (u *User) Runs(name string) map[string]int {
	u.T.Helper()
	dirs, err := filepath.Glob(filepath.Join(u.Dir(name), "runs", "2*"))
	if err != nil {
		u.T.Fatal(err)
	}
	all := map[string]int{}
	for _, dir := range dirs {
		text, err := os.ReadFile(filepath.Join(dir, "records.jsonl"))
		if err != nil {
			u.T.Fatal(err)
		}
		all[filepath.Base(dir)] = strings.Count(string(text), "\n")
	}
	return all
}

// Statuses is what is recorded of the machines of a fleet.
func (u *User) Statuses(name string) []fleet.Status {
	u.T.Helper()
	_, all, _, err := fleet.Statuses(u.Dir(name))
	if err != nil {
		u.T.Fatal(err)
	}
	return all
}

// Measuring waits until each machine of a fleet has brought some records.
func (u *User) Measuring(name string) {
	u.T.Helper()
	u.Wait("records of "+name, func() bool {
		if _, err := os.Stat(filepath.Join(u.Dir(name), "fleet.json")); err != nil {
			return false
		}
		return !slices.ContainsFunc(u.Statuses(name), func(s fleet.Status) bool { return s.Records < 5 })
	})
}

// Wait asks until something is so, for some minutes at most.
func (u *User) Wait(what string, so func() bool) {
	u.T.Helper()
	for range 1200 {
		if so() {
			return
		}
		time.Sleep(200 * time.Millisecond)
	}
	u.T.Fatalf("waited in vain for %s", what)
}

// Replaced waits until another machine has taken the place of one that died under the
// first of a fleet, and measures. What the dead one measured must be kept.
func (u *User) Replaced(name, dead string) {
	u.T.Helper()
	u.Wait("another machine in the place of "+dead, func() bool {
		s := u.Statuses(name)[0]
		return s.Machine != dead && s.Attempt == 2 && s.Records > 5
	})
	lost := u.Statuses(name)[0].Earlier[0]
	if lost.What != fleet.Lost || lost.Run == "" || lost.Words == "" || u.Runs(name)[lost.Run] < 5 {
		u.T.Errorf("the attempt on the dead machine is recorded as %+v, with the runs %v", lost, u.Runs(name))
	}
}

// Abandoned sends Ctrl-C to a tare that collects a fleet: it says how to end the jobs, of
// which so many go on. Cancelling the fleet then keeps its runs, of which there are want.
func (u *User) Abandoned(name string, collector *exec.Cmd, said fmt.Stringer, running, want int) {
	u.T.Helper()
	_ = collector.Process.Signal(syscall.SIGINT)
	_ = collector.Wait() // its code is looked at
	if code := collector.ProcessState.ExitCode(); code != 130 || !strings.Contains(said.String(), "tare fleet cancel "+name) {
		u.T.Errorf("Ctrl-C: exit %d: %s", code, said)
	}
	if status, _ := u.Tare(0, "fleet", "status", name); strings.Count(status, "running") != running {
		u.T.Errorf("after Ctrl-C %d jobs go on, and status says %s", running, status)
	}
	u.Tare(0, "fleet", "cancel", name)
	if runs := u.Runs(name); len(runs) != want {
		u.T.Errorf("what was measured before the cancel is not kept: %v", runs)
	}
}
