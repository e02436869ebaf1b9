package ebpf

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/profile"
	"github.com/tarelab/tare/internal/sys"
)

// quarrel makes threads contend for a directory until the time is over.
func quarrel(t *testing.T, long time.Duration) {
	t.Helper()
	dir, end := t.TempDir(), time.Now().Add(long)
	var threads sync.WaitGroup
	for i := range 8 {
		threads.Go(func() {
			name := filepath.Join(dir, strconv.Itoa(i))
			for time.Now().Before(end) {
				if err := errors.Join(os.Mkdir(name, 0o700), os.Remove(name)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	threads.Wait()
}

// recorded is what the probe sees of the selection while it happens.
func recorded(t *testing.T, own Selection, happens func()) profile.Profile {
	t.Helper()
	return recordedBy(t, RecordLocks, own, happens)
}

func recordedBy(t *testing.T, record Recorder, own Selection, happens func()) profile.Profile {
	t.Helper()
	stop, err := record(own)
	if err != nil {
		t.Fatal(err)
	}
	happens()
	p, err := stop()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// own are the rows of a profile that are not kernel threads', by name.
func own(p profile.Profile) map[string]profile.Row {
	rows := map[string]profile.Row{}
	for _, r := range p.Table() {
		if !r.Kernel {
			rows[r.Name] = r
		}
	}
	return rows
}

// TestLocksOfTheRealKernel names a lock that threads of this process quarrel
// over, and the sleep of a parent until its child executes.
func TestLocksOfTheRealKernel(t *testing.T) {
	needsKernel(t)
	self, err := SelectProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	const children = 5
	deadline := time.Now().Add(30 * time.Second)
	for {
		p := recorded(t, self, func() {
			quarrel(t, 200*time.Millisecond)
			for range children {
				if err := exec.CommandContext(t.Context(), "/bin/true").Run(); err != nil {
					t.Fatal(err)
				}
			}
		})
		rows := own(p)
		if n := rows["vfork: until the child executes"].Waits; n < children {
			t.Fatalf("%d waits for %d children: %+v", n, children, p.Table())
		}
		if r := rows[profile.Directory]; r.Waits > 0 {
			if r.Kind != profile.RWSem || r.Total <= 0 || r.Total > 8*p.Elapsed.Seconds() || r.Most > p.Elapsed.Seconds() || p.Cost <= 0 {
				t.Errorf("%+v, elapsed %v, cost %v", r, p.Elapsed, p.Cost)
			}
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("threads that contend for a directory never waited for it: %+v", p.Table())
		}
	}
}

// TestEstimateOfTheRealKernel finds the same lock without its tracepoints.
func TestEstimateOfTheRealKernel(t *testing.T) {
	needsKernel(t)
	self, err := SelectProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(30 * time.Second)
	for {
		p := recordedBy(t, func(own Selection) (func() (profile.Profile, error), error) {
			return estimateLocks(own, errors.New("a test"))
		}, self, func() { quarrel(t, 200*time.Millisecond) })
		if len(p.Notes) == 0 || len(p.Samples) > 0 {
			t.Fatalf("notes %q, %d samples", p.Notes, len(p.Samples))
		}
		if r := own(p)[profile.Directory]; r.Total > 0 && r.Kind == profile.RWSem && r.Inferred {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("threads that contend for a directory never waited for it: %+v", p.Table())
		}
	}
}

// TestOthersDoNotCount watches a process that does nothing, beside threads that
// quarrel.
func TestOthersDoNotCount(t *testing.T) {
	needsKernel(t)
	idle := exec.CommandContext(t.Context(), "sleep", "60")
	if err := idle.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := idle.Process.Kill(); err != nil {
			t.Error(err)
		}
		_ = idle.Wait() // it says that it was killed
	}()
	other, err := SelectProcess(idle.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(50 * time.Millisecond) // its own start is over
	if rows := own(recorded(t, other, func() { quarrel(t, 200*time.Millisecond) })); len(rows) > 0 {
		t.Errorf("%+v", rows)
	}
}

func TestSelectionsThatCannotBe(t *testing.T) {
	if _, err := SelectProcess(1 << 30); err == nil {
		t.Error("a process that is not there is watched")
	}
	if _, err := SelectCgroup("no/such/group"); err == nil || !strings.Contains(err.Error(), "cgroup") {
		t.Errorf("a cgroup that is not there: %v", err)
	}
	if _, err := SelectCgroup("/"); err == nil {
		t.Error("the root of all cgroups is watched as one")
	}
}

func TestLockdown(t *testing.T) {
	file := filepath.Join(t.TempDir(), "lockdown")
	for text, want := range map[string]string{"[none] integrity confidentiality\n": "", "none [integrity] confidentiality\n": "integrity", "none integrity [confidentiality]\n": "confidentiality", "": ""} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := lockdown(file); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if got := lockdown(file + "?"); got != "" {
		t.Errorf("no such file: %q", got)
	}
}

func TestSymbols(t *testing.T) {
	file := filepath.Join(t.TempDir(), "kallsyms")
	write := func(text string) *symbols {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := readSymbols(file)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := write("00001000 T first\n00002000 t second\t[module]\n00003000 T _etext\nnonsense\n00009000 D cgroup_mutex\n0000b000 d __per_cpu\n")
	for address, want := range map[uint64]string{0x1004: "first", 0x1fff: "first", 0x2000: "second", 0x3010: "0x3010", 0x10: "0x10"} {
		if got := s.function(address); got != want {
			t.Errorf("function at %#x: %q, want %q", address, got, want)
		}
	}
	for address, want := range map[uint64]string{0x9000: "cgroup_mutex", 0x9010: "cgroup_mutex+0x10", 0xa001: "", 0xb000: "", 0x8000: ""} {
		if got := s.variable(address); got != want {
			t.Errorf("variable at %#x: %q, want %q", address, got, want)
		}
	}
	if hidden := write("0000000000000000 T first\n0000000000000000 D cgroup_mutex\n"); hidden.hidden != keptSecret || hidden.function(0x1004) != "0x1004" || s.hidden != "" {
		t.Errorf("%+v", hidden)
	}
	if none, err := readSymbols(file + "?"); err != nil || none.hidden != noSymbols {
		t.Errorf("%+v, %v", none, err)
	}
}

// TestHiddenNamesAreSaid reads what the real kernel recorded by symbols that it
// would show to nobody.
func TestHiddenNamesAreSaid(t *testing.T) {
	needsKernel(t)
	self, err := SelectProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	o := locksOf(t, self, 8192)
	s := &session{objects: o}
	if err := s.attach(o.OnFork, o.OnExit, o.OnSwitch, o.OnBegin, o.OnEnd); err != nil {
		t.Fatal(err)
	}
	for range 3 { // the first wait may find no memory at once, and so no row of its own
		if err := exec.CommandContext(t.Context(), "/bin/true").Run(); err != nil {
			t.Fatal(err)
		}
	}
	var p profile.Profile
	if err := s.detach(&p); err != nil {
		t.Fatal(err)
	}
	if err := readWaits(&p, o, &symbols{hidden: keptSecret}, 0); err != nil {
		t.Fatal(err)
	}
	rows := own(p)
	r := rows["uninterruptible sleep"]
	if hidden := func(at profile.Place) bool { return at.Function == "(names hidden)" }; !slices.ContainsFunc(r.Places, hidden) || r.Inferred {
		t.Errorf("%+v, lost %v", p.Table(), p.Lost)
	}
	if !p.Hidden || len(p.Notes) == 0 || !strings.HasPrefix(p.Notes[len(p.Notes)-1], "names hidden by kptr_restrict") {
		t.Errorf("notes %q", p.Notes)
	}
}

// family is a shell with a child of its own, both asleep.
func family(t *testing.T) (parent, child int) {
	t.Helper()
	shell := exec.CommandContext(t.Context(), "/bin/sh", "-c", "sleep 60 & wait")
	shell.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := shell.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Kill(-shell.Process.Pid, syscall.SIGKILL); err != nil {
			t.Error(err)
		}
		_ = shell.Wait() // it says that it was killed
	})
	for range 1000 {
		children, err := sys.Children(shell.Process.Pid)
		if err != nil {
			t.Fatal(err)
		}
		if len(children) == 1 {
			return shell.Process.Pid, children[0]
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("the shell starts no child")
	return 0, 0
}

// What descends from a process already when the watching begins is watched, too,
// and what the user's own engine does is told apart.
func TestDescendantsFromBefore(t *testing.T) {
	parent, child := family(t)
	own, err := SelectProcess(parent)
	if err != nil {
		t.Fatal(err)
	}
	shared, err := Select([]driver.Watch{{Role: driver.RoleShared, PID: parent}, {Role: driver.RoleShared, PID: parent}})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		of  Selection
		who uint8
	}{{own, ownerOwn}, {shared, ownerShared}} {
		o := locksOf(t, test.of, 8192)
		for _, pid := range []int{parent, child} {
			var who uint8
			if err := o.Processes.Lookup(uint32(pid), &who); err != nil || who != test.who {
				t.Errorf("process %d: %d, want %d: %v", pid, who, test.who, err)
			}
		}
	}
}

// A process that has ended is not followed: its number may be another's soon.
func TestTheEndedAreNotFollowed(t *testing.T) {
	gone := exec.CommandContext(t.Context(), "/bin/true")
	if err := gone.Run(); err != nil {
		t.Fatal(err)
	}
	o := locksOf(t, Selection{pids: []int{gone.Process.Pid}}, 8192)
	var who uint8
	if err := o.Processes.Lookup(uint32(gone.Process.Pid), &who); !errors.Is(err, ebpf.ErrKeyNotExist) {
		t.Errorf("process %d is followed: %v", gone.Process.Pid, err)
	}
}

// TestSharedWaitsStandApart: what an engine waits for that others use too is no
// wait of the trial's.
func TestSharedWaitsStandApart(t *testing.T) {
	needsKernel(t)
	engine, err := Select([]driver.Watch{{Role: driver.RoleShared, PID: os.Getpid()}})
	if err != nil {
		t.Fatal(err)
	}
	for _, record := range []Recorder{RecordLocks, RecordStacks} {
		p := recordedBy(t, record, engine, func() {
			for range children {
				if err := exec.CommandContext(t.Context(), "/bin/true").Run(); err != nil {
					t.Fatal(err)
				}
			}
		})
		found := false
		for _, w := range p.Waits {
			found = found || w.Shared
			if !w.Shared && !w.Kernel {
				t.Errorf("the trial's own: %+v", w)
			}
		}
		for _, s := range p.Samples {
			found = found || s.Shared
			if !s.Shared && !s.Kernel {
				t.Errorf("the trial's own: %+v", s)
			}
		}
		if !found {
			t.Error("nothing of the engine's was seen")
		}
	}
}

// Before Linux 6.1 a program that interrupts anything can be given no memory: its
// maps have all of theirs beforehand.
func TestMapsBeforeLinux61(t *testing.T) {
	for _, read := range []func() (*ebpf.CollectionSpec, error){loadLocks, loadStacks} {
		for version, lazy := range map[uint32]bool{5<<16 | 19<<8: false, 6 << 16: false, 6<<16 | 1<<8: true} {
			spec, err := read()
			if err != nil {
				t.Fatal(err)
			}
			preallocate(spec, version)
			for name, m := range spec.Maps {
				if got := m.Flags&unix.BPF_F_NO_PREALLOC != 0; got && !lazy {
					t.Errorf("Linux %d.%d: map %s is given memory while it is used", version>>16, version>>8&0xff, name)
				}
			}
		}
	}
}

// In a cgroup namespace nobody can tell how deep a cgroup lies.
func TestLevelsOfCgroups(t *testing.T) {
	s := Selection{cgroups: map[uint64]int{1: 3, 2: 5}}
	if got := s.levels(true); got != 1<<3|1<<5 {
		t.Errorf("%b", got)
	}
	if got := s.levels(false); got != 1<<(deepest+1)-1<<3 {
		t.Errorf("%b in a namespace", got)
	}
	if got := (Selection{}).levels(false); got != 0 {
		t.Errorf("%b without a cgroup", got)
	}
}
