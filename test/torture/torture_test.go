// Package torture proves that tare does no harm when the machine fails it or kills it.
// A program is run under strace, which fails its n-th write, fsync, rename, mkdir, mount
// or clone, or kills it at its n-th system call of a kind: places that a random time
// seldom hits. After each, what is on the machine must be what was there before, every
// finished record must be readable, and the run must go on. `make torture` runs it. What
// runs is `tare weigh`, or a study of testdata: several instances at once next to a load
// (load), verbs on an instance (verbs), or little, for targets that start slowly (start).
package torture

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tarelab/tare/internal/store"
)

var (
	program = flag.String("tare", "", "the program to torture; \"\" skips all")
	kills   = flag.Int("kills", 6, "kills of each target and study, spread over the system calls of a run")
	faults  = flag.Int("faults", 4, "faults of each target and study, spread likewise")
	targets = flag.String("on", "host,native", "targets, with commas between them")
	studies = flag.String("studies", weigh, "what runs on each target: weigh, or studies of testdata, with commas between them")
)

// weigh is the command tare weigh in place of a study.
const weigh = "weigh"

// A fault is what one system call is made to return.
type fault struct{ calls, errno string }

// faultsOf are what disks, memory and limits do to programs.
var faultsOf = []fault{
	{"write,pwrite64", "ENOSPC"}, {"fsync,fdatasync", "EIO"}, {"rename,renameat,renameat2", "ENOSPC"},
	{"mkdir,mkdirat", "ENOSPC"}, {"mount", "ENOMEM"}, {"clone,clone3,vfork,fork", "EAGAIN"},
}

// killedAt are the calls at which tare is killed: those that change something outside of
// it, or begin to.
var killedAt = []string{
	"mkdir,mkdirat", "rename,renameat,renameat2", "fsync,fdatasync", "write,pwrite64", "mount", "umount2",
	"clone,clone3,vfork", "unlink,unlinkat,rmdir", "flock", "execve", "openat", "pipe2",
}

func TestTorture(t *testing.T) {
	if *program == "" {
		t.Skip("make torture names the program")
	}
	if os.Geteuid() != 0 {
		t.Fatal("targets need root")
	}
	if _, err := exec.LookPath("strace"); err != nil {
		t.Fatal("strace is missing: scripts/setup.sh test installs it")
	}
	for target := range strings.SplitSeq(*targets, ",") {
		for study := range strings.SplitSeq(*studies, ",") {
			t.Run(target+" "+study, func(t *testing.T) { newRig(t, target, study).torture() })
		}
	}
}

// rig is a store of its own in which one target is tortured.
type rig struct {
	*testing.T
	target, study, state, temporary string
	before                          snapshot
	counts                          map[string]int // see place
	killed                          int            // runs that the injected signal ended
	sessions                        map[string]bool
}

func newRig(t *testing.T, target, study string) *rig {
	state, err := os.MkdirTemp("", "torture-") // short: sockets of engines lie below it, in paths of at most 107 letters
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(state); err != nil {
			t.Error(err)
		}
	})
	r := &rig{T: t, target: target, study: study, state: state, temporary: t.TempDir(), counts: map[string]int{}, sessions: map[string]bool{}}
	t.Cleanup(func() { _ = exec.Command("umount", "-l", r.state).Run() }) // nothing is mounted there unless the test failed
	if out, err := r.tare(r.args()...).CombinedOutput(); err != nil {     // makes the image, and proves the target
		t.Fatalf("without any fault: %v: %s", err, out)
	}
	r.before = r.snapshot()
	return r
}

// args are a run of several trials with little in each.
func (r *rig) args() []string {
	if r.study == weigh {
		return []string{"weigh", "--on", r.target, "--blocks", "2", "--timeout", "20s", "--", "true"}
	}
	return []string{"run", filepath.Join("testdata", r.study+".yaml"), "--on", r.target}
}

func (r *rig) tare(args ...string) *exec.Cmd {
	return r.command(context.Background(), *program, args...)
}

func (r *rig) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, name, args...)
	c.Env = append(os.Environ(), "TARE_STATE="+r.state, "TMPDIR="+r.temporary)
	c.WaitDelay = time.Second
	return c
}

// follow says whom strace follows: -f alone all that tare starts, which is killed or
// failed in tare's place as often as it comes there first; with -b tare itself. Programs
// that trace others (gVisor's systrap and ptrace) cannot be followed. What is let go must
// not keep the filter that makes strace fast: without a tracer its calls fail.
type follow []string

var (
	everyone = follow{"-f", "--seccomp-bpf"}
	tareOnly = follow{"-f", "--detach-on=execve"}
)

func (r *rig) follow(i int) follow {
	if i%2 == 1 || strings.Contains(r.target, "runsc") {
		return tareOnly
	}
	return everyone
}

func (r *rig) torture() {
	for i := range *kills {
		calls, turn := killedAt[i%len(killedAt)], i/len(killedAt)
		who := r.follow(turn + i)
		n := r.place(who, calls, turn, (*kills+len(killedAt)-1)/len(killedAt))
		// A run has its calls on other threads than the one that was counted: where none of
		// them comes so far, an earlier place is taken.
		for n > 0 && !r.once(who, fmt.Sprintf("%s:signal=SIGKILL:when=%d", calls, n)) {
			n /= 2
		}
	}
	for i := range *faults {
		f, turn := faultsOf[i%len(faultsOf)], i/len(faultsOf)
		who := r.follow(turn + i)
		n := r.place(who, f.calls, turn, (*faults+len(faultsOf)-1)/len(faultsOf))
		r.once(who, fmt.Sprintf("%s:error=%s:when=%d", f.calls, f.errno, n))
	}
	r.Logf("%d runs ended by a kill or a fault", r.killed)
}

var calledBy = regexp.MustCompile(`(?m)^(\d+) +[a-z0-9_]+\(`)

// place is the i-th of n places, spread evenly over a run's calls of a kind: those of its
// busiest thread, because strace counts a thread's calls.
func (r *rig) place(who follow, calls string, i, n int) int {
	key := strings.Join(who, " ") + " " + calls
	if r.counts[key] == 0 {
		log := filepath.Join(r.temporary, "strace")
		if out, err := r.strace(context.Background(), who, log, calls).CombinedOutput(); err != nil {
			r.Fatalf("count %s: %v: %s", calls, err, out)
		}
		text, err := os.ReadFile(log)
		if err := errors.Join(err, os.Remove(log)); err != nil {
			r.Fatal(err)
		}
		threads := map[string]int{}
		r.counts[key] = 1
		for _, line := range calledBy.FindAllSubmatch(text, -1) {
			threads[string(line[1])]++
			r.counts[key] = max(r.counts[key], threads[string(line[1])])
		}
	}
	return 1 + i*r.counts[key]/n
}

// strace is a run under strace, which sees some kinds of calls.
func (r *rig) strace(ctx context.Context, who follow, log, calls string, more ...string) *exec.Cmd {
	args := slices.Concat(who, []string{"-qq", "-o", log, "-e", "trace=" + calls, "-e", "signal=none"}, more, []string{*program}, r.args())
	return r.command(ctx, "strace", args...)
}

// once runs the study with one injection, and sees that no harm was done. It reports
// whether anything came of the injection.
func (r *rig) once(who follow, inject string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	calls, _, _ := strings.Cut(inject, ":")
	log := filepath.Join(r.temporary, "strace")
	c := r.strace(ctx, who, log, calls, "-e", "inject="+inject)
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	started := time.Now()
	if err := c.Start(); err != nil {
		r.Fatal(err)
	}
	r.untilEnded(c.Process.Pid)
	_ = c.Process.Signal(syscall.SIGKILL) // strace would wait for payloads that outlive tare: a sweep ends them
	ended := c.Wait()
	_ = os.Remove(log) // it may not have been made
	r.Logf("%s of %s: ended after %v with %v", inject, who[len(who)-1], time.Since(started).Round(time.Millisecond), ended)
	if strings.Contains(out.String(), "panic:") || strings.Contains(out.String(), "internal error") {
		r.Errorf("%s: tare panics: %s", inject, out.String())
	}
	r.noHarm(inject)
	if ended != nil {
		r.killed++
	}
	return ended != nil
}

// untilEnded waits until strace's first child, tare, has ended, or strace itself.
func (r *rig) untilEnded(strace int) {
	children := fmt.Sprintf("/proc/%d/task/%d/children", strace, strace)
	deadline := time.Now().Add(2 * time.Minute)
	tare := ""
	for time.Now().Before(deadline) {
		for _, name := range names(filepath.Join(r.state, "sessions")) {
			r.sessions[name] = true
		}
		if tare == "" {
			text, err := os.ReadFile(children)
			if err != nil {
				return
			}
			if first := strings.Fields(string(text)); len(first) > 0 {
				tare = first[0]
			}
		} else if stat, err := os.ReadFile("/proc/" + tare + "/stat"); err != nil || bytes.Contains(stat, []byte(") Z ")) {
			// strace reaps it; whoever it has killed with it goes too.
			time.Sleep(100 * time.Millisecond)
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// noHarm sweeps, compares the machine, reads every run and goes on with the last.
func (r *rig) noHarm(after string) {
	r.Helper()
	if out, err := r.tare("sweep").CombinedOutput(); err != nil {
		r.Errorf("%s: sweep: %v: %s", after, err, out)
	}
	r.compare(after)
	runs, err := store.List(r.state)
	if err != nil {
		r.Errorf("%s: %v", after, err)
	}
	for _, s := range runs {
		if s.Problem != "" { // killed before its manifest: a sweep removes it
			r.Errorf("%s: run %s: %s", after, s.ID, s.Problem)
			continue
		}
		run, err := store.Open(s.Dir)
		if err != nil {
			r.Errorf("%s: %v", after, err)
			continue
		}
		if v, err := run.Verify(); err != nil || len(v.Damaged) > 0 {
			r.Errorf("%s: run %s: %v, %v", after, s.ID, v.Damaged, err)
		}
		if s.Done < s.Trials {
			r.goOn(after, s)
		}
		if err := os.RemoveAll(s.Dir); err != nil {
			r.Fatal(err)
		}
	}
}

func (r *rig) goOn(after string, s store.Summary) {
	r.Helper()
	out, err := r.tare("resume", "--prepare", s.ID).CombinedOutput()
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 3 && exit.ExitCode() != 1) { // trials that the fault has failed
		r.Errorf("%s: resume %s: %v: %s", after, s.ID, err, out)
	}
	run, err := store.Open(s.Dir)
	if err != nil {
		r.Errorf("%s: %v", after, err)
		return
	}
	if v, err := run.Verify(); err != nil || v.Records != v.Trials {
		r.Errorf("%s: resume %s: %d of %d trials, %v: %s", after, s.ID, v.Records, v.Trials, err, out)
	}
	r.compare(after + ", then resume")
}

// compare fails the test for what is on the machine now and was not before.
func (r *rig) compare(after string) {
	r.Helper()
	var left []string
	for range 50 { // the kernel takes a moment to end namespaces
		if left = r.snapshot().without(r.before); len(left) == 0 {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	for _, l := range left {
		r.Errorf("%s: left is %s", after, l)
	}
	// The next fault is judged by itself.
	r.before = r.snapshot()
}
