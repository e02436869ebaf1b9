package fleet_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarelab/tare/internal/fleet"
	"github.com/tarelab/tare/internal/fleet/engine"
	"github.com/tarelab/tare/internal/fleet/fake"
	"github.com/tarelab/tare/internal/fleet/fleettest"
	"github.com/tarelab/tare/internal/store"
)

// streamOf is what tare run --stream writes on a machine, with the exit code it has then.
func streamOf(t testing.TB, machine string, seed uint64, cut, exit int) []byte {
	t.Helper()
	m := fleettest.Machine{Host: fleettest.Host(int(seed)), Ratios: map[string]float64{"native": 2}, Noise: 0.004, Seed: seed, Cut: cut}
	m.Host.Hostname = machine
	m.At = time.Date(2026, 11, 23, 4, 39, int(seed), 0, time.UTC)
	dir, err := fleettest.Make(t.TempDir(), m)
	if err != nil {
		t.Fatal(err)
	}
	from, err := store.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	manifest := from.Manifest()
	manifest.ID = ""
	to, err := store.Create(t.TempDir(), manifest)
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	var out bytes.Buffer
	s, err := store.NewStream(&out, to)
	if err != nil {
		t.Fatal(err)
	}
	for r, err := range from.Records() {
		if err == nil {
			err = to.Append(r)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if exit < 0 { // killed
		return out.Bytes()
	}
	if err := s.Close(to, exit); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// script is what the jobs of a machine do, attempt by attempt.
type script func(ctx context.Context, out io.Writer) int

// cluster is a fake engine whose machines follow scripts.
type cluster struct {
	*fake.Engine
	mu      sync.Mutex
	scripts map[string][]script
	ran     []string
}

func newCluster(machines int, scripts map[string][]script) *cluster {
	var names []string
	for i := range machines {
		names = append(names, fmt.Sprintf("m%d", i+1))
	}
	c := &cluster{scripts: scripts}
	c.Engine = fake.New(func(ctx context.Context, job engine.Job, out io.Writer) int {
		c.mu.Lock()
		c.ran = append(c.ran, job.Machine)
		next := c.scripts[job.Machine]
		if len(next) > 1 {
			c.scripts[job.Machine] = next[1:]
		}
		c.mu.Unlock()
		return next[0](ctx, out)
	}, names...)
	return c
}

// writes is a job that writes something and ends.
func writes(text []byte, exit int) script {
	return func(_ context.Context, out io.Writer) int {
		_, _ = out.Write(text)
		return exit
	}
}

// stays is a job that writes something and ends by SIGTERM alone, with more to write.
func stays(text, after []byte, exit int) script {
	return func(ctx context.Context, out io.Writer) int {
		_, _ = out.Write(text)
		<-ctx.Done()
		_, _ = out.Write(after)
		return exit
	}
}

// begin plans a fleet on a fake engine.
func begin(t testing.TB, c *cluster, nodes string, edit func(*fleet.Plan)) (dir string) {
	t.Helper()
	machines, err := c.Machines(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	p := fleet.Plan{Token: "abcd", Engine: "fake", Args: []string{"run", "start", "--stream"}, AtOnce: 50, Time: time.Minute, Attempts: 2}
	if p.Draw, err = fleet.Choose(machines, nodes, 1); err != nil {
		t.Fatal(err)
	}
	edit(&p)
	dir = filepath.Join(t.TempDir(), "fleet")
	if err := fleet.Begin(dir, p); err != nil {
		t.Fatal(err)
	}
	return dir
}

func unchanged(*fleet.Plan) {}

const quick = 5 * time.Millisecond

func collect(t testing.TB, c engine.Engine, dir string) ([]fleet.Status, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	err := (&fleet.Collector{Dir: dir, Engine: c, Pace: quick}).Collect(ctx)
	return statuses(t, dir), err
}

func statuses(t testing.TB, dir string) []fleet.Status {
	t.Helper()
	_, all, _, err := fleet.Statuses(dir)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// empty checks that the engine has nothing, and that no output is left.
func empty(t testing.TB, c *cluster, dir string) {
	t.Helper()
	if left, err := c.Left(t.Context()); err != nil || len(left) > 0 {
		t.Errorf("the engine still has %q (%v)", left, err)
	}
	if left, err := os.ReadDir(filepath.Join(dir, "streams")); err != nil || len(left) > 0 {
		t.Errorf("streams are left: %v (%v)", left, err)
	}
}

func TestCollect(t *testing.T) {
	scripts := map[string][]script{}
	for i := range 5 {
		name := fmt.Sprintf("m%d", i+1)
		scripts[name] = []script{writes(streamOf(t, name, uint64(i+1), 0, 0), 0)}
	}
	c := newCluster(5, scripts)
	dir := begin(t, c, "4", func(p *fleet.Plan) { p.AtOnce = 2 })
	all, err := collect(t, c, dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		if s.What != fleet.Done || s.Run == "" || s.Records != 27 {
			t.Errorf("%+v", s)
		}
	}
	empty(t, c, dir)
	if r := readFleet(t, dir); len(r.Machines) != 4 {
		t.Errorf("the report has %d machines", len(r.Machines))
	}
	ran := len(c.ran)
	if _, err := collect(t, c, dir); err != nil || len(c.ran) != ran {
		t.Errorf("collected again: %v, %d jobs after %d", err, len(c.ran), ran)
	}
}

// Each row of the table of failures: what is recorded, and what follows.
func TestFailuresAreRecords(t *testing.T) {
	whole, second := streamOf(t, "m1", 1, 0, 0), streamOf(t, "m2", 2, 0, 0)
	part := streamOf(t, "m1", 3, 9, -1)
	tail := []byte("tare: native needs root\n")
	damaged := bytes.Replace(streamOf(t, "m1", 4, 0, 0), []byte("tare1 5 "), []byte("gone! 5 "), 1)
	lose := func(c *cluster) { c.Down("m1") }
	phase := func(p engine.Phase) func(*cluster) {
		return func(c *cluster) {
			left, _ := c.Left(context.Background()) // never fails
			for _, name := range left {
				c.End(name, p)
			}
		}
	}
	for name, c := range map[string]struct {
		first script
		meant func(*cluster) // happens once the first job has written
		want  fleet.What     // of the first attempt
		words string
		again bool // another attempt follows
		kept  bool // a part of a run is kept
		fault fleet.Fault
	}{
		"target failed":     {first: writes(streamOf(t, "m1", 5, 0, 3), 3), want: fleet.TargetFailed, kept: true, fault: fleet.OfTarget},
		"laboratory":        {first: writes(tail, 1), want: fleet.LabFailed, words: "exit code 1: tare: native needs root", fault: fleet.OfLaboratory},
		"cannot":            {first: writes(tail, 4), want: fleet.CannotHere, words: "tare: native needs root", fault: fleet.CannotRun},
		"no program":        {first: writes([]byte("sh: tare: not found\n"), 127), want: fleet.LabFailed, words: "exit code 127: sh: tare: not found", fault: fleet.OfLaboratory},
		"limits are broken": {first: writes(streamOf(t, "m1", 6, 0, 6), 6), want: fleet.Done, kept: true},
		"interrupted":       {first: writes(slices.Concat(part, tail), 130), want: fleet.CutOff, kept: true, again: true},
		"cut off":           {first: writes(part, 137), want: fleet.CutOff, kept: true, again: true},
		"cut off early":     {first: writes(part[:200], 0), want: fleet.CutOff, again: true},
		"damaged":           {first: writes(damaged, 0), want: fleet.Damaged, words: "lines 5 to 5 are missing", again: true},
		"lost":              {first: stays(part, nil, 0), meant: lose, want: fleet.Lost, words: "NodeDown", kept: true, again: true},
		"taken":             {first: stays(part, nil, 0), meant: phase(engine.Taken), want: fleet.Taken, words: "taken", kept: true, again: true},
		"too long":          {first: stays(part, nil, 0), meant: phase(engine.TooLong), want: fleet.TooLong, kept: true, fault: fleet.OfLaboratory},
		"out of memory":     {first: stays(part, nil, 0), meant: phase(engine.OutOfMemory), want: fleet.OutOfMemory, kept: true, fault: fleet.OfTarget},
		"somebody ended it": {first: stays(part, nil, 0), meant: phase(engine.Cancelled), want: fleet.Cancelled, kept: true, fault: fleet.OfLaboratory},
		"lost when done":    {first: stays(whole, nil, 0), meant: lose, want: fleet.Done, kept: true},
	} {
		t.Run(name, func(t *testing.T) {
			cl := newCluster(2, map[string][]script{"m1": {c.first, writes(whole, 0)}, "m2": {writes(second, 0)}})
			dir := begin(t, cl, "m1", func(p *fleet.Plan) { p.How, p.Order = fleet.Drawn, []string{"m1", "m2"} })
			if c.meant != nil {
				go func() {
					for statuses(t, dir)[0].Records == 0 {
						time.Sleep(quick)
					}
					c.meant(cl)
				}()
			}
			all, err := collect(t, cl, dir)
			first := all[0].Event
			if len(all[0].Earlier) > 0 {
				first = all[0].Earlier[0]
			}
			if first.What != c.want || !strings.Contains(first.Words, c.words) || (first.Run != "") != c.kept {
				t.Errorf("recorded: %+v", first)
			}
			if again := all[0].Attempt == 2; again != c.again || again && (all[0].What != fleet.Done || err != nil) {
				t.Errorf("afterwards: %+v (%v)", all[0].Event, err)
			}
			if c.want == fleet.Lost && all[0].Machine != "m2" {
				t.Errorf("the place of a machine that is lost was taken by %s", all[0].Machine)
			}
			if result, _ := fleet.AsResult(err); c.fault != fleet.NoFault && (result == nil || result.Fault != c.fault) {
				t.Errorf("the fleet's end: %v", err)
			}
			if left, _ := cl.Left(t.Context()); len(left) > 0 {
				t.Errorf("the engine still has %q", left)
			}
		})
	}
}

// A state that tare does not know is recorded as it is, and asked for again.
func TestUnknownStateIsNoVerdict(t *testing.T) {
	c := newCluster(1, map[string][]script{"m1": {writes(streamOf(t, "m1", 1, 0, 0), 0)}})
	asked := 0
	c.Edit = func(_ string, s engine.State) engine.State {
		if asked++; asked < 5 {
			return engine.State{Phase: engine.Unknown, Reason: "POWERING_SIDEWAYS"}
		}
		return s
	}
	dir := begin(t, c, "all", unchanged)
	all, err := collect(t, c, dir)
	if err != nil || all[0].What != fleet.Done {
		t.Errorf("%+v (%v)", all[0], err)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "jobs.jsonl")); err != nil || strings.Count(string(text), "POWERING_SIDEWAYS") != 2 { // in state and words of one event
		t.Errorf("%s (%v)", text, err)
	}
}

// An engine that does not answer is asked again, and nothing is concluded.
func TestEngineIsAway(t *testing.T) {
	c := newCluster(2, map[string][]script{"m1": {writes(streamOf(t, "m1", 1, 0, 0), 0)}, "m2": {writes(streamOf(t, "m2", 2, 0, 0), 0)}})
	calls := map[string]int{}
	var mu sync.Mutex
	dir := begin(t, c, "all", unchanged)
	c.Fail = func(method string) error {
		mu.Lock()
		defer mu.Unlock()
		if calls[method]++; calls[method]%3 != 0 {
			return fake.ErrAway
		}
		return nil
	}
	all, err := collect(t, c, dir)
	if err != nil || all[0].What != fleet.Done || all[1].What != fleet.Done {
		t.Errorf("%+v (%v)", all, err)
	}
	empty(t, c, dir)
}

// A machine is lost while the engine says nothing of its machines: the next attempt waits
// until it does, and has another machine.
func TestMachinesAreAway(t *testing.T) {
	c := newCluster(2, map[string][]script{"m1": {stays(streamOf(t, "m1", 3, 9, -1), nil, 0)}, "m2": {writes(streamOf(t, "m2", 2, 0, 0), 0)}})
	dir := begin(t, c, "m1", func(p *fleet.Plan) {
		p.How, p.Order, p.WaitAtMost = fleet.Drawn, []string{"m1", "m2"}, time.Minute
	})
	var lost atomic.Bool
	away := 5
	c.Fail = func(method string) error {
		if away > 0 && lost.Load() && method == "Machines" {
			away--
			return fake.ErrAway
		}
		return nil
	}
	go func() {
		for statuses(t, dir)[0].Records == 0 {
			time.Sleep(quick)
		}
		lost.Store(true)
		c.Down("m1")
	}()
	all, err := collect(t, c, dir)
	if err != nil || all[0].What != fleet.Done || all[0].Machine != "m2" || away > 0 {
		t.Errorf("%+v (%v), away for %d more", all[0], err, away)
	}
}

func TestQueueIsFull(t *testing.T) {
	scripts := map[string][]script{}
	for i := range 4 {
		name := fmt.Sprintf("m%d", i+1)
		scripts[name] = []script{writes(streamOf(t, name, uint64(i+1), 0, 0), 0)}
	}
	c := newCluster(4, scripts)
	c.Full = 1
	dir := begin(t, c, "all", unchanged)
	if all, err := collect(t, c, dir); err != nil || all[3].What != fleet.Done {
		t.Errorf("%+v (%v)", all, err)
	}
}

// A job that waits too long is given up, with the engine's reason; one that the engine
// refuses is not asked for again.
func TestNotPlacedAndRefused(t *testing.T) {
	c := newCluster(2, map[string][]script{"m1": {writes(streamOf(t, "m1", 1, 0, 0), 0)}})
	dir := begin(t, c, "m1,m2", func(p *fleet.Plan) { p.WaitAtMost, p.Order = 10*quick, []string{"m1", "m2", "nobody"}; p.Wanted = 3 })
	c.Down("m2")
	all, err := collect(t, c, dir)
	if all[1].What != fleet.NotPlaced || !strings.Contains(all[1].Words, "ReqNodeNotAvail") || all[2].What != fleet.Refused || all[2].Words != "no machine is called nobody" {
		t.Errorf("%+v", all)
	}
	if result, _ := fleet.AsResult(err); result == nil || result.Fault != fleet.OfLaboratory {
		t.Error(err)
	}
	empty(t, c, dir)
}

// The engine forgets a job soon after its end: the end of the stream counts.
func TestEngineForgets(t *testing.T) {
	c := newCluster(1, map[string][]script{"m1": {writes(streamOf(t, "m1", 1, 0, 0), 0)}})
	dir := begin(t, c, "all", unchanged)
	if err := (&fleet.Collector{Dir: dir, Engine: c, Pace: quick}).Submit(t.Context()); err != nil {
		t.Fatal(err)
	}
	job := statuses(t, dir)[0].Job
	for {
		all, err := c.States(t.Context(), []string{job})
		if err != nil {
			t.Fatal(err)
		}
		if all[job].Phase.Over() {
			break
		}
		time.Sleep(quick)
	}
	c.Forget(job)
	if all, err := collect(t, c, dir); err != nil || all[0].What != fleet.Done {
		t.Errorf("%+v (%v)", all[0], err)
	}
}

// Ctrl-C leaves the jobs alone, and another process goes on where the first was: with the
// rest of the output, and without a second job.
func TestDetachAndResume(t *testing.T) {
	whole := streamOf(t, "m1", 1, 0, 0)
	on := make(chan struct{})
	c := newCluster(1, map[string][]script{"m1": {func(_ context.Context, out io.Writer) int {
		_, _ = out.Write(whole[:len(whole)/2])
		<-on
		_, _ = out.Write(whole[len(whole)/2:])
		return 0
	}}})
	dir := begin(t, c, "all", unchanged)
	ctx, detach := context.WithCancel(t.Context())
	go func() {
		for statuses(t, dir)[0].Records == 0 {
			time.Sleep(quick)
		}
		if err := (&fleet.Collector{Dir: dir, Engine: c}).Collect(ctx); !errors.Is(err, fleet.ErrCollected) {
			t.Errorf("a second collector: %v", err)
		}
		detach()
	}()
	if err := (&fleet.Collector{Dir: dir, Engine: c, Pace: quick}).Collect(ctx); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	close(on)
	if all, err := collect(t, c, dir); err != nil || all[0].What != fleet.Done || all[0].Attempt != 1 || len(c.ran) != 1 {
		t.Errorf("%+v (%v), %d jobs", all[0], err, len(c.ran))
	}
	empty(t, c, dir)
}

// A process may be killed after each of its writes. Whoever goes on submits no job twice,
// and ends with the same.
func TestResumeAfterEachEvent(t *testing.T) {
	again := func() (*cluster, string) {
		c := newCluster(2, map[string][]script{
			"m1": {stays(streamOf(t, "m1", 3, 9, -1), nil, 0), writes(streamOf(t, "m1", 1, 0, 0), 0)},
			"m2": {writes(streamOf(t, "m2", 2, 0, 0), 0)},
		})
		return c, begin(t, c, "all", unchanged)
	}
	for stop := 1; ; stop++ {
		c, dir := again()
		go func() {
			for i := 0; i < 2000 && statuses(t, dir)[0].Records == 0; i++ {
				time.Sleep(quick)
			}
			c.End(statuses(t, dir)[0].Job, engine.Taken)
		}()
		// Killed: the context ends as soon as so many lines are on the disk.
		ctx, kill := context.WithCancel(t.Context())
		killed := killAfter(dir, stop, kill)
		err := (&fleet.Collector{Dir: dir, Engine: c, Pace: quick}).Collect(ctx)
		kill()
		<-killed
		lines := events(t, dir)
		plan, before, _, readErr := fleet.Statuses(dir)
		if readErr != nil {
			t.Fatal(readErr)
		}
		all, last := collect(t, c, dir)
		if last != nil {
			t.Fatalf("stopped after %d lines (%v), the fleet ends with %v", stop, err, last)
		}
		if all[0].What != fleet.Done || all[0].Attempt != 2 || all[1].What != fleet.Done || all[1].Attempt != 1 || len(c.ran) != 3 {
			t.Errorf("stopped after %d lines: %+v; jobs on %q", stop, all, c.ran)
		}
		if collected := plan.Collected(before); collected != (events(t, dir) == lines) || !plan.Collected(all) {
			t.Errorf("stopped after %d lines: collected is %v before, %v after; %d lines became %d", stop, collected, plan.Collected(all), lines, events(t, dir))
		}
		empty(t, c, dir)
		if err == nil {
			return // it was over before
		}
	}
}

// events counts the lines of jobs.jsonl in dir.
func events(t *testing.T, dir string) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "jobs.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Count(text, []byte("\n"))
}

// killAfter calls kill once jobs.jsonl in dir has n lines, and closes the channel when kill
// was called.
func killAfter(dir string, n int, kill func()) chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; i < 2000; i++ {
			if text, _ := os.ReadFile(filepath.Join(dir, "jobs.jsonl")); bytes.Count(text, []byte("\n")) >= n {
				kill()
				return
			}
			time.Sleep(quick / 5)
		}
	}()
	return done
}

// A kill in the middle of a write leaves a part of a line.
func TestTornLine(t *testing.T) {
	c := newCluster(1, map[string][]script{"m1": {writes(streamOf(t, "m1", 1, 0, 0), 0)}})
	dir := begin(t, c, "all", unchanged)
	if err := (&fleet.Collector{Dir: dir, Engine: c, Pace: quick}).Submit(t.Context()); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(filepath.Join(dir, "jobs.jsonl"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteString(`{"at":"2026-11-2`)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	if all, err := collect(t, c, dir); err != nil || all[0].What != fleet.Done || len(c.ran) != 1 {
		t.Errorf("%+v (%v)", all[0], err)
	}
}

// What was measured before a cancel is kept, also what a job writes after SIGTERM.
func TestCancel(t *testing.T) {
	whole := streamOf(t, "m1", 1, 9, 130)
	half := bytes.LastIndexByte(whole[:len(whole)-1], '\n') + 1
	c := newCluster(3, map[string][]script{"m1": {stays(whole[:half], whole[half:], 130)}, "m2": {writes(streamOf(t, "m2", 2, 0, 0), 0)}})
	dir := begin(t, c, "all", func(p *fleet.Plan) { p.AtOnce = 2 })
	ctx, detach := context.WithCancel(t.Context())
	go func() {
		for statuses(t, dir)[0].Records == 0 || !statuses(t, dir)[1].Over() {
			time.Sleep(quick)
		}
		detach()
	}()
	c.Down("m3")
	if err := (&fleet.Collector{Dir: dir, Engine: c, Pace: quick}).Collect(ctx); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if err := (&fleet.Collector{Dir: dir, Engine: c, Pace: time.Second}).Cancel(t.Context()); err != nil {
		t.Fatal(err)
	}
	all := statuses(t, dir)
	if all[0].What != fleet.Cancelled || all[0].Records != 18 || all[1].What != fleet.Done || all[2].What != fleet.Cancelled {
		t.Errorf("%+v", all)
	}
	empty(t, c, dir)
	ran := len(c.ran)
	if _, err := collect(t, c, dir); err == nil || len(c.ran) != ran {
		t.Errorf("after a cancel, the fleet ends with %v, and %d jobs run", err, len(c.ran)-ran)
	}
}

func TestBeginRefusesAnotherPlan(t *testing.T) {
	c := newCluster(1, nil)
	dir := begin(t, c, "all", unchanged)
	if err := fleet.Begin(dir, fleet.Plan{}); err == nil || !strings.Contains(err.Error(), "was begun already") {
		t.Error(err)
	}
	if _, err := fleet.ReadPlan(t.TempDir()); !errors.Is(err, fleet.ErrNoPlan) {
		t.Error(err)
	}
}

func TestChoose(t *testing.T) {
	var machines []engine.Machine
	for i := range 20 {
		machines = append(machines, engine.Machine{Name: fmt.Sprintf("n%02d", i), State: "down", Up: i < 15, Idle: i < 10})
	}
	idle := func(name string) bool { return name < "n10" }
	d, err := fleet.Choose(machines, "12", 7)
	if err != nil || d.Wanted != 12 || len(d.Order) != 15 || d.Selected != 20 || d.Eligible != 15 {
		t.Fatalf("%+v (%v)", d, err)
	}
	for i, name := range d.Order {
		if idle(name) != (i < 10) {
			t.Errorf("idle machines are not first: %q", d.Order)
			break
		}
	}
	again, _ := fleet.Choose(machines, "12", 7)
	other, _ := fleet.Choose(machines, "12", 8)
	if !slices.Equal(d.Order, again.Order) || slices.Equal(d.Order, other.Order) {
		t.Errorf("seed 7 draws %q and %q, seed 8 %q", d.Order, again.Order, other.Order)
	}
	if d, err := fleet.Choose(machines, "all", 7); err != nil || d.Wanted != 15 || !slices.IsSorted(d.Order) {
		t.Errorf("all: %+v (%v)", d, err)
	}
	if d, err := fleet.Choose(machines, "n19,n00", 7); err != nil || !slices.Equal(d.Order, []string{"n19", "n00"}) || d.Wanted != 2 {
		t.Errorf("named: %+v (%v)", d, err)
	}
	for nodes, words := range map[string]string{"16": "15 of the 20 selected take jobs now: n15 is down", "0": "0 machines", "-1": "-1 machines", "n00,n99": `"n99"`, "n00,n00": "named twice", "": `""`} {
		if _, err := fleet.Choose(machines, nodes, 7); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("--nodes %q: %v, want %q", nodes, err, words)
		}
	}
}

// Names of machines may be long, or not be DNS labels: those of jobs are.
func TestJobsHaveNames(t *testing.T) {
	p := fleet.Plan{Token: "abcd0123", Draw: fleet.Draw{Wanted: 3, Order: []string{"Node_1.example.org", strings.Repeat("n", 90), "日本"}}}
	seen := map[string]bool{}
	for _, j := range p.Jobs() {
		if len(j.Name) > 63 || strings.Trim(j.Name, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" || strings.HasSuffix(j.Name, "-") || seen[j.Name] {
			t.Errorf("%q", j.Name)
		}
		seen[j.Name] = true
	}
}
