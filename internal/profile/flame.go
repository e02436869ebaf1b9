package profile

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Node is one frame of a flame graph with what lies inside of it.
type Node struct {
	Name     string  `json:"name"`
	Value    float64 `json:"value"` // seconds
	Children []Node  `json:"children,omitempty"`
}

// smallest is the share of the whole below which a frame is left out.
const smallest = 0.0005

// weighed is one stack, outermost first, with its weight.
type weighed struct {
	path    []string
	seconds float64
	count   uint64
}

// The outermost frames of what others than the trial's threads did.
const (
	kernelThreads = "kernel threads"
	sharedEngine  = "shared engine"
)

// whose is the frame that tells others' stacks from the trial's; "" for its own.
func whose(kernel, shared bool) string {
	switch {
	case kernel:
		return kernelThreads
	case shared:
		return sharedEngine
	}
	return ""
}

// weighed lists all stacks of a profile: those of waits end in what was waited
// for, those of samples in what ran.
func (p Profile) weighed() []weighed {
	var all []weighed
	names := p.names()
	for i, w := range p.Waits {
		path := outermost("", whose(w.Kernel, w.Shared), "", p.frames(w.Stack), nil)
		all = append(all, weighed{append(path, "["+names[i].lock+"]"), w.Total.Seconds(), w.Count})
	}
	for _, s := range p.Samples {
		all = append(all, weighed{outermost(s.State, whose(s.Kernel, s.Shared), s.Comm, p.frames(s.Stack), p.frames(s.User)), s.Total.Seconds(), s.Count})
	}
	slices.SortStableFunc(all, func(a, b weighed) int { return cmp.Compare(strings.Join(a.path, ";"), strings.Join(b.path, ";")) })
	return all
}

// outermost turns stacks round: the state, whose, the program's frames, the
// kernel's.
func outermost(state State, whose, comm string, frames, user []string) []string {
	var path []string
	if state != "" {
		path = append(path, string(state))
	}
	if whose != "" {
		path = append(path, whose)
	}
	if comm != "" {
		path = append(path, comm)
	}
	for _, f := range slices.Backward(user) {
		path = append(path, f)
	}
	for _, f := range slices.Backward(frames) {
		path = append(path, f)
	}
	return path
}

// Flame is the flame graph of a profile, by time.
func (p Profile) Flame() Node {
	root := Node{Name: "all"}
	for _, w := range p.weighed() {
		root.add(w.path, w.seconds)
	}
	root.prune(root.Value * smallest)
	return root
}

// add adds a stack. Stacks come in order, so a frame that is there already is
// the last.
func (n *Node) add(path []string, seconds float64) {
	n.Value += seconds
	if len(path) == 0 {
		return
	}
	if last := len(n.Children) - 1; last < 0 || n.Children[last].Name != path[0] {
		n.Children = append(n.Children, Node{Name: path[0]})
	}
	n.Children[len(n.Children)-1].add(path[1:], seconds)
}

func (n *Node) prune(least float64) {
	n.Children = slices.DeleteFunc(n.Children, func(c Node) bool { return c.Value < least })
	for i := range n.Children {
		n.Children[i].prune(least)
	}
}

// Folded writes one line a stack, outermost frame first, with its time in
// microseconds, or its weight where the profile is not of time: the format of Brendan Gregg's flamegraph.pl.
func (p Profile) Folded(w io.Writer) error {
	scale := 1e6
	if p.Unit != "" {
		scale = 1e9
	}
	for _, s := range p.weighed() {
		for i, frame := range s.path {
			s.path[i] = strings.NewReplacer(";", ":", "\n", " ").Replace(frame)
		}
		if _, err := fmt.Fprintf(w, "%s %d\n", strings.Join(s.path, ";"), int64(s.seconds*scale)); err != nil {
			return fmt.Errorf("folded stacks: %w", err)
		}
	}
	return nil
}
