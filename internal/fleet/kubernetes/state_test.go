package kubernetes

import (
	"encoding/json"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tarelab/tare/internal/fleet/engine"
	"github.com/tarelab/tare/internal/limit"
)

// cluster is what an API server of v1.34.2 answered while twelve jobs were there and the
// node n2 had died.
type cluster struct {
	Jobs   []job
	Pods   []pod
	Nodes  []node
	Events []event
}

func captured(t testing.TB, file string, into any) {
	t.Helper()
	data, err := os.ReadFile("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		t.Fatal(err)
	}
}

func TestStates(t *testing.T) {
	var c cluster
	captured(t, "cluster.json", &c)
	want := map[string]struct {
		phase   engine.Phase
		machine string
		words   string
		exit    string
	}{
		"ok":        {engine.Ended, "n1", "Completed", "0"},
		"exit3":     {engine.Ended, "n1", "Error", "3"},
		"sigkill":   {engine.Ended, "n2", "Error", "137"},
		"runs":      {engine.Running, "n1", "", ""},
		"late":      {engine.TooLong, "n2", "DeadlineExceeded: Pod was active on the node longer than the specified deadline", "143"},
		"evicted":   {engine.Taken, "", "PodFailurePolicy: Pod tare/evicted-9vzcb has condition DisruptionTarget", ""},
		"deleted":   {engine.Cancelled, "", "BackoffLimitExceeded", ""},
		"dead":      {engine.Lost, "n2", "DeletionByTaintManager: Taint manager: deleting due to NoExecute taint", ""},
		"noimage":   {engine.Lost, "n2", "NodeStatusUnknown: Kubelet stopped posting node status.", ""},
		"nonode":    {engine.Waiting, "", "Unschedulable: 0/2 nodes are available", ""},
		"big":       {engine.Waiting, "", "Unschedulable: 0/2 nodes are available: 1 Insufficient cpu", ""},
		"forbidden": {engine.Waiting, "", `FailedCreate: Error creating: pods "forbidden-`, ""},
	}
	got := states(c.Jobs, c.Pods, c.Nodes, c.Events)
	if len(got) != len(want) {
		t.Errorf("%d states, want %d", len(got), len(want))
	}
	for name, w := range want {
		s := got[name]
		if s.Phase != w.phase || s.Machine != w.machine || !strings.HasPrefix(s.Words(), w.words) || exit(s) != w.exit || !strings.HasSuffix(s.ID, "/"+name) {
			t.Errorf("%s is %+v (exit %s), want %+v", name, s, exit(s), w)
		}
	}
	if p := podless(c.Jobs, c.Pods); len(p) != 3 {
		t.Errorf("jobs without a pod: %+v", p)
	}

	// Before the node had died.
	c.Nodes[1].Status.Conditions = c.Nodes[0].Status.Conditions
	if s := states(c.Jobs, c.Pods, c.Nodes, nil)["noimage"]; s.Phase != engine.Waiting || !strings.HasPrefix(s.Words(), "ErrImagePull: failed to pull and unpack image") {
		t.Errorf("noimage is %+v", s)
	}
}

func exit(s engine.State) string {
	if s.Exit == nil {
		return ""
	}
	return strconv.Itoa(*s.Exit)
}

// A pod that must go may run on for its grace; what becomes of it is told when it has ended.
func TestEnds(t *testing.T) {
	var c cluster
	captured(t, "cluster.json", &c)
	var evicting pod
	captured(t, "evicting.json", &evicting)
	if s := stateOfPod(evicting, c.Nodes); s.Phase != engine.Running {
		t.Errorf("while it ends: %+v", s)
	}
	for name, w := range map[string]struct {
		edit  func(*pod)
		phase engine.Phase
		words string
	}{
		"evicted":   {func(*pod) {}, engine.Taken, "EvictionByEvictionAPI"},
		"preempted": {func(p *pod) { p.Status.Conditions[0].Reason = "PreemptionByScheduler" }, engine.Taken, "PreemptionByScheduler"},
		"tainted":   {func(p *pod) { p.Status.Conditions[0].Reason = "DeletionByTaintManager" }, engine.Lost, "DeletionByTaintManager"},
		"pressure":  {func(p *pod) { p.Status.Conditions, p.Status.Reason = nil, "Evicted" }, engine.Taken, "Evicted"},
		"deleted":   {func(p *pod) { p.Status.Conditions = nil }, engine.Cancelled, "Error"},
		"rebooted":  {terminated("Unknown"), engine.Lost, "Unknown"},
		"forgotten": {terminated("ContainerStatusUnknown"), engine.Lost, "ContainerStatusUnknown"},
		"memory":    {terminated("OOMKilled"), engine.OutOfMemory, "OOMKilled"},
		"rejected": {func(p *pod) {
			p.Status.Conditions, p.Status.ContainerStatuses, p.Status.Reason, p.Metadata.DeletionTimestamp = nil, nil, "UnexpectedAdmissionError", ""
		}, engine.Lost, "UnexpectedAdmissionError"},
	} {
		p := evicting
		p.Status.Conditions, p.Status.Phase = slices.Clone(evicting.Status.Conditions), "Failed"
		terminated("Error")(&p)
		w.edit(&p)
		if s := stateOfPod(p, c.Nodes); s.Phase != w.phase || !strings.HasPrefix(s.Words(), w.words) {
			t.Errorf("%s: %+v, want %s, %s", name, s, w.phase, w.words)
		}
	}
	evicting.Status.Phase, evicting.Status.ContainerStatuses = "Odd", nil
	if s := stateOfPod(evicting, c.Nodes); s.Phase != engine.Unknown || s.Reason != "Odd" {
		t.Errorf("a phase that nobody knows: %+v", s)
	}
}

// terminated has the container of a pod end. Whatever but Error takes the place of the
// pod's own reasons.
func terminated(reason string) func(*pod) {
	return func(p *pod) {
		if reason != "Error" {
			p.Status.Conditions = nil
		}
		var s containerStatus
		if err := json.Unmarshal([]byte(`{"name": "tare", "state": {"terminated": {"reason": "`+reason+`", "exitCode": 137}}}`), &s); err != nil {
			panic(err)
		}
		p.Status.ContainerStatuses = []containerStatus{s}
	}
}

func TestMachines(t *testing.T) {
	var c cluster
	captured(t, "cluster.json", &c)
	var web pod
	web.Metadata.Namespace, web.Metadata.Name, web.Spec.NodeName = "shop", "web", "n1"
	c.Pods = append(c.Pods, web)
	all, err := machines(c.Nodes, c.Pods, engine.Selector{"arch": "amd64", "kubernetes.io/os": "linux"})
	if err != nil || len(all) != 2 {
		t.Fatalf("%+v, %v", all, err)
	}
	for i, want := range []engine.Machine{
		{Name: "n1", Arch: "amd64", CPUs: 2, State: "Ready", Up: true, Others: []string{"shop/web"}},
		{Name: "n2", Arch: "amd64", CPUs: 2, State: "NotReady"},
	} {
		all[i].Labels = nil
		if diff := cmp.Diff(want, all[i]); diff != "" {
			t.Error(diff)
		}
	}
	c.Nodes[0].Spec.Unschedulable = true
	one, err := machines(c.Nodes, nil, engine.Selector{"name": "n1"})
	if err != nil || len(one) != 1 || one[0].State != "Ready,SchedulingDisabled" || one[0].Up || one[0].Idle {
		t.Errorf("%+v, %v", one, err)
	}
}

// A job leaves to daemons what they ask for, and nothing to others.
func TestRoom(t *testing.T) {
	var n node
	var p []pod
	for text, into := range map[string]any{
		`{"status": {"allocatable": {"cpu": "3920m", "memory": "8Gi"}}}`: &n,
		`[{"metadata": {"ownerReferences": [{"kind": "DaemonSet"}]}, "spec": {"overhead": {"cpu": "20m"},
			"containers": [{"resources": {"requests": {"cpu": "100m", "memory": "1Gi"}}}, {"resources": {"requests": {"cpu": "0.1"}}}, {}],
			"initContainers": [{"resources": {"requests": {"cpu": "300m"}}}]}},
		  {"metadata": {"ownerReferences": [{"kind": "Node"}]}, "spec": {"containers": [{"resources": {"requests": {"cpu": "100m"}}}]}},
		  {"metadata": {"ownerReferences": [{"kind": "ReplicaSet"}]}, "spec": {"containers": [{"resources": {"requests": {"cpu": "1"}}}]}}]`: &p,
	} {
		if err := json.Unmarshal([]byte(text), into); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(map[string]any{"cpu": "3500m", "memory": "7Gi"}, room(n, p)); diff != "" {
		t.Error(diff)
	}
}

// What an API server answers may come from anybody who can change its objects.
func FuzzStates(f *testing.F) {
	data, err := os.ReadFile("testdata/cluster.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		var c cluster
		if json.Unmarshal(data, &c) != nil {
			return
		}
		if err := limit.EngineAnswer.CheckAlloc(func() {
			for name, s := range states(c.Jobs, c.Pods, c.Nodes, c.Events) {
				if s.Phase == "" {
					t.Errorf("%s has no phase", name)
				}
			}
			_, _ = machines(c.Nodes, c.Pods, nil)
			for _, n := range c.Nodes {
				room(n, c.Pods)
			}
		}); err != nil {
			t.Error(err)
		}
	})
}
