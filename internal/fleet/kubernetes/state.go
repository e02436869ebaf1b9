package kubernetes

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/tarelab/tare/internal/fleet/engine"
)

// What is read of the cluster's objects.
type (
	meta struct {
		Name              string            `json:"name"`
		Namespace         string            `json:"namespace"`
		Labels            map[string]string `json:"labels"`
		DeletionTimestamp string            `json:"deletionTimestamp"`
		OwnerReferences   []owner           `json:"ownerReferences"`
	}
	owner struct {
		Kind string `json:"kind"`
	}
	condition struct {
		Type    string `json:"type"`
		Status  string `json:"status"`
		Reason  string `json:"reason"`
		Message string `json:"message"`
	}
	object struct {
		Metadata meta `json:"metadata"`
	}
	job struct {
		Metadata meta `json:"metadata"`
		Spec     struct {
			Suspend bool `json:"suspend"`
		} `json:"spec"`
		Status struct {
			Conditions []condition `json:"conditions"`
		} `json:"status"`
	}
	resources struct {
		Resources struct {
			Requests map[string]string `json:"requests"`
		} `json:"resources"`
	}
	pod struct {
		Metadata meta `json:"metadata"`
		Spec     struct {
			NodeName       string            `json:"nodeName"`
			Containers     []resources       `json:"containers"`
			InitContainers []resources       `json:"initContainers"`
			Overhead       map[string]string `json:"overhead"`
		} `json:"spec"`
		Status struct {
			Phase             string            `json:"phase"`
			Reason            string            `json:"reason"`
			Message           string            `json:"message"`
			Conditions        []condition       `json:"conditions"`
			ContainerStatuses []containerStatus `json:"containerStatuses"`
		} `json:"status"`
	}
	containerStatus struct {
		Name  string `json:"name"`
		State struct {
			Waiting    *words    `json:"waiting"`
			Running    *struct{} `json:"running"`
			Terminated *struct {
				words
				ExitCode int `json:"exitCode"`
			} `json:"terminated"`
		} `json:"state"`
	}
	words struct {
		Reason  string `json:"reason"`
		Message string `json:"message"`
	}
	node struct {
		Metadata meta `json:"metadata"`
		Spec     struct {
			Unschedulable bool `json:"unschedulable"`
		} `json:"spec"`
		Status struct {
			Capacity    map[string]string `json:"capacity"`
			Allocatable map[string]string `json:"allocatable"`
			Conditions  []condition       `json:"conditions"`
		} `json:"status"`
	}
	event struct {
		InvolvedObject struct {
			Name string `json:"name"`
		} `json:"involvedObject"`
		words
	}
)

// of finds a condition that is as wanted.
func of(conditions []condition, kind, status string) (condition, bool) {
	i := slices.IndexFunc(conditions, func(c condition) bool { return c.Type == kind && c.Status == status })
	if i < 0 {
		return condition{}, false
	}
	return conditions[i], true
}

// container is the state of the container that runs the job.
func (p pod) container() (containerStatus, bool) {
	i := slices.IndexFunc(p.Status.ContainerStatuses, func(s containerStatus) bool { return s.Name == container })
	if i < 0 {
		return containerStatus{}, false
	}
	return p.Status.ContainerStatuses[i], true
}

// unreachable reports whether the node's kubelet does not answer any more.
func (n node) unreachable() bool {
	_, unknown := of(n.Status.Conditions, "Ready", "Unknown")
	return unknown
}

// podless are jobs that have no pod.
func podless(jobs []job, pods []pod) []job {
	return slices.DeleteFunc(slices.Clone(jobs), func(j job) bool { return podOf(j, pods) != nil })
}

func podOf(j job, pods []pod) *pod {
	i := slices.IndexFunc(pods, func(p pod) bool { return p.Metadata.Labels[jobLabel] == j.Metadata.Name })
	if i < 0 {
		return nil
	}
	return &pods[i]
}

// states says what became of jobs.
func states(jobs []job, pods []pod, nodes []node, failed []event) map[string]engine.State {
	all := map[string]engine.State{}
	for _, j := range jobs {
		s := stateOfJob(j, failed)
		if p := podOf(j, pods); p != nil {
			s = stateOfPod(*p, nodes)
		}
		s.ID = j.Metadata.Namespace + "/" + j.Metadata.Name
		all[j.Metadata.Name] = s
	}
	return all
}

// stateOfJob is of a job without a pod: it is new, or its pod could not be made, or is gone.
func stateOfJob(j job, failed []event) engine.State {
	if c, ok := of(j.Status.Conditions, "Failed", "True"); ok {
		// The pod of a job that ended by itself stays: this one was taken away.
		phase := engine.Cancelled
		switch c.Reason {
		case "DeadlineExceeded":
			phase = engine.TooLong
		case "PodFailurePolicy":
			phase = engine.Taken
		}
		return engine.State{Phase: phase, Reason: c.Reason, Message: c.Message}
	}
	s := engine.State{Phase: engine.Waiting, Reason: "Pending"}
	for _, e := range failed { // in the order of their names, which is that of time
		if e.InvolvedObject.Name == j.Metadata.Name {
			s.Reason, s.Message = e.Reason, e.Message
		}
	}
	if c, ok := of(j.Status.Conditions, "Suspended", "True"); ok {
		s.Reason, s.Message = c.Reason, c.Message
	}
	return s
}

// stateOfPod is of a job with a pod.
func stateOfPod(p pod, nodes []node) engine.State {
	s := engine.State{Machine: p.Spec.NodeName, Reason: p.Status.Reason, Message: p.Status.Message}
	c, _ := p.container()
	if t := c.State.Terminated; t != nil {
		s.Reason, s.Message, s.Exit = cmp.Or(s.Reason, t.Reason), cmp.Or(s.Message, t.Message), &t.ExitCode
	}
	if p.Status.Phase == "Succeeded" || p.Status.Phase == "Failed" {
		return ended(s, p)
	}
	if on, gone := machineOf(p, nodes); gone {
		ready, _ := of(on.Status.Conditions, "Ready", "Unknown")
		s.Phase, s.Exit, s.Reason, s.Message = engine.Lost, nil, cmp.Or(ready.Reason, "NodeNotFound"), ready.Message
		if c, ok := of(p.Status.Conditions, disrupted, "True"); ok {
			s.Reason, s.Message = c.Reason, c.Message
		}
		return s
	}
	switch {
	case c.State.Running != nil, c.State.Terminated != nil: // after which the pod is about to end
		s.Phase = engine.Running
	case p.Status.Phase == "Pending":
		s.Phase = engine.Waiting
		s.Reason, s.Message = waits(p, c)
	default:
		s.Phase, s.Reason = engine.Unknown, cmp.Or(s.Reason, p.Status.Phase, "no phase")
	}
	return s
}

// machineOf is the node of a pod; gone is true for one that is not there, or not in reach.
func machineOf(p pod, nodes []node) (on node, gone bool) {
	if p.Spec.NodeName == "" {
		return node{}, false
	}
	i := slices.IndexFunc(nodes, func(n node) bool { return n.Metadata.Name == p.Spec.NodeName })
	if i < 0 {
		return node{}, true
	}
	return nodes[i], nodes[i].unreachable()
}

const disrupted = "DisruptionTarget"

// ended says why a pod ended; s has what its container says.
func ended(s engine.State, p pod) engine.State {
	s.Phase = engine.Ended
	if c, ok := of(p.Status.Conditions, disrupted, "True"); ok {
		s.Phase, s.Reason, s.Message = engine.Taken, c.Reason, c.Message
		if c.Reason == "DeletionByTaintManager" || c.Reason == "DeletionByPodGC" {
			s.Phase = engine.Lost
		}
		return s
	}
	switch s.Reason {
	case "DeadlineExceeded":
		s.Phase = engine.TooLong
	case "Evicted", "Preempting", "Terminated": // by kubelet: pressure, a critical pod, a shutdown
		s.Phase = engine.Taken
	case "OOMKilled":
		s.Phase = engine.OutOfMemory
	case "ContainerStatusUnknown", "Unknown", "NodeLost": // the node was started anew meanwhile
		s.Phase, s.Exit = engine.Lost, nil
	default:
		if p.Metadata.DeletionTimestamp != "" {
			s.Phase = engine.Cancelled
		} else if s.Exit == nil { // refused by kubelet before it began, such as UnexpectedAdmissionError
			s.Phase = engine.Lost
		}
	}
	return s
}

// waits says what a pod waits for: the scheduler, or kubelet.
func waits(p pod, c containerStatus) (reason, message string) {
	if c.State.Waiting != nil {
		return c.State.Waiting.Reason, c.State.Waiting.Message
	}
	if not, ok := of(p.Status.Conditions, "PodScheduled", "False"); ok {
		return not.Reason, not.Message
	}
	return p.Status.Phase, ""
}

// machines are the nodes that where selects, in the order of their names.
func machines(nodes []node, pods []pod, where engine.Selector) ([]engine.Machine, error) {
	for key := range where {
		if key != "name" && key != "arch" && !slices.ContainsFunc(nodes, func(n node) bool { _, ok := n.Metadata.Labels[key]; return ok }) {
			return nil, &engine.SelectorError{Why: fmt.Sprintf("no node has the label %q: select by name, arch, or a label that kubectl get nodes --show-labels shows", key)}
		}
	}
	busy, others := map[string]bool{}, map[string][]string{}
	for _, p := range pods {
		if p.Metadata.Labels[fleetLabel] == "" {
			others[p.Spec.NodeName] = append(others[p.Spec.NodeName], p.Metadata.Namespace+"/"+p.Metadata.Name)
		}
		if !p.daemon() {
			busy[p.Spec.NodeName] = true
		}
	}
	var all []engine.Machine
	for _, n := range nodes {
		m := machine(n, busy[n.Metadata.Name])
		m.Others = others[n.Metadata.Name]
		slices.Sort(m.Others)
		if selects(where, m) {
			all = append(all, m)
		}
	}
	slices.SortFunc(all, func(a, b engine.Machine) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

func selects(where engine.Selector, m engine.Machine) bool {
	for key, value := range where {
		if property(m, key) != value {
			return false
		}
	}
	return true
}

func property(m engine.Machine, key string) string {
	switch key {
	case "name":
		return m.Name
	case "arch":
		return m.Arch
	}
	return m.Labels[key]
}

// machine describes a node in the words of kubectl get nodes.
func machine(n node, busy bool) engine.Machine {
	m := engine.Machine{Name: n.Metadata.Name, Arch: n.Metadata.Labels["kubernetes.io/arch"], Labels: n.Metadata.Labels, State: "NotReady"}
	if cpus, err := resource.ParseQuantity(n.Status.Capacity["cpu"]); err == nil {
		m.CPUs = int(cpus.Value())
	}
	if _, ready := of(n.Status.Conditions, "Ready", "True"); ready {
		m.State, m.Up = "Ready", !n.Spec.Unschedulable
	}
	if n.Spec.Unschedulable {
		m.State += ",SchedulingDisabled"
	}
	m.Idle = m.Up && !busy
	return m
}

// daemon reports whether a pod belongs to its node, and will not make way.
func (p pod) daemon() bool {
	return slices.ContainsFunc(p.Metadata.OwnerReferences, func(o owner) bool { return o.Kind == "DaemonSet" || o.Kind == "Node" })
}

// room is what a node has for a job that is alone with the node's daemons.
func room(n node, pods []pod) map[string]any {
	requests := map[string]any{}
	for _, name := range []string{"cpu", "memory"} {
		left, err := resource.ParseQuantity(n.Status.Allocatable[name])
		if err != nil {
			continue
		}
		for _, p := range pods {
			if p.daemon() {
				left.Sub(p.asks(name))
			}
		}
		if left.Sign() > 0 {
			requests[name] = left.String()
		}
	}
	return requests
}

// asks is what a pod requests of a resource: what its containers ask for together, or the
// most that one of those before them asks for.
func (p pod) asks(name string) (all resource.Quantity) {
	for _, c := range p.Spec.Containers {
		all.Add(quantity(c.Resources.Requests[name]))
	}
	for _, c := range p.Spec.InitContainers {
		if one := quantity(c.Resources.Requests[name]); one.Cmp(all) > 0 {
			all = one
		}
	}
	all.Add(quantity(p.Spec.Overhead[name]))
	return all
}

func quantity(text string) resource.Quantity {
	q, err := resource.ParseQuantity(text)
	if err != nil { // none is asked for
		return resource.Quantity{}
	}
	return q
}
