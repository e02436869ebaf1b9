// Package drivertest is the contract that every driver passes: what the
// laboratory relies on, checked with real payloads. A driver's test is one call
// of Run. The checks return errors instead of failing a test, so that this
// package's own tests can prove, with drivers broken on purpose, that each
// check is able to fail.
package drivertest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarelab/tare/internal/driver"
)

// Options say what the suite cannot find out by itself.
type Options struct {
	// Lab is what the driver was made with; New gives one.
	Lab driver.Lab
	// Missing is the same driver made with a binary that does not exist, and
	// MissingName the name that its CannotError must contain. nil where the
	// driver has no binary of its own.
	Missing     driver.Driver
	MissingName string
	// Skip names checks that cannot hold for this driver, each with the missing
	// fact. A name that is no check fails the test.
	Skip map[string]string
	// Again says of a check's error that what the driver runs on is known to fail
	// so now and then: such a check is made once more, and the log has the error.
	// nil for a driver of which nothing of the kind is known.
	Again func(error) bool
}

// check is one clause of the contract.
type check struct {
	name string
	run  func(ctx context.Context, s *suite) error
}

// checks are all clauses, in the order in which they run.
func checks() []check {
	return []check{
		{"properties", checkProperties},
		{"check proves by use", checkCheck},
		{"missing binary names itself", checkMissing},
		{"exit codes", checkExitCodes},
		{"signals", checkSignals},
		{"a shell's 128+n stays a code", checkShellSignal},
		{"usage", checkUsage},
		{"arguments", checkArguments},
		{"environment", checkEnvironment},
		{"nothing inherited", checkNothingInherited},
		{"working directory", checkCwd},
		{"user", checkUser},
		{"streams apart and exact", checkStreams},
		{"no other descriptors", checkDescriptors},
		{"big streams", checkBigStreams},
		{"stdin", checkStdin},
		{"no stdin", checkNoStdin},
		{"process ids", checkIsolated},
		{"devices and proc", checkDevices},
		{"mounts", checkMounts},
		{"rootfs is not written to", checkRootfs},
		{"memory limit", checkMemory},
		{"pids limit", checkPids},
		{"cpu limit", checkCPUs},
		{"cpuset", checkCPUSet},
		{"marks in order", checkMarks},
		{"watch", checkWatch},
		{"payload does not exist", checkNoPayload},
		{"cancel while waiting", checkCancelWait},
		{"cancel while starting", checkCancelStart},
		{"cancelled before", checkCancelBefore},
		{"close twice", checkCloseTwice},
		{"close without start", checkCloseOnly},
		{"close while it runs", checkCloseRunning},
		{"payload leaves processes", checkLeftovers},
		{"links lead nowhere", checkLinks},
		{"kernel's paths", checkKernelPaths},
		{"foreign devices", checkForeignDevices},
		{"own devices", checkOwnDevices},
		{"no door", checkDoors},
		{"flood", checkFlood},
		{"fork bomb", checkForkBomb},
		{"kills its init", checkKillsInit},
		{"two at once", checkTwo},
		{"many at once", checkMany},
	}
}

// A check has checkTimeout and startsPerCheck starts of its target; the longest
// is "many at once".
const (
	checkTimeout   = 5 * time.Minute
	startsPerCheck = 40
)

// Run checks that driver keeps the contract. It needs root where the driver
// does, and fails without it.
func Run(t *testing.T, d driver.Driver, opts Options) {
	t.Helper()
	if d.Properties().NeedsRoot && os.Geteuid() != 0 {
		t.Fatalf("%s needs root: run its tests as root", d.Name())
	}
	s, err := newSuite(d, opts, t.TempDir(), Token(t))
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, c := range checks() {
		known[c.name] = true
		t.Run(c.name, func(t *testing.T) { runCheck(t, s, c) })
	}
	for name := range opts.Skip {
		if !known[name] {
			t.Errorf("Options.Skip names %q, which is no check", name)
		}
	}
}

func runCheck(t *testing.T, s *suite, c check) {
	if why, ok := s.opts.Skip[c.name]; ok {
		t.Skip(why)
	}
	err := s.once(t.Context(), c)
	if err != nil && s.opts.Again != nil && s.opts.Again(err) {
		t.Logf("made once more, because of: %v", err)
		err = s.once(t.Context(), c)
	}
	var lacking *lackError
	switch {
	case errors.As(err, &lacking):
		t.Skip(lacking.Error())
	case err != nil:
		t.Error(err)
	}
}

// once makes a check, in the time that it has.
func (s *suite) once(ctx context.Context, c check) error {
	bounded, cancel := context.WithTimeout(ctx, checkTimeout+startsPerCheck*s.props.StartTime)
	defer cancel()
	return s.guarded(bounded, c)
}

// lackError skips a check and names the fact that is missing.
type lackError struct{ fact string }

func (e *lackError) Error() string { return "skipped: " + e.fact }

func lackf(format string, args ...any) error { return &lackError{fmt.Sprintf(format, args...)} }

// suite is one driver under test.
type suite struct {
	driver driver.Driver
	props  driver.Properties
	opts   Options
	dir    string // below it: one directory for each instance
	token  string // stands in every id, directory and environment that the suite makes
	count  *atomic.Int64
}

func newSuite(d driver.Driver, opts Options, dir, token string) (*suite, error) {
	if opts.Lab.TestRootfs == "" {
		return nil, errors.New("drivertest: Options.Lab has no TestRootfs; make it with drivertest.New")
	}
	dir = filepath.Join(dir, token)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	return &suite{driver: d, props: d.Properties(), opts: opts, dir: dir, token: token, count: new(atomic.Int64)}, nil
}

// guarded runs a check and adds what it left behind to its error.
func (s *suite) guarded(ctx context.Context, c check) error {
	before, err := s.snapshot()
	if err != nil {
		return err
	}
	err = c.run(ctx, s)
	return errors.Join(err, s.compare(before))
}

// nextID is a fresh Spec.ID.
func (s *suite) nextID() string {
	return fmt.Sprintf("%s-%s-%d", driver.Label, s.token, s.count.Add(1))
}

// slow reports whether one start takes so long that checks sample their cases
// instead of trying all.
func (s *suite) slow() bool { return s.props.StartTime > 40*time.Millisecond }

// Token is a fresh name ([a-z0-9]) for what a test makes on the machine.
func Token(t *testing.T) string {
	t.Helper()
	return fmt.Sprintf("t%08x", rand.Uint32())
}

// boots reports whether a start is a machine's boot, of which a check can afford
// a handful.
func (s *suite) boots() bool { return s.props.StartTime >= time.Second }
