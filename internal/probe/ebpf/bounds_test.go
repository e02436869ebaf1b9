package ebpf

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"github.com/tarelab/tare/internal/driver/drivertest/oldkernel"
	"github.com/tarelab/tare/internal/profile"
)

// leaderless is set in a child of a test that ends its first thread.
const leaderless = "TARE_TEST_LEADERLESS"

func init() {
	if os.Getenv(leaderless) != "" {
		runtime.LockOSThread() // main is then the first thread
	}
}

func TestMain(m *testing.M) {
	if os.Getenv(leaderless) != "" {
		go withoutLeader()
		if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err == nil {
			_, _, _ = syscall.Syscall(syscall.SYS_EXIT, 0, 0, 0) // of this thread alone: it does not return
		}
		os.Exit(1)
	}
	oldkernel.Main(m)
}

// children are started by another thread than the first.
const children = 5

// withoutLeader waits until the first thread has ended, and starts programs.
func withoutLeader() {
	for {
		state, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/stat", os.Getpid()))
		if err != nil {
			os.Exit(1)
		}
		var pid int
		var name, what string
		if _, err := fmt.Sscan(string(state), &pid, &name, &what); err == nil && what == "Z" {
			break
		}
		time.Sleep(time.Millisecond)
	}
	for range children {
		if err := exec.Command("/bin/true").Run(); err != nil { //nolint:noctx // there is none here
			os.Exit(1)
		}
	}
	os.Exit(0)
}

// A process lives as long as any of its threads.
func TestProcessOutlivesItsFirstThread(t *testing.T) {
	needsKernel(t)
	c := exec.CommandContext(t.Context(), "/proc/self/exe")
	c.Env = append(os.Environ(), leaderless+"=1")
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	self, err := SelectProcess(c.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	p := recorded(t, self, func() {
		if _, err := io.WriteString(in, "\n"); err != nil {
			t.Error(err)
		}
		if err := c.Wait(); err != nil {
			t.Error(err)
		}
	})
	if n := own(p)["vfork: until the child executes"].Waits; n < children {
		t.Errorf("%d waits for %d children of a thread whose process has lost its first: %+v", n, children, p.Table())
	}
}

// locksOf loads the programs of the lock probe for a selection, with room for so
// many rows, attached to nothing.
func locksOf(t *testing.T, own Selection, rows uint32) *locksObjects {
	t.Helper()
	needsKernel(t)
	spec, err := loadLocks()
	if err != nil {
		t.Fatal(err)
	}
	spec.Maps["sums"].MaxEntries = rows
	var o locksObjects
	if err := load(spec, &o, own); err != nil {
		t.Fatal(err)
	}
	if err := own.fill(o.Cgroups, o.Processes); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = o.Close() }) // nothing was written
	return &o
}

// What finds no row keeps its owner and its kind.
func TestWaitsWithoutARowKeepTheirOwner(t *testing.T) {
	self, err := SelectProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	o := locksOf(t, self, 1)
	full := locksKey{Lock: 1, Kind: uint32(profile.WaitPercpu | profile.WaitRead)}
	if err := o.Sums.Put(full, locksSum{}); err != nil {
		t.Fatal(err)
	}
	s := &session{objects: o}
	if err := s.attach(o.OnFork, o.OnExit, o.OnSwitch, o.OnBegin, o.OnEnd); err != nil {
		t.Fatal(err)
	}
	for range children {
		if err := exec.CommandContext(t.Context(), "/bin/true").Run(); err != nil {
			t.Fatal(err)
		}
	}
	// A kernel thread's, whether one waited or not.
	if err := o.Spare.Put(1+ownerKernel*spareKinds+uint32(profile.WaitMutex), locksSum{Count: 3, Total: 3}); err != nil {
		t.Fatal(err)
	}
	var p profile.Profile
	if err := s.detach(&p); err != nil {
		t.Fatal(err)
	}
	if err := readWaits(&p, o, &symbols{}, 0); err != nil {
		t.Fatal(err)
	}
	var sleeps, kernel uint64
	for _, w := range p.Waits {
		switch {
		case w.Kind == profile.Sleep && !w.Kernel:
			sleeps += w.Count
		case w.Kind == profile.Mutex && w.Kernel:
			kernel += w.Count
		case w.Kind == profile.OtherLock:
			t.Errorf("the kind of %+v was lost", w)
		}
	}
	if sleeps < children || kernel < 3 || len(p.Lost) == 0 {
		t.Errorf("%d own sleeps for %d children, %d waits of kernel threads for 3, lost %v", sleeps, children, kernel, p.Lost)
	}
}

// Waits that had not ended count with their time until the end.
func TestUnfinishedWaits(t *testing.T) {
	o := locksOf(t, Selection{}, 8192)
	const end = uint64(10 * time.Second)
	for pid, w := range map[uint32]locksWait{
		1: {Since: end - uint64(time.Second), Lock: 0x10, Kind: uint32(profile.WaitMutex)},
		2: {Since: end - uint64(2*time.Second), Lock: 0x20, Kind: uint32(profile.WaitMutex), Owner: ownerKernel},
		3: {Since: end + 1, Lock: 0x30, Kind: uint32(profile.WaitMutex)}, // while the programs were detached
	} {
		if err := o.Waiting.Put(pid, w); err != nil {
			t.Fatal(err)
		}
	}
	if err := o.Sleeping.Put(uint32(4), locksWait{Since: end - uint64(4*time.Second), Kind: flagSleep}); err != nil {
		t.Fatal(err)
	}
	var p profile.Profile
	if err := readWaits(&p, o, &symbols{}, end); err != nil {
		t.Fatal(err)
	}
	got := map[string]time.Duration{}
	for _, w := range p.Waits {
		if w.Count != 1 || w.Unfinished != 1 || w.Most != w.Total || w.Times.Quantile(1) == 0 {
			t.Errorf("%+v", w)
		}
		got[fmt.Sprintf("%s %#x %t", w.Kind, w.Lock, w.Kernel)] = w.Total
	}
	want := map[string]time.Duration{"mutex 0x10 false": time.Second, "mutex 0x20 true": 2 * time.Second, "sleep 0x0 false": 4 * time.Second}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// A spin of which the end was not seen does not keep its CPU's slot.
func TestSpinSlotsAreFreed(t *testing.T) {
	o := locksOf(t, Selection{}, 8192)
	slots := make([]locksWait, ebpf.MustPossibleCPU())
	for i := range slots {
		slots[i] = locksWait{Lock: 1, Kind: uint32(profile.WaitSpin)}
	}
	if err := o.Spinning.Put(uint32(0), slots); err != nil {
		t.Fatal(err)
	}
	s := &session{objects: o}
	if err := s.attach(o.OnSwitch); err != nil {
		t.Fatal(err)
	}
	time.Sleep(50 * time.Millisecond) // this thread leaves its CPU
	var p profile.Profile
	if err := s.detach(&p); err != nil {
		t.Fatal(err)
	}
	if err := o.Spinning.Lookup(uint32(0), &slots); err != nil {
		t.Fatal(err)
	}
	freed := uint64(0)
	for _, slot := range slots {
		if slot.Lock == 0 {
			freed++
		}
	}
	if err := readLost(&p, o.Lost); err != nil {
		t.Fatal(err)
	}
	if n := p.Lost["waits of which the end was not seen"]; freed == 0 || n != freed {
		t.Errorf("%d of %d slots were freed, and %d ends are told as lost", freed, len(slots), n)
	}
}
