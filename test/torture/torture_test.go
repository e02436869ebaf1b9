// Package torture proves that tare does no harm when the machine fails it or kills it.
// A program is run under strace, which fails its n-th write, fsync, rename, mkdir, mount
// or clone, or kills it at its n-th system call of a kind: places that a random time
// seldom hits. After each, what is on the machine must be what was there before, every
// finished record must be readable, and the run must go on. A run that was killed is
// resumed and killed again, up to four times, and then resumed to its end: a kill so costs
// one start of tare and no whole run. `make torture` runs it. What runs is `tare weigh`, or
// a study of testdata: several instances at once next to a load (load), verbs on an
// instance (verbs), or little, for targets that start slowly (start).
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
	others                          map[string]bool // groups that were there before
	run                             string          // the run that the next kill resumes; "" for a new one
	links                           int             // kills and faults that this run has had
	spent                           map[string]time.Duration
}

// chain is how many kills and faults one run gets before it is resumed to its end.
const chain = 4

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
	r := &rig{T: t, target: target, study: study, state: state, temporary: t.TempDir(), counts: map[string]int{}, sessions: map[string]bool{}, others: othersGroups(t), spent: map[string]time.Duration{}}
	t.Cleanup(func() { _ = exec.Command("umount", "-l", r.state).Run() }) // nothing is mounted there unless the test failed
	if out, err := r.tare(r.args()...).CombinedOutput(); err != nil {     // makes the image, and proves the target
		t.Fatalf("without any fault: %v: %s", err, out)
	}
	r.before = r.snapshot()
	return r
}

// args are a new run of several trials with little in each.
func (r *rig) args() []string {
	if r.study == weigh {
		return []string{"weigh", "--on", r.target, "--blocks", "1", "--timeout", "20s", "--", "true"}
	}
	return []string{"run", filepath.Join("testdata", r.study+".yaml"), "--on", r.target}
}

func (r *rig) tare(args ...string) *exec.Cmd {
	return r.command(context.Background(), *program, args...)
}

func (r *rig) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, name, args...)
	c.Env = append(os.Environ(), "TARE_STATE="+r.state, "TMPDIR="+r.temporary)
	c.WaitDelay = time.Second // orphans of a tare that was killed hold its output open
	return c
}

// follow says whom strace follows: -f alone all that tare starts, which is killed or
// failed in tare's place as often as it comes there first; with -b tare itself. Programs
// that trace others (gVisor's systrap and ptrace) cannot be followed. strace's filter
// (--seccomp-bpf) would be faster, but what is let go with it fails its calls, and strace
// 6.1 with it injects at the first call only.
type follow []string

var (
	everyone = follow{"-f"}
	tareOnly = follow{"-f", "--detach-on=execve"}
)

func (r *rig) follow(i int) follow {
	if i%2 == 1 || strings.Contains(r.target, "runsc") {
		return tareOnly
	}
	return everyone
}

func (r *rig) torture() {
	started, took := time.Now(), 0
	for i := range *kills {
		calls, turn := killedAt[i%len(killedAt)], i/len(killedAt)
		who := r.follow(turn + i)
		// A run has its calls on other threads than the one that was counted, a resumed one
		// has fewer, and what is killed in tare's place may not matter: then a new run, or an
		// earlier place of one, is taken.
		for n, halved, ended := 0, 0, false; !ended && n != 1; {
			resumed := r.run != ""
			n = max(1, r.place(who, calls, turn, (*kills+len(killedAt)-1)/len(killedAt))>>halved)
			ended = r.once(who, calls, fmt.Sprintf("signal=SIGKILL:when=%d", n))
			if resumed && !ended {
				n = 0
			} else if n == r.place(who, calls, turn, (*kills+len(killedAt)-1)/len(killedAt))>>halved {
				halved++
			}
			if ended {
				took++
			}
		}
	}
	if 2*took < *kills { // a place where nobody comes by kills nothing, and proves nothing
		r.Errorf("of %d kills only %d ended a run", *kills, took)
	}
	for i := range *faults {
		f, turn := faultsOf[i%len(faultsOf)], i/len(faultsOf)
		who := r.follow(turn + i)
		n := r.place(who, f.calls, turn, (*faults+len(faultsOf)-1)/len(faultsOf))
		r.once(who, f.calls, fmt.Sprintf("error=%s:when=%d", f.errno, n))
	}
	r.links = chain
	r.goOnOrNot("the last", r.unharmed("the last"))
	r.Logf("%d runs ended by a kill or a fault in %v, of which %v", r.killed, time.Since(started).Round(time.Second), r.spent)
}

// spend adds to what the test says that it spent its time on.
func (r *rig) spend(on string, since time.Time) {
	r.spent[on] += time.Since(since).Round(time.Millisecond)
}

var calledBy = regexp.MustCompile(`(?m)^(\d+) +([a-z0-9_]+)\(`)

// place is the i-th of n places, spread evenly over a new run's calls of a kind: those of
// its busiest thread, because strace counts each thread's calls of each name.
func (r *rig) place(who follow, calls string, i, n int) int {
	if r.counts[who.key(calls)] == 0 {
		r.count(who)
	}
	return 1 + i*r.counts[who.key(calls)]/n
}

func (f follow) key(calls string) string { return strings.Join(f, " ") + " " + calls }

// count counts every kind of calls of a new run.
func (r *rig) count(who follow) {
	defer r.spend("count", time.Now())
	kinds := slices.Clone(killedAt)
	for _, f := range faultsOf {
		kinds = append(kinds, f.calls)
	}
	log := filepath.Join(r.temporary, "strace")
	if out, err := r.strace(context.Background(), who, log, strings.Join(kinds, ","), nil, r.args()).CombinedOutput(); err != nil {
		r.Fatalf("count the calls: %v: %s", err, out)
	}
	for _, calls := range kinds {
		r.counts[who.key(calls)] = r.busiest(log, calls)
	}
}

// busiest is how many calls of one name of a kind a log of strace has of the thread that
// has most; at least 1.
func (r *rig) busiest(log, calls string) int {
	text, err := os.ReadFile(log)
	if err != nil {
		r.Fatal(err)
	}
	most, threads := 1, map[string]int{}
	for _, line := range calledBy.FindAllSubmatch(text, -1) {
		if slices.Contains(strings.Split(calls, ","), string(line[2])) {
			threads[string(line[0])]++
			most = max(most, threads[string(line[0])])
		}
	}
	return most
}

// strace is tare under strace, which sees some kinds of calls.
func (r *rig) strace(ctx context.Context, who follow, log, calls string, more, tare []string) *exec.Cmd {
	args := slices.Concat(who, []string{"-qq", "-o", log, "-e", "trace=" + calls, "-e", "signal=none"}, more, []string{*program}, tare)
	return r.command(ctx, "strace", args...)
}

// once starts a run, or resumes the one that was killed before, with one injection, and
// sees that no harm was done. It reports whether anything came of the injection.
func (r *rig) once(who follow, calls, inject string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	inject = calls + ":" + inject
	log := filepath.Join(r.temporary, "strace")
	args := r.args()
	if r.run != "" {
		args = []string{"resume", "--prepare", r.run}
	}
	c := r.strace(ctx, who, log, calls, []string{"-e", "inject=" + inject}, args)
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	started := time.Now()
	if err := c.Start(); err != nil {
		r.Fatal(err)
	}
	waited := make(chan error, 1)
	go func() { waited <- c.Wait() }()
	ended := r.untilEnded(c.Process, waited)
	r.spend(args[0]+" until killed", started)
	if ended == nil && r.run == "" {
		r.counts[who.key(calls)] = min(r.counts[who.key(calls)], r.busiest(log, calls)) // fewer than were counted
	}
	_ = os.Remove(log) // it may not have been made
	r.Logf("%s of %s: %s ended after %v with %v", inject, who[len(who)-1], args[0], time.Since(started).Round(time.Millisecond), ended)
	if strings.Contains(out.String(), "panic:") || strings.Contains(out.String(), "internal error") {
		r.Errorf("%s: tare panics: %s", inject, out.String())
	}
	r.links++
	r.goOnOrNot(inject, r.unharmed(inject))
	if ended != nil {
		r.killed++
	}
	return ended != nil
}

// untilEnded waits until strace's child that is tare has ended, or strace itself, and
// returns what strace ended with. strace has other children before, to try the kernel.
func (r *rig) untilEnded(strace *os.Process, waited <-chan error) error {
	children := fmt.Sprintf("/proc/%d/task/%d/children", strace.Pid, strace.Pid)
	tare := ""
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); {
		r.noteSessions()
		if text, err := os.ReadFile(children); err == nil && tare == "" {
			tare = tareOf(strings.Fields(string(text)))
		}
		if stat, err := os.ReadFile("/proc/" + tare + "/stat"); tare != "" && (err != nil || bytes.Contains(stat, []byte(") Z "))) {
			break
		}
		select {
		case err := <-waited:
			r.noteSessions()
			return err
		case <-time.After(10 * time.Millisecond):
		}
	}
	r.noteSessions()
	select { // strace reaps it; whoever it has killed with it goes too
	case err := <-waited:
		return err
	case <-time.After(100 * time.Millisecond):
	}
	_ = strace.Kill() // it would wait for payloads that outlive tare: a sweep ends them
	return <-waited
}

// tareOf is the process that is tare, of some; "" for none.
func tareOf(pids []string) string {
	for _, pid := range pids {
		if text, err := os.ReadFile("/proc/" + pid + "/cmdline"); err == nil && bytes.HasPrefix(text, append([]byte(*program), 0)) {
			return pid
		}
	}
	return ""
}

// noteSessions remembers the sessions of the test's store.
func (r *rig) noteSessions() {
	for _, name := range names(filepath.Join(r.state, "sessions")) {
		r.sessions[name] = true
	}
}

// noHarm sees that no harm was done, and resumes what was not finished.
func (r *rig) noHarm(after string) {
	r.Helper()
	r.links = chain
	r.goOnOrNot(after, r.unharmed(after))
}

// unharmed sweeps, compares the machine and reads every run. It removes the finished ones
// and returns the others.
func (r *rig) unharmed(after string) []store.Summary {
	r.Helper()
	started := time.Now()
	if out, err := r.tare("sweep").CombinedOutput(); err != nil {
		r.Errorf("%s: sweep: %v: %s", after, err, out)
	}
	r.spend("sweep", started)
	r.compare(after)
	defer r.spend("read", time.Now())
	runs, err := store.List(r.state)
	if err != nil {
		r.Errorf("%s: %v", after, err)
	}
	return slices.DeleteFunc(runs, func(s store.Summary) bool {
		if s.Problem != "" { // killed before its manifest: a sweep removes it
			r.Errorf("%s: run %s: %s", after, s.ID, s.Problem)
			return true
		}
		run, err := store.Open(s.Dir)
		if err != nil {
			r.Errorf("%s: %v", after, err)
			return true
		}
		if v, err := run.Verify(); err != nil || len(v.Damaged) > 0 {
			r.Errorf("%s: run %s: %v, %v", after, s.ID, v.Damaged, err)
		}
		if s.Done == s.Trials {
			r.remove(s)
		}
		return s.Done == s.Trials
	})
}

func (r *rig) remove(s store.Summary) {
	r.Helper()
	if err := os.RemoveAll(s.Dir); err != nil {
		r.Fatal(err)
	}
}

// goOnOrNot leaves an unfinished run to the next kill, or resumes it to its end when it
// has had as many as a chain has.
func (r *rig) goOnOrNot(after string, unfinished []store.Summary) {
	r.Helper()
	r.run = ""
	if len(unfinished) == 1 && r.links < chain {
		r.run = unfinished[0].ID
		return
	}
	r.links = 0
	for _, s := range unfinished {
		r.goOn(after, s)
		r.remove(s)
	}
}

func (r *rig) goOn(after string, s store.Summary) {
	r.Helper()
	started := time.Now()
	out, err := r.tare("resume", "--prepare", s.ID).CombinedOutput()
	r.spend("resume to the end", started)
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
	defer r.spend("compare", time.Now())
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
