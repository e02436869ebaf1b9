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
	Unknown State = "unknown" // not asked of this version of the kernel, or not a symbol of its
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

// Collect are the wants of needs and all that they include, each symbol once for
// the same kernels (since, before, arch): of two that ask the same, the stricter;
// one that is not optional goes before one that is. Needs that contradict each
// other for some kernel, or include themselves, are an error.
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

// merge leaves each symbol once for each range of kernels.
func merge(wants []Want) ([]Want, error) {
	var out []Want
	for _, w := range wants {
		same := -1
		for i := range out {
			have := &out[i]
			if !have.meets(&w) {
				continue
			}
			if have.contradicts(&w) && have.Optional == w.Optional {
				return nil, fmt.Errorf("needs contradict each other: %s wants CONFIG_%s=%s (%s), %s wants %s (%s)",
					have.Need, w.Symbol, valueOrOn(have.Value), have.Why, w.Need, valueOrOn(w.Value), w.Why)
			}
			if have.Since == w.Since && have.Before == w.Before && slices.Equal(have.Arch, w.Arch) {
				same = i
			}
		}
		switch {
		case same < 0:
			out = append(out, w)
		case out[same].Optional && !w.Optional, out[same].Optional == w.Optional && out[same].Value == "" && w.Value != "":
			out[same] = w
		}
	}
	return out, nil
}

// meets says whether there is a kernel for which both ask for one symbol.
func (w *Want) meets(other *Want) bool {
	arch := len(w.Arch) == 0 || len(other.Arch) == 0 || slices.ContainsFunc(w.Arch, func(a string) bool { return slices.Contains(other.Arch, a) })
	return w.Symbol == other.Symbol && arch && !w.endsBefore(other) && !other.endsBefore(w)
}

// endsBefore says that the last kernel of w is older than the first of other.
func (w *Want) endsBefore(other *Want) bool {
	return w.Before != "" && other.Since != "" && !isOlder(other.Since, w.Before)
}

// contradicts says that no value is right for both.
func (w *Want) contradicts(other *Want) bool {
	return w.Value != other.Value && w.Value != "" && other.Value != "" || (w.Value == "n") != (other.Value == "n")
}

func valueOrOn(v string) string {
	if v == "" {
		return "y"
	}
	return v
}

// For leaves out the wants of other architectures and versions than a kernel's;
// "" is one that is not known, and leaves out none.
func For(arch, version string, wants []Want) []Want {
	return slices.DeleteFunc(slices.Clone(wants), func(w Want) bool { return !w.on(arch) || !w.exists(version) })
}

// Check compares a configuration with wants, in their order. Wants of another
// architecture are left out.
func (c *Config) Check(wants []Want) []Finding {
	var out []Finding
	for _, w := range wants {
		if !w.on(c.Arch) {
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
		if !f.Good() && !w.exists(c.Version) {
			f.State = Unknown
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
