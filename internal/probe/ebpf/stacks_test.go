package ebpf

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/profile"
)

// stacksOf is what the probe sees of a command, its root beside it.
func stacksOf(t *testing.T, most uint32, argv ...string) profile.Profile {
	t.Helper()
	self, err := SelectProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	spec, err := loadStacks()
	if err != nil {
		t.Fatal(err)
	}
	if most > 0 {
		for _, name := range []string{"stacks", "user_stacks", "rows"} {
			spec.Maps[name].MaxEntries = most
		}
	}
	stop, err := recordStacks(self, spec)
	var cannot *driver.CannotError
	if errors.As(err, &cannot) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), argv[0], argv[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", argv, err, out)
	}
	p, err := stop()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// spin runs for so long in a shell, which no symbol need name.
const spin = `i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done`

// TestStacksOfTheRealKernel finds a shell that spins on a CPU and one that sleeps
// off it.
func TestStacksOfTheRealKernel(t *testing.T) {
	p := stacksOf(t, 0, "sh", "-c", spin+`; sleep 0.3`)
	checkSpinAndSleep(t, p)
}

// checkSpinAndSleep: a shell span on a CPU, and a program slept for 300 ms.
func checkSpinAndSleep(t *testing.T, p profile.Profile) {
	t.Helper()
	var slept time.Duration
	ran := map[string]time.Duration{}
	for _, s := range p.Samples {
		switch {
		case s.State == profile.OnCPU:
			ran[s.Comm] += s.Total
		case s.State == profile.Asleep && s.Comm == "sleep" && slices.ContainsFunc(p.Stacks[s.Stack], func(f string) bool { return strings.Contains(f, "nanosleep") }):
			slept += s.Total
		}
	}
	// The timer runs before the thread leaves its CPU, which others may have taken meanwhile.
	if slept < 150*time.Millisecond || slept > p.Elapsed {
		t.Errorf("a sleep of 300 ms took %v of %v: %+v", slept, p.Elapsed, p.Times())
	}
	if on := p.StateTotal(profile.OnCPU); ran["sh"] <= 0 || on > p.Elapsed.Seconds()*2 || ran["sh"].Seconds() < on/2 {
		t.Errorf("a shell that spins ran %v of %g s on CPUs: %+v", ran, on, p.Times())
	}
	if p.Cost <= 0 {
		t.Errorf("cost %v", p.Cost)
	}
}

// TestStacksWithoutRoomAreOther gives the maps room for 4 of each, so that all
// else has to be counted in one row.
func TestStacksWithoutRoomAreOther(t *testing.T) {
	p := stacksOf(t, 4, "sh", "-c", `for i in 1 2 3 4 5 6 7 8 9 10; do ls -l / >/dev/null; done; sleep 0.2`)
	var other, rows int
	for _, s := range p.Samples {
		if rows++; s.Comm == "[other]" {
			other++
		}
	}
	if other == 0 || rows > 4+3*2+70 || len(p.Lost) == 0 {
		t.Errorf("%d rows, %d of them other, lost %v", rows, other, p.Lost)
	}
	if all := p.StateTotal(profile.Asleep); all < 0.2 {
		t.Errorf("asleep for %g s, of 0.2 at least: what found no room was dropped", all)
	}
}
