package slurm

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tarelab/tare/internal/fleet"
	"github.com/tarelab/tare/internal/fleet/fleettest"
	"github.com/tarelab/tare/internal/fleet/slurm"
)

// TestSlurmContract runs the contract of engines on a real Slurm.
func TestSlurmContract(t *testing.T) {
	needed(t)
	c := newCluster(t, 3)
	e, err := slurm.New(slurm.Config{Program: "/bin/sh", Dir: c.path("jobs")})
	if err != nil {
		t.Fatal(err)
	}
	fleettest.RunContract(t, e, fleettest.Options{
		Machines:   []string{"node1", "node2", "node3"},
		Faults:     []fleettest.Fault{{Name: "a machine that does not exist", Machine: "node99", Words: "Invalid node name"}},
		Requests:   e.Requests,
		Left:       c.left,
		Kill:       c.die,
		LostWithin: 3 * time.Minute,
		Preempt: func(ctx context.Context, job string) error {
			all, err := e.States(ctx, []string{job})
			if err != nil {
				return err
			}
			return c.command("sbatch", "--partition=urgent", "--exclusive", "--nodes=1", "--nodelist="+all[job].Machine, "--output=/dev/null", "--wrap=true")
		},
	})
	if left, err := os.ReadDir(c.path("jobs")); err != nil || len(left) > 0 {
		t.Errorf("output of jobs is left: %v (%v)", left, err)
	}
}

// left are the names of jobs that wait or run.
func (c *cluster) left(context.Context) ([]string, error) {
	out, err := exec.Command(c.path("bin/squeue"), "--noheader", "--format=%j").Output()
	return strings.Fields(string(out)), err
}

// user is somebody who calls tare on the cluster.
type user struct {
	*cluster
	*fleettest.User
	orphans []string // sessions of a dead node
}

func newUser(t *testing.T, c *cluster, program string) *user {
	u := &user{cluster: c, User: &fleettest.User{T: t, Program: program, State: c.path("state-of-user")}}
	t.Cleanup(func() {
		if left, err := c.left(t.Context()); err != nil || len(left) > 0 {
			t.Errorf("the engine still has jobs %q (%v)", left, err)
		}
	})
	return u
}

// in has what follows belong to a subtest.
func (u *user) in(t *testing.T) { u.t, u.T = t, t }

// long is a measurement that lasts for minutes.
func long(name string, more ...string) []string {
	return slices.Concat([]string{"fleet", "run", "weigh", "--engine", "slurm", "--fleet", name}, more,
		[]string{"--on", "host,native", "--no-aa", "--blocks", "3000", "--", "sleep", "0.01"})
}

// TestSlurmFleet is a fleet from nothing to its report, and what can befall one.
func TestSlurmFleet(t *testing.T) {
	program := needed(t)
	began := time.Now()
	c := newCluster(t, 3)
	u := newUser(t, c, program)

	t.Run("report", func(t *testing.T) {
		u.in(t)
		show, _ := u.Tare(0, "fleet", "run", "weigh", "--engine", "slurm", "--nodes", "3", "--show", "--", "true")
		if strings.Count(show, "sbatch --parsable") != 3 || !strings.Contains(show, "exec "+program) {
			t.Errorf("--show prints %s", show)
		}
		out, progress := u.Tare(0, "fleet", "run", "weigh", "--engine", "slurm", "--nodes", "3", "--fleet", "lab", "--on", "host,native,runc", "--blocks", "6", "--", "true")
		t.Logf("from nothing to the report: %v\n%s\n%s", time.Since(began).Round(time.Second), progress, out)
		for _, word := range []string{"native", "runc", "node1", "node2", "node3", "3 machines", "3 of 3 machines, drawn at random"} {
			if !strings.Contains(out, word) {
				t.Errorf("%q is not in the report", word)
			}
		}
		if runs := u.Runs("lab"); len(runs) != 3 {
			t.Errorf("runs: %v", runs)
		}
		if streams, err := os.ReadDir(filepath.Join(u.State, "fleets/lab/streams")); err != nil || len(streams) > 0 {
			t.Errorf("streams of whole runs are left: %v (%v)", streams, err)
		}
		if _, errs := u.Tare(2, "fleet", "run", "weigh", "--engine", "slurm", "--nodes", "node1,node99", "--", "true"); !strings.Contains(errs, "node99") {
			t.Errorf("a machine that does not exist: %s", errs)
		}
		u.Tare(0, "fleet", "resume", "lab") // all is there
		if status, _ := u.Tare(0, "fleet", "status", "lab"); !strings.Contains(status, "all is collected") {
			t.Errorf("status of a fleet that is over: %s", status)
		}
	})

	t.Run("dead node", func(t *testing.T) { u.in(t); u.deadNode() })
	t.Run("cancel", func(t *testing.T) { u.in(t); u.cancelled() })
	t.Run("limits", func(t *testing.T) { u.in(t); u.limits() })

	// The next job on each node has swept what a dead one left.
	u.in(t)
	u.Tare(0, "fleet", "run", "weigh", "--engine", "slurm", "--nodes", "all", "--fleet", "last", "--on", "host,native", "--blocks", "6", "--", "true")
	for _, node := range []string{"node1", "node2", "node3"} {
		if left := u.sessions(node); len(left) > 0 {
			t.Errorf("sessions are left: %q", left)
		}
	}
	if left := groups(t, u.orphans); len(left) > 0 {
		t.Errorf("cgroups of a dead node are left: %q", left)
	}
}

// groups are the cgroups of sessions.
func groups(t *testing.T, sessions []string) []string {
	t.Helper()
	var all []string
	for _, s := range sessions {
		for _, pattern := range []string{"/sys/fs/cgroup/tare/", "/sys/fs/cgroup/*/tare/"} {
			found, err := filepath.Glob(pattern + filepath.Base(s))
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, found...)
		}
	}
	return all
}

// sessions are those of tare that a node has on its disk.
func (u *user) sessions(node string) []string {
	all, err := filepath.Glob(u.path("disk-" + node + "/sessions/*"))
	if err != nil {
		u.t.Fatal(err)
	}
	return all
}

// A node dies in the middle, and so does who collects. The machine's place is taken by the
// third, and what the dead one measured is kept.
func (u *user) deadNode() {
	collector := u.Command(long("dead", "--nodes", "2")...)
	if err := collector.Start(); err != nil {
		u.t.Fatal(err)
	}
	u.Measuring("dead")
	_ = collector.Process.Kill()
	_ = collector.Wait()
	dead := u.Statuses("dead")[0].Machine
	revive, err := u.die(dead)
	if err != nil {
		u.t.Fatal(err)
	}
	if u.orphans = u.sessions(dead); len(u.orphans) == 0 || len(groups(u.t, u.orphans)) == 0 {
		u.t.Errorf("the dead node left the sessions %q and the cgroups %q: the test sees nothing", u.orphans, groups(u.t, u.orphans))
	}
	resumed := u.Command("fleet", "resume", "dead")
	var said strings.Builder
	resumed.Stdout, resumed.Stderr = &said, &said
	if err := resumed.Start(); err != nil {
		u.t.Fatal(err)
	}
	u.Replaced("dead", dead)
	u.Abandoned("dead", resumed, &said, 2, 3)
	if err := revive(); err != nil {
		u.t.Fatal(err)
	}
}

// Somebody ends the jobs by the engine's own means: that is recorded, and not tried again.
func (u *user) cancelled() {
	collector := u.Command(long("ended", "--nodes", "2")...)
	if err := collector.Start(); err != nil {
		u.t.Fatal(err)
	}
	u.Measuring("ended")
	first := u.Statuses("ended")[0]
	if err := u.cluster.command("scancel", "--name="+first.Job); err != nil {
		u.t.Error(err)
	}
	u.wait("a job that somebody ended", func() bool { return u.Statuses("ended")[0].Over() })
	if s := u.Statuses("ended")[0]; s.What != fleet.Cancelled || s.Run == "" {
		u.t.Errorf("a job that somebody ended: %+v", s)
	}
	_ = collector.Process.Signal(syscall.SIGTERM)
	_ = collector.Wait()
	u.Tare(0, "fleet", "cancel", "ended")
	u.Tare(1, "fleet", "resume", "ended") // nothing more is submitted
	for _, s := range u.Statuses("ended") {
		if s.What != fleet.Cancelled || s.Run == "" || s.Attempt != 1 {
			text, _ := json.Marshal(s)
			u.t.Errorf("after the cancel: %s", text)
		}
	}
}

// A job that takes too long keeps its whole blocks; one that finds no room is given up.
func (u *user) limits() {
	holder, err := exec.Command(u.path("bin/sbatch"), "--parsable", "--exclusive", "--nodelist=node3", "--output=/dev/null", "--job-name=holder", "--wrap=exec sleep 1000").Output()
	if err != nil {
		u.t.Fatal(err)
	}
	u.Tare(1, long("limits", "--nodes", "node2,node3", "--time", "90s", "--wait-at-most", "5s")...)
	all := u.Statuses("limits")
	if s := all[0]; s.What != fleet.TooLong || u.Runs("limits")[s.Run] < 5 {
		u.t.Errorf("a job that takes too long: %+v", s)
	}
	if s := all[1]; s.What != fleet.NotPlaced || !strings.Contains(s.Words, "Resources") && !strings.Contains(s.Words, "Priority") {
		u.t.Errorf("a job without a machine: %+v", s)
	}
	if err := u.cluster.command("scancel", strings.TrimSpace(string(holder))); err != nil {
		u.t.Error(err)
	}
	u.idle(3)
}
