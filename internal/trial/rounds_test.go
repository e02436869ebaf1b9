package trial_test

import (
	"bufio"
	"context"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/driver/fake"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/trial"
)

// taker is a scripted payload that takes turns: reply gives what it prints for its nth
// turn (from 0, the warm-up), "" for nothing; false ends it.
func taker(reply func(n int, name string) (string, bool)) fake.Script {
	return fake.Script{Payload: func(ctx context.Context, spec driver.Spec) (driver.Exit, error) {
		stop := context.AfterFunc(ctx, func() { _ = spec.Stdio.Stdin.SetReadDeadline(time.Now()) })
		defer stop()
		fmt.Fprint(spec.Stdio.Stdout, driver.Acted)
		lines := bufio.NewScanner(spec.Stdio.Stdin)
		for n := 0; lines.Scan(); n++ {
			name, _, _ := strings.Cut(lines.Text(), " ")
			text, more := reply(n, name)
			fmt.Fprint(spec.Stdio.Stdout, text)
			if !more {
				return driver.Exit{Code: 3}, nil
			}
		}
		return driver.Exit{}, ctx.Err()
	}}
}

// honest counts 1000 iterations in a window of its own clock that the laboratory's
// surely brackets.
func honest(int, string) (string, bool) {
	now := clock()
	for clock() < now+2000 {
	}
	return fmt.Sprintf("1000 %d %d 500 bytes=4096 mode=a\n", now, now+1000), true
}

func clock() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(err)
	}
	return t.Nano()
}

// block makes a block of one target for each script, all with the same turns, visited
// one after another.
func block(rounds int, names []string, scripts ...fake.Script) trial.Rounds {
	b := trial.Rounds{Block: 4, Slice: 10 * time.Millisecond, Timeout: time.Minute}
	for i, script := range scripts {
		h := trial.Held{Driver: fake.New(fmt.Sprint("fake", i), func(int, driver.Spec) fake.Script { return script }), Copies: 1}
		for t, name := range names {
			h.Turns = append(h.Turns, trial.Turn{Seq: 100 + i*len(names) + t, Cell: fmt.Sprintf("fake%d/%s", i, name), Name: name})
		}
		b.Held = append(b.Held, h)
	}
	for range rounds {
		var order []trial.Visit
		for t := range names {
			for i := range scripts {
				order = append(order, trial.Visit{Held: i, Turn: t})
			}
		}
		b.Order = append(b.Order, order)
	}
	return b
}

// runRounds does a block and checks that nothing of it is left.
func runRounds(t *testing.T, ctx context.Context, b trial.Rounds) ([]sample.Record, error) {
	t.Helper()
	dir := t.TempDir()
	groups, sink := &noGroups{}, &records{}
	r := trial.Runner{RunID: "test", Dir: dir, Groups: groups, Sink: sink}
	got, err := r.RunRounds(ctx, b)
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if made, removed := groups.made.Load(), groups.removed.Load(); made != removed {
		t.Errorf("made %d groups, removed %d", made, removed)
	}
	if err == nil && len(*sink) != len(got) || err != nil && len(*sink) != 0 {
		t.Errorf("error %v, %d records, %d kept", err, len(got), len(*sink))
	}
	return got, err
}

func TestRoundsKeepEverySlice(t *testing.T) {
	got, err := runRounds(t, t.Context(), block(7, []string{"cpu", "calls"}, taker(honest), taker(honest)))
	if err != nil || len(got) != 4 {
		t.Fatalf("%v, %d records", err, len(got))
	}
	for i, r := range got {
		if r.Failure != nil || r.Slices == nil {
			t.Fatalf("record %d: %+v", i, r.Failure)
		}
		s := r.Slices
		if r.Seq != 100+i || r.Block != 4 || !slices.Equal(s.Round, []int{0, 1, 2, 3, 4, 5, 6}) {
			t.Errorf("record %d is %d of block %d with rounds %v: the warm-up is no slice", i, r.Seq, r.Block, s.Round)
		}
		if math.Abs(r.Values["slice-rate"][0]/1e9-1) > 1e-9 || math.Abs(r.Values["cpu-each"][0]/0.5e-9-1) > 1e-9 || r.Values["turnaround"][0] <= 0 {
			t.Errorf("values %v: want 1000 iterations in 1000 ns, 500 ns of CPU time", r.Values)
		}
		if s.Bytes != 7*4096 || !slices.Equal(s.Said, []string{"mode=a"}) || s.Device != nil {
			t.Errorf("evidence: %v bytes, %v said, device %v", s.Bytes, s.Said, s.Device)
		}
		for k := range s.From {
			if s.To[k]-s.From[k] < s.Own[k] || k > 0 && s.From[k] < s.To[k-1] {
				t.Errorf("slice %d from %d to %d: own %d, the one before ended at %d", k, s.From[k], s.To[k], s.Own[k], s.To[max(k-1, 0)])
			}
		}
	}
}

// One turn at a time, in the order that was asked for.
func TestRoundsFollowTheOrder(t *testing.T) {
	var mu sync.Mutex
	var seen []string
	note := func(who string) fake.Script {
		return taker(func(n int, name string) (string, bool) {
			mu.Lock()
			seen = append(seen, who+name)
			mu.Unlock()
			return honest(n, name)
		})
	}
	b := block(0, []string{"x", "y"}, note("a"), note("b"))
	b.Order = [][]trial.Visit{{{Held: 1, Turn: 1}, {Held: 0, Turn: 1}, {Held: 0, Turn: 0}, {Held: 1, Turn: 0}}, {{Held: 0, Turn: 0}, {Held: 1, Turn: 0}, {Held: 1, Turn: 1}, {Held: 0, Turn: 1}}}
	got, err := runRounds(t, t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"ax", "ay", "bx", "by", "by", "ay", "ax", "bx", "ax", "bx", "by", "ay"}
	if !slices.Equal(seen, want) {
		t.Errorf("turns %v, want the warm-up and then %v", seen, want)
	}
	for _, r := range got {
		if r.Failure != nil || len(r.Slices.Count) != 2 {
			t.Errorf("%s: %+v", r.Cell, r)
		}
	}
}

// All instances of a target take a turn before any has answered.
func TestCopiesTakeATurnAtOnce(t *testing.T) {
	var both sync.WaitGroup
	both.Add(2)
	script := taker(func(n int, name string) (string, bool) {
		if n == 0 {
			both.Done()
			both.Wait() // for ever, where the second is asked after the first
		}
		return honest(n, name)
	})
	b := block(3, []string{"x"}, script)
	b.Held[0].Copies = 2
	got, err := runRounds(t, t.Context(), b)
	if err != nil || got[0].Failure != nil {
		t.Fatalf("%v, %+v", err, got)
	}
	if s := got[0].Slices; s.Count[0] != 2000 || math.Abs(got[0].Values["slice-rate"][0]/2e9-1) > 1e-9 || s.Bytes != 3*2*4096 {
		t.Errorf("count %v, rate %v, bytes %v: want the sums of two instances", s.Count, got[0].Values["slice-rate"], s.Bytes)
	}
}

// A payload that breaks its word fails, by its own fault; the others go on.
func TestBadTakersFailAlone(t *testing.T) {
	after := func(n int, bad string, more bool) fake.Script {
		return taker(func(turn int, name string) (string, bool) {
			if turn < n {
				return honest(turn, name)
			}
			return bad, more
		})
	}
	flood := taker(func(n int, name string) (string, bool) {
		text, _ := honest(n, name)
		return text + strings.Repeat(text, 100), true
	})
	for name, c := range map[string]struct {
		script      fake.Script
		phase, want string
	}{
		"dies":           {after(3, "", false), "wait", "ended with exit code 3"},
		"not a number":   {after(3, "many\n", true), "parse", `with "many"`},
		"empty line":     {after(3, "\n", true), "parse", "no count"},
		"two numbers":    {after(3, "1 2\n", true), "parse", "2 numbers"},
		"backwards":      {after(3, "1 20 10\n", true), "parse", "END is not after BEGIN"},
		"negative":       {after(3, "-1\n", true), "parse", "from 0 on"},
		"not a word":     {after(3, "1 a=1 b\n", true), "parse", "not key=value"},
		"refuses":        {after(3, "error: no disk\n", true), "parse", "no disk"},
		"lying clock":    {after(3, "1 1 9000000000000000000\n", true), "parse", "clock counted"},
		"long line":      {after(3, strings.Repeat("1", 10_000), true), "parse", "more than 4096 bytes"},
		"two answers":    {after(3, "1\n1\n1\n", true), "parse", "no turn had asked for"},
		"floods":         {flood, "parse", "no turn had asked for"},
		"does nothing":   {taker(func(int, string) (string, bool) { return "0\n", true }), "parse", "no iteration"},
		"never acts":     {fake.Script{NoMark: true}, "wait", "ended while it was to be held"},
		"cannot start":   {fake.Script{StartErr: os.ErrPermission}, "start", "permission"},
		"cannot prepare": {fake.Script{PrepareErr: os.ErrPermission}, "prepare", "permission"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := runRounds(t, t.Context(), block(5, []string{"x"}, taker(honest), c.script, taker(honest)))
			if err != nil || len(got) != 3 {
				t.Fatalf("%v, %d records", err, len(got))
			}
			f := got[1].Failure
			if f == nil || f.Phase != c.phase || !strings.Contains(f.Message, c.want) || f.Fault != sample.FaultTarget || got[1].Slices != nil || got[1].Values != nil {
				t.Errorf("failure %+v, want %q in %s", f, c.want, c.phase)
			}
			for _, i := range []int{0, 2} {
				if got[i].Failure != nil || len(got[i].Slices.Count) != 5 {
					t.Errorf("record %d did not go on: %+v", i, got[i].Failure)
				}
			}
		})
	}
}

// A refused turn concerns its own cell; the program's other turns go on.
func TestRefusedTurnLeavesTheOthers(t *testing.T) {
	script := taker(func(n int, name string) (string, bool) {
		if name == "disk" {
			return "error: no room\n", true
		}
		return honest(n, name)
	})
	got, err := runRounds(t, t.Context(), block(4, []string{"cpu", "disk"}, script))
	if err != nil || got[0].Failure != nil || len(got[0].Slices.Count) != 4 || got[1].Failure == nil {
		t.Errorf("%v: %+v, %+v", err, got[0], got[1])
	}
}

// A payload that does not answer is ended; its time-out is its own.
func TestSilentTakerTimesOut(t *testing.T) {
	b := block(2, []string{"x"}, taker(func(n int, name string) (string, bool) {
		if n < 2 {
			return honest(n, name)
		}
		return "", true
	}))
	b.Timeout = 300 * time.Millisecond
	got, err := runRounds(t, t.Context(), b)
	if err != nil || got[0].Failure == nil || !strings.Contains(got[0].Failure.Message, `had not answered the turn "x"`) {
		t.Errorf("%v, %+v", err, got[0].Failure)
	}
}

// A slice that took long is kept and counted: one of 1000 ns has stalled where 100 were
// asked for, and one of 40 ns has not, but for the way there and back.
func TestStallIsCounted(t *testing.T) {
	b := block(5, []string{"x"}, taker(honest))
	b.Slice = 100 * time.Nanosecond
	got, err := runRounds(t, t.Context(), b)
	if err != nil || got[0].Failure != nil {
		t.Fatalf("%v, %+v", err, got[0].Failure)
	}
	if s := got[0].Slices; len(s.Count) != 5 || !slices.Equal(s.Stalled, []int{0, 1, 2, 3, 4}) || got[0].Values["stalled"][0] != 5 {
		t.Errorf("%+v", s)
	}
}

// Without times of its own the host's clock times the slice.
func TestCountAlone(t *testing.T) {
	got, err := runRounds(t, t.Context(), block(3, []string{"x"}, taker(func(int, string) (string, bool) { return "10\n", true })))
	if err != nil || got[0].Failure != nil {
		t.Fatalf("%v, %+v", err, got[0].Failure)
	}
	s := got[0].Slices
	for i := range s.Own {
		if s.Own[i] != s.To[i]-s.From[i] || s.CPU != nil {
			t.Errorf("slice %d: own %d, bracket %d, CPU %v", i, s.Own[i], s.To[i]-s.From[i], s.CPU)
		}
	}
}

// A cancelled block leaves no record, so that it can be done again.
func TestCancelledBlockIsNotRecorded(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	_, err := runRounds(t, ctx, block(1000, []string{"x"}, taker(func(n int, name string) (string, bool) {
		if n == 5 {
			cancel()
		}
		return honest(n, name)
	})))
	if err == nil {
		t.Error("a cancelled block was recorded")
	}
}

// What devices move is read before and after some slices whose evidence it is, and
// the payload's bytes are of the same.
func TestDeviceBytesAreOfTheSlices(t *testing.T) {
	b := block(32, []string{"cpu", "disk"}, taker(honest))
	b.Held[0].Turns[1].Device = true
	moved := 0.0
	b.Device = func([]driver.Watch) (float64, bool, error) { moved += 50; return moved, true, nil }
	got, err := runRounds(t, t.Context(), b)
	if err != nil || got[0].Failure != nil || got[1].Failure != nil {
		t.Fatalf("%v, %+v", err, got)
	}
	if d := got[1].Slices.Device; got[0].Slices.Device != nil || d == nil || *d != 2*50 || got[1].Slices.Bytes != 2*4096 || got[0].Slices.Bytes != 32*4096 {
		t.Errorf("device bytes %v of %v, want 100 of two slices' 8192", d, got[1].Slices.Bytes)
	}
}

func TestPayloadThatFailsAtItsEnd(t *testing.T) {
	script := fake.Script{Payload: func(ctx context.Context, spec driver.Spec) (driver.Exit, error) {
		exit, err := taker(honest).Payload(ctx, spec)
		exit.Code = 7 // its last checks did not hold
		return exit, err
	}}
	got, err := runRounds(t, t.Context(), block(2, []string{"x"}, script))
	if err != nil || got[0].Failure == nil || !strings.Contains(got[0].Failure.Message, "exit code 7") {
		t.Errorf("%v, %+v", err, got[0].Failure)
	}
}

// A slice whose bytes nobody can read at its end has none: a payload may have ended, with the
// processes by which they were counted.
func TestDeviceBytesThatAreGone(t *testing.T) {
	b := block(32, []string{"files"}, taker(honest))
	b.Held[0].Turns[0].Device = true
	looks := 0
	b.Device = func([]driver.Watch) (float64, bool, error) {
		if looks++; looks == 4 { // the end of the second slice that is looked at
			return 0, false, nil
		}
		return 50 * float64(looks), true, nil
	}
	got, err := runRounds(t, t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	if s := got[0].Slices; s.Device == nil || *s.Device != 50 || s.Bytes != 4096 {
		t.Errorf("device bytes %v of %v bytes, want those of the first slice", s.Device, s.Bytes)
	}
}
