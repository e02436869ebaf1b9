package workload

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// unixProgram is the program under test, built by `make -C helpers`.
func unixProgram(t *testing.T) string {
	t.Helper()
	p, err := filepath.Abs("../../helpers/bin/linux_" + runtime.GOARCH + "/unix")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(p); err != nil {
		t.Fatalf("%v: build it with make -C helpers", err)
	}
	return p
}

// unixRun is the program with its own work directory, which must be empty in
// the end.
type unixRun struct {
	*exec.Cmd
	dir            string
	stdout, stderr bytes.Buffer
}

func newUnixRun(t *testing.T, args ...string) *unixRun {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	r := &unixRun{Cmd: exec.CommandContext(ctx, unixProgram(t), args...), dir: t.TempDir()}
	r.Stdout, r.Stderr, r.Dir = &r.stdout, &r.stderr, r.dir
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { null.Close() })
	r.Stdin = null
	return r
}

// finish waits and gives the exit code, -1 for a signal.
func (r *unixRun) finish(t *testing.T) int {
	t.Helper()
	err := r.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	left, err := os.ReadDir(r.dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range left {
		t.Errorf("%v left %s behind", r.Args, e.Name())
	}
	return r.ProcessState.ExitCode()
}

func runUnix(t *testing.T, args ...string) (*unixRun, int) {
	t.Helper()
	r := newUnixRun(t, args...)
	if err := r.Start(); err != nil {
		t.Fatal(err)
	}
	return r, r.finish(t)
}

func testOf(t *testing.T, kind string) unixTest {
	t.Helper()
	w, err := ByKind(kind)
	if err != nil {
		t.Fatal(err)
	}
	return w.(unixTest)
}

// mustLines runs a test and gives its copies' lines, checked by the parser.
func mustLines(t *testing.T, test unixTest, args ...string) []unixLine {
	t.Helper()
	r, code := runUnix(t, slices.Concat(test.args, args)...)
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, r.stderr.String())
	}
	lines, _, err := test.lines(r.stdout.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

// Every test runs for a moment; what it prints must fit together.
func TestUnixProgramEveryTest(t *testing.T) {
	for _, test := range unixTests() {
		t.Run(test.name, func(t *testing.T) {
			for _, l := range mustLines(t, test, "--seconds", "0.2", "--copies", "2") {
				if l.Seconds < 0.2 || math.Abs(l.Seconds-float64(l.End-l.Start)/1e9) > 1e-6 {
					t.Errorf("window of %v s from %d to %d, asked for 0.2", l.Seconds, l.Start, l.End)
				}
				if l.CPU <= 0 || l.CPU > 3*l.Seconds*float64(runtime.NumCPU()) {
					t.Errorf("CPU time %v in %v s on %d CPUs", l.CPU, l.Seconds, runtime.NumCPU())
				}
				if want := rateOf(test, l); !test.cpu && math.Abs(l.Value/want-1) > 1e-4 {
					t.Errorf("value %v, but count %v in %v s is %v", l.Value, l.Count, l.Seconds, want)
				}
				if score := 10 * l.Value / test.baseline; score < 0.1 || score > 1e6 {
					t.Errorf("score %v is not one of a computer of this age", score)
				}
			}
		})
	}
}

// Reading clocks takes at most a thousandth of a window: of a reading that takes 100 ns
// (of kernels that answer without a system call) 10,000 a second, and 4,000 of one of the
// 250 ns that a system call takes; Whetstone and process-creation read so. They are
// counted, not timed, for the machine may be busy. execl reads in each image, as
// UnixBench's does.
func TestUnixProgramClocksAreCheap(t *testing.T) {
	for _, test := range unixTests() {
		most := 10_000.0
		if test.name == "whetstone" || test.name == "process-creation" {
			most = 4000
		}
		for _, l := range mustLines(t, test, "--seconds", "0.4") {
			if rate := float64(l.Readings) / l.Seconds; test.name != "execl" && rate > most {
				t.Errorf("%s: %.0f readings of clocks a second, at most %.0f are cheap", test.name, rate, most)
			}
			atLeast := l.CPU / 0.001 // a batch takes at most 1 ms
			if test.cpu || test.programs {
				atLeast = 1 // a pass of Whetstone, or a script, takes longer
			}
			if float64(l.Readings) < 0.5*atLeast { // half: the machine may be busy while the program finds its batch
				t.Errorf("%s: %d readings in %.3f s of CPU time: batches are longer than 1 ms", test.name, l.Readings, l.CPU)
			}
		}
	}
}

func rateOf(test unixTest, l unixLine) float64 {
	perSecond := float64(l.Count) / l.Seconds
	switch test.unit {
	case "lpm":
		return perSecond * 60
	case "KBps":
		size, _ := strconv.ParseFloat(strings.TrimPrefix(test.name, "file-copy-"), 64)
		return perSecond * size / 1024
	}
	return perSecond
}

// The work grows with the count: a compiler that dropped it, or a loop that
// ended early, would show here. CPU time is compared, for the machine is shared.
func TestUnixProgramLinear(t *testing.T) {
	for _, test := range []struct {
		kind  string
		count int
	}{
		{"unix-dhrystone2", 2e6}, {"unix-whetstone", 40}, {"unix-file-copy-1024", 1e5}, {"unix-pipe-throughput", 1e5},
		{"unix-process-creation", 1500}, {"unix-execl", 1500}, {"unix-syscall", 1e5},
	} {
		t.Run(test.kind, func(t *testing.T) {
			u := testOf(t, test.kind)
			// Whatever else goes on, on this machine or on its host, mostly adds to the
			// least that the work takes: the more runs, the nearer. Where that is not near
			// enough, work that was dropped would still show: it makes the ratio 1.
			least, leastFour, ratio := math.Inf(1), math.Inf(1), 0.0
			for runs := 0; runs < 5 || runs < 20 && (ratio < 3 || ratio > 5.3); runs++ {
				one := mustLines(t, u, "--count", strconv.Itoa(test.count))[0]
				four := mustLines(t, u, "--count", strconv.Itoa(4*test.count))[0]
				if one.Count != float64(test.count) || four.Count != float64(4*test.count) {
					t.Fatalf("counts %v and %v, asked for %d and %d", one.Count, four.Count, test.count, 4*test.count)
				}
				least, leastFour = min(least, one.CPU), min(leastFour, four.CPU)
				ratio = leastFour / least
			}
			if ratio < 2 || ratio > 8 {
				t.Errorf("four times the work took at least %.3g s of CPU time, %.2f times %.3g s", leastFour, ratio, least)
			}
		})
	}
}

// Every section of the kept whetstone takes time; of the compiled one some do
// not, which is why there are both.
func TestUnixProgramWhetstoneKeepsItsWork(t *testing.T) {
	u := testOf(t, "unix-whetstone")
	kept := mustLines(t, u, "--count", "200")[0]
	if len(kept.Sections) != 8 {
		t.Fatalf("%d sections", len(kept.Sections))
	}
	// Statements a pass in sections 3, 4 and 7, and the fastest a CPU may do
	// them: 8 a cycle at 6 GHz.
	for section, statements := range map[int]float64{2: 3 * 34500, 3: 15 * 21000, 6: 3 * 61600} {
		if least := 200 * statements / 48e9; kept.Sections[section] < least {
			t.Errorf("section %d took %v s for 200 passes: fewer than %v s means that it was not done", section+1, kept.Sections[section], least)
		}
	}
	compiled := mustLines(t, u, "--count", "200", "--variant", "as-compiled")[0]
	if compiled.Test != "whetstone-as-compiled" {
		t.Errorf("the variant calls itself %q", compiled.Test)
	}
}

// The compiler has left the work of Dhrystone in. A run through it is 361
// instructions on x86-64 (valgrind), more elsewhere: at 8 a cycle and 6 GHz 7.5 ns.
func TestUnixProgramDhrystoneKeepsItsWork(t *testing.T) {
	u := testOf(t, "unix-dhrystone2")
	l := mustLines(t, u, "--seconds", "0.3")[0]
	if perRun := l.CPU / float64(l.Count); perRun < 7e-9 {
		t.Errorf("a run through Dhrystone took %.2g s: parts of it are missing", perRun)
	}
}

// Crews that share a page begin together, whoever comes last: without the page, the
// windows of the first and the last would overlap by half.
func TestUnixProgramBarrier(t *testing.T) {
	const crews = 3
	page := filepath.Join(t.TempDir(), "page")
	if err := os.WriteFile(page, UnixBarrierPage(2*crews), 0o600); err != nil {
		t.Fatal(err)
	}
	u := testOf(t, "unix-dhrystone2")
	var all []unixLine
	var mu sync.Mutex
	var group sync.WaitGroup
	for i := range crews {
		r := newUnixRun(t, "dhrystone2", "--seconds", "2", "--copies", "2", "--barrier", page)
		group.Go(func() {
			time.Sleep(time.Duration(i) * 500 * time.Millisecond)
			if err := r.Start(); err != nil {
				t.Error(err)
				return
			}
			if code := r.finish(t); code != 0 {
				t.Errorf("crew %d: exit code %d: %s", i, code, r.stderr.String())
				return
			}
			lines, _, err := u.lines(r.stdout.Bytes())
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, lines...)
		})
	}
	group.Wait()
	if len(all) != 2*crews {
		t.Fatalf("%d copies reported, not %d", len(all), 2*crews)
	}
	start, end, longest := window(all)
	if overlap := float64(end-start) / float64(longest); overlap < 0.65 {
		t.Errorf("the windows overlap by %.4f, less than 0.65", overlap)
	}
}

func TestUnixProgramRefusals(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page")
	empty := filepath.Join(t.TempDir(), "empty")
	for _, test := range []struct {
		name string
		args []string
		code int
		want string
	}{
		{"no such test", []string{"dhrystone"}, 2, `no test "dhrystone"`},
		{"no test", nil, 2, "usage"},
		{"two tests", []string{"execl", "syscall"}, 2, "exactly one test"},
		{"seconds and count", []string{"execl", "--seconds", "1", "--count", "1"}, 2, "exclude"},
		{"negative", []string{"execl", "--seconds", "-1"}, 2, "--seconds -1"},
		{"not a number", []string{"execl", "--copies", "two"}, 2, "--copies two"},
		{"half a copy", []string{"execl", "--copies", "1.5"}, 2, "whole"},
		{"no such directory", []string{"execl", "--dir", "/nonexistent"}, 1, "/nonexistent"},
		{"no such shell", []string{"shell-1", "--shell", "/nonexistent"}, 1, "/nonexistent"},
		{"variant", []string{"syscall", "--variant", "all"}, 2, "mix, getpid"},
		{"buffer", []string{"file-copy", "--buffer", "1001"}, 2, "--buffer 1001"},
		{"alone at the barrier", []string{"execl", "--barrier", page, "--parties", "2", "--barrier-timeout", "0.2"}, 3, "1 of 2"},
		{"page without parties", []string{"execl", "--barrier", empty}, 2, "--parties"},
		{"does not end", []string{"process-creation", "--count", "1e12", "--timeout", "0.2"}, 4, "not done"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r, code := runUnix(t, test.args...)
			if code != test.code || !strings.Contains(r.stderr.String(), test.want) {
				t.Errorf("exit code %d with %q; want %d and %q", code, r.stderr.String(), test.code, test.want)
			}
			if r.stdout.Len() > 0 {
				t.Errorf("a refused run printed %q", r.stdout.String())
			}
		})
	}
}

// A signal ends the whole tree, at once, without files or processes left.
func TestUnixProgramKilled(t *testing.T) {
	for _, test := range []struct {
		name   string
		signal syscall.Signal
		code   int
	}{
		{"pipe-context-switch", syscall.SIGTERM, 143}, {"shell-8", syscall.SIGINT, 130}, {"dhrystone2", syscall.SIGTERM, 143},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newUnixRun(t, test.name, "--copies", "2", "--seconds", "30")
			r.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			if err := r.Start(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(300 * time.Millisecond)
			family := descendants(t, r.Process.Pid)
			if len(family) < 2 {
				t.Fatalf("%d descendants: the copies are not running", len(family))
			}
			if err := r.Process.Signal(test.signal); err != nil {
				t.Fatal(err)
			}
			begun := time.Now()
			if code := r.finish(t); code != test.code {
				t.Errorf("exit code %d, want %d: %s", code, test.code, r.stderr.String())
			}
			if took := time.Since(begun); took > 10*time.Second {
				t.Errorf("ending took %v", took)
			}
			stillThere(t, family)
		})
	}
}

// The parent dies without a chance to clean up: the copies die with it.
func TestUnixProgramParentKilled(t *testing.T) {
	r := newUnixRun(t, "pipe-context-switch", "--copies", "2", "--seconds", "30")
	if err := r.Start(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(300 * time.Millisecond)
	family := descendants(t, r.Process.Pid)
	if err := r.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := r.Wait(); err == nil {
		t.Error("a killed program ended well")
	}
	stillThere(t, family)
}

// A copy that dies leaves the others' lines and a failure.
func TestUnixProgramOneCopyDies(t *testing.T) {
	r := newUnixRun(t, "dhrystone2", "--copies", "2", "--seconds", "1")
	if err := r.Start(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(300 * time.Millisecond)
	copies := descendants(t, r.Process.Pid)
	if len(copies) != 2 {
		t.Fatalf("%d copies", len(copies))
	}
	if err := syscall.Kill(copies[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if code := r.finish(t); code != 1 || !strings.Contains(r.stderr.String(), "killed by signal 9") {
		t.Errorf("exit code %d: %s", code, r.stderr.String())
	}
	if n := strings.Count(r.stdout.String(), "\n"); n != 1 {
		t.Errorf("%d lines, want that of the other copy", n)
	}
}

// In a root without /proc, with nothing but the program, as PID 1.
func TestUnixProgramAsInit(t *testing.T) {
	if os.Getuid() != 0 {
		t.Fatal("needs root: a chroot and a PID namespace are made")
	}
	root := t.TempDir()
	program, err := os.ReadFile(unixProgram(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "unix"), program, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"execl", "pipe-context-switch", "process-creation", "file-copy"} {
		cmd := exec.Command("/unix", name, "--seconds", "0.1", "--copies", "2")
		cmd.Dir = "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Cloneflags: syscall.CLONE_NEWPID}
		out, err := cmd.CombinedOutput()
		if err != nil || bytes.Count(out, []byte("\n")) != 2 {
			t.Errorf("%s as PID 1: %v: %s", name, err, out)
		}
	}
	if left, err := filepath.Glob(filepath.Join(root, "unix-*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}

// descendants are all processes below pid.
func descendants(t *testing.T, pid int) []int {
	t.Helper()
	var all []int
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		text, err := os.ReadFile(task)
		if err != nil {
			continue // it ended in between
		}
		for _, field := range strings.Fields(string(text)) {
			child, err := strconv.Atoi(field)
			if err != nil {
				t.Fatal(err)
			}
			all = append(append(all, child), descendants(t, child)...)
		}
	}
	return all
}

// stillThere fails for each process that has not ended within a second.
func stillThere(t *testing.T, pids []int) {
	t.Helper()
	deadline := time.Now().Add(time.Second)
	for _, pid := range pids {
		for syscall.Kill(pid, 0) == nil && !zombie(pid) {
			if time.Now().After(deadline) {
				t.Errorf("process %d is still there", pid)
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
}

func zombie(pid int) bool {
	f, err := os.Open(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true
	}
	defer f.Close()
	text, err := io.ReadAll(f)
	return err != nil || bytes.Contains(text, []byte(") Z "))
}
