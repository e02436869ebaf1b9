package kubernetes

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tarelab/tare/internal/fleet"
	"github.com/tarelab/tare/internal/fleet/fleettest"
	"github.com/tarelab/tare/internal/fleet/kubernetes"
	"github.com/tarelab/tare/internal/store"
)

// user is a user of the cluster who has the rights that --show asks for, and no others.
type user struct {
	*cluster
	fleettest.User
}

func (c *cluster) user(t *testing.T) *user {
	t.Helper()
	if _, err := c.kubectl(t.Context(), "", "create", "namespace", "tare"); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", c.dir+"/tare.conf")
	e, err := kubernetes.New(kubernetes.Options{Namespace: "tare", Image: c.image})
	if err != nil {
		t.Fatal(err)
	}
	c.allow(t, e, "tare")
	return &user{c, fleettest.User{T: t, Program: *tare, State: t.TempDir()}}
}

// fleet are the arguments that begin a fleet.
func (u *user) fleet(name, nodes string, more ...string) []string {
	return slices.Concat([]string{"fleet", "run", "weigh", "--engine", "kubernetes", "--namespace", "tare", "--job-image", u.image, "--fleet", name, "--nodes", nodes}, more)
}

// long is a measurement that lasts for minutes.
func (u *user) long(name, nodes string) []string {
	return u.fleet(name, nodes, "--on", "host,native", "--no-aa", "--blocks", "3000", "--", "sleep", "0.01")
}

// TestFleet is a fleet from nothing to its report, and what can befall one.
func TestFleet(t *testing.T) {
	began := time.Now()
	c := up(t)
	u := c.user(t)

	t.Run("report", func(t *testing.T) {
		u.T = t
		u.shows()
		u.neighbour("n1")
		out, progress := u.Tare(0, u.fleet("lab", "2", "--on", "host,native,runc", "--blocks", "6", "--", "true")...)
		t.Logf("from nothing to the report: %v\n%s\n%s", time.Since(began).Round(time.Second), progress, out)
		for _, word := range []string{"native", "runc", "n1", "n2", "2 machines", "n1 had other work when the job ended: tare/neighbour"} {
			if !strings.Contains(out, word) {
				t.Errorf("%q is not in the report", word)
			}
		}
		u.knowItsPlace("lab")
		if _, err := u.kubectl(t.Context(), "", "delete", "pod", "neighbour", "--namespace", "tare", "--wait"); err != nil {
			t.Error(err)
		}
		u.nothingLeft()
		u.Tare(0, "fleet", "resume", "lab") // all is there
	})
	t.Run("dead node", func(t *testing.T) { u.T = t; u.deadNode() })
	t.Run("deleted", func(t *testing.T) { u.T = t; u.deleted() })
}

// shows: --show prints what would be submitted and the rights for it, and submits nothing.
func (u *user) shows() {
	u.T.Helper()
	show, _ := u.Tare(0, u.fleet("shown", "2", "--show", "--", "true")...)
	if strings.Count(show, "kind: Job\n") != 2 || strings.Count(show, "kind: Role\n") != 1 || strings.Count(show, "kind: ClusterRole\n") != 1 {
		u.T.Errorf("--show prints %s", show)
	}
	if _, err := u.kubectl(u.T.Context(), show[strings.Index(show, "---"):], "apply", "--dry-run=server", "-f", "-"); err != nil {
		u.T.Error(err)
	}
	u.nothingLeft()
}

// neighbour is a pod of somebody else's on a node.
func (u *user) neighbour(node string) {
	u.T.Helper()
	const pod = `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "neighbour", "namespace": "tare"},
		"spec": {"nodeName": %q, "restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": [{"name": "idle", "image": %q, "command": ["/bin/sh", "-c", "while :; do sleep 1000; done"]}]}}`
	if _, err := u.kubectl(u.T.Context(), fmt.Sprintf(pod, node, u.image), "create", "-f", "-"); err != nil {
		u.T.Fatal(err)
	}
}

func (u *user) nothingLeft() {
	u.T.Helper()
	if left, err := u.left(u.T.Context()); err != nil || len(left) > 0 {
		u.T.Errorf("the cluster still has %q (%v)", left, err)
	}
}

// knowItsPlace: each run says that it was made in a pod, below the pod's cgroups.
func (u *user) knowItsPlace(name string) {
	u.T.Helper()
	runs := u.Runs(name)
	if len(runs) != 2 {
		u.T.Errorf("runs: %v", runs)
	}
	var hosts []string
	for run := range runs {
		text, err := os.ReadFile(filepath.Join(u.Dir(name), "runs", run, "manifest.json"))
		if err != nil {
			u.T.Fatal(err)
		}
		var m store.Manifest
		if err := json.Unmarshal(text, &m); err != nil {
			u.T.Fatal(err)
		}
		if hosts = append(hosts, m.Host.Hostname); m.Host.Place != "pod" || !m.Host.Root || m.Host.CgroupDepth < 3 {
			u.T.Errorf("run %s: %+v", run, m.Host)
		}
	}
	if slices.Sort(hosts); !slices.Equal(hosts, []string{"n1", "n2"}) {
		u.T.Errorf("hosts: %q", hosts)
	}
}

// A node dies in the middle, and so does who collects. The other node takes its place, and
// what the dead one measured is kept.
func (u *user) deadNode() {
	collector := u.Command(u.long("dead", "1")...)
	if err := collector.Start(); err != nil {
		u.T.Fatal(err)
	}
	u.Measuring("dead")
	_ = collector.Process.Kill()
	_ = collector.Wait() // it was killed
	dead := u.Statuses("dead")[0].Machine
	resumed := u.Command("fleet", "resume", "dead")
	var said strings.Builder
	resumed.Stdout, resumed.Stderr = &said, &said
	if err := resumed.Start(); err != nil {
		u.T.Fatal(err)
	}
	u.Measuring("dead")
	revive, err := u.kill(dead)
	if err != nil {
		u.T.Fatal(err)
	}
	u.Replaced("dead", dead)
	u.Abandoned("dead", resumed, &said, 1, 2)
	u.nothingLeft()
	if err := revive(); err != nil {
		u.T.Fatal(err)
	}
}

// Somebody deletes the job by Kubernetes' own means: what it measured is kept, and it is
// not tried again.
func (u *user) deleted() {
	collector := u.Command(u.long("deleted", "1")...)
	if err := collector.Start(); err != nil {
		u.T.Fatal(err)
	}
	u.Measuring("deleted")
	if _, err := u.kubectl(u.T.Context(), "", "-n", "tare", "delete", "job", u.Statuses("deleted")[0].Job); err != nil {
		u.T.Error(err)
	}
	_ = collector.Wait() // its code is looked at
	s := u.Statuses("deleted")[0]
	if code := collector.ProcessState.ExitCode(); code != 1 || s.What != fleet.Interrupted || s.Run == "" || s.Attempt != 1 || u.Runs("deleted")[s.Run] < 5 {
		u.T.Errorf("a job that somebody deleted: exit %d, %+v, with the runs %v", code, s, u.Runs("deleted"))
	}
	u.nothingLeft()
}
