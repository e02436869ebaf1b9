package kconfig

import (
	"fmt"
	"slices"
	"strings"
)

// A State is what a configuration says of a wanted symbol.
type State string

// The states of a want. The first three are good.
const (
	BuiltIn State = "built in"
	Module  State = "module"
	Off     State = "off"     // as asked for
	Set     State = "set"     // to the text that is asked for
	Missing State = "missing" // known to this kernel, and not set
	Hidden  State = "absent"  // not in the configuration: an unmet dependency hides it, or this kernel does not have it
	Unknown State = "unknown" // this kernel version does not have it
	Wrong   State = "wrong"   // set, to another value
)

// A Finding is a want with what became of it.
type Finding struct {
	Want
	State State  `json:"state"`
	By    string `json:"by,omitempty"` // the symbol that serves instead
	Has   string `json:"has"`          // the value in the configuration; empty: none
}

// Good says that the want is met.
func (f Finding) Good() bool {
	switch f.State {
	case BuiltIn, Module, Off, Set:
		return true
	}
	return false
}

// Fails says that something will not work: a want that is not optional is not
// met, in a kernel that could.
func (f Finding) Fails() bool {
	return !f.Good() && !f.Optional && f.State != Unknown
}

// A Library finds a need by its id.
type Library func(id string) (*Need, error)

// Collect are the wants of needs and all that they include, each symbol once:
// of two that ask the same, the stricter; one that is not optional goes before
// one that is. Needs that contradict each other, or include themselves, are an
// error.
func Collect(ids []string, find Library) ([]Want, error) {
	if len(ids) == 0 {
		return nil, fmt.Errorf("no need is named")
	}
	var wants []Want
	seen := map[string]bool{}
	var add func(id string, path []string) error
	add = func(id string, path []string) error {
		if slices.Contains(path, id) {
			return fmt.Errorf("need %q includes itself: %s", id, strings.Join(append(path, id), " > "))
		}
		if seen[id] {
			return nil
		}
		seen[id] = true
		n, err := find(id)
		if err != nil {
			return err
		}
		for _, other := range n.Includes {
			if err := add(other, append(path, id)); err != nil {
				return err
			}
		}
		wants = append(wants, n.Wants...)
		return nil
	}
	for _, id := range ids {
		if err := add(id, nil); err != nil {
			return nil, err
		}
	}
	return merge(wants)
}

// merge leaves each symbol once.
func merge(wants []Want) ([]Want, error) {
	var out []Want
	index := map[string]int{}
	for _, w := range wants {
		key := w.Symbol + " " + w.Since + " " + w.Before
		i, known := index[key]
		if !known {
			index[key] = len(out)
			out = append(out, w)
			continue
		}
		have := &out[i]
		conflict := have.Value != w.Value && have.Value != "" && w.Value != "" || (have.Value == "n") != (w.Value == "n")
		switch {
		case conflict && have.Optional == w.Optional:
			return nil, fmt.Errorf("needs contradict each other: %s wants CONFIG_%s=%s (%s), %s wants %s (%s)",
				have.Need, w.Symbol, valueOrOn(have.Value), have.Why, w.Need, valueOrOn(w.Value), w.Why)
		case have.Optional && !w.Optional, have.Optional == w.Optional && have.Value == "" && w.Value != "":
			*have = w
		}
	}
	return out, nil
}

func valueOrOn(v string) string {
	if v == "" {
		return "y"
	}
	return v
}

// Check compares a configuration with wants, in their order. Wants of another
// architecture are left out.
func (c *Config) Check(wants []Want) []Finding {
	var out []Finding
	for _, w := range wants {
		if len(w.Arch) > 0 && c.Arch != "" && !slices.Contains(w.Arch, c.Arch) {
			continue
		}
		f := Finding{Want: w, Has: c.Values[w.Symbol]}
		f.State = c.state(w)
		for _, other := range w.Or {
			if !f.Good() && c.On(other) {
				f.By, f.Has = other, c.Values[other]
				f.State = c.state(Want{Symbol: other, Value: w.Value})
			}
		}
		out = append(out, f)
	}
	return out
}

func (c *Config) state(w Want) State {
	value, there := c.Values[w.Symbol]
	switch {
	case w.Value == "n" && (!there || value == "n"):
		return Off
	case w.Value == "n":
		return Wrong
	case !there && !w.exists(c.Version):
		return Unknown
	case !there:
		return Hidden
	case value == "n":
		return Missing
	case w.Value != "" && w.Value != "y" && value == w.Value:
		return Set
	case w.Value != "" && value != w.Value:
		return Wrong
	case value == "m":
		return Module
	}
	return BuiltIn
}
