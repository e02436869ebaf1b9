package bootlog

import (
	"cmp"
	"path"
	"slices"
	"strings"
	"time"
)

// A Symbol is a Kconfig symbol with what its code cost while it started.
type Symbol struct {
	Name      string        `json:"name"` // without CONFIG_; empty: always built
	Own       time.Duration `json:"own"`
	Initcalls []string      `json:"initcalls"`
	Objects   []string      `json:"objects"` // below the tree's root
}

// An Origin is where an initcall's code is.
type Origin struct {
	Object string // such as drivers/rtc/rtc-cmos.o
	Symbol string // the nearest Kconfig symbol that decides on it, without CONFIG_; empty: always built
}

// Attribute sums the initcalls' own time up by Kconfig symbol, the costliest
// first. Several origins are several places of one name: the call counts for
// all of them together, under a name that says so.
func (p *Profile) Attribute(origins map[string][]Origin) {
	sum := map[string]*Symbol{}
	for _, c := range p.Initcalls {
		from := ofModule(origins[asyncName.ReplaceAllString(c.Name, "")], c.Module)
		var names, objects []string
		for _, o := range from {
			if !slices.Contains(names, o.Symbol) {
				names = append(names, o.Symbol)
			}
			objects = append(objects, o.Object)
		}
		name := strings.Join(names, " or ")
		if len(from) == 0 {
			name = "not found"
		}
		s := sum[name]
		if s == nil {
			s = &Symbol{Name: name}
			sum[name] = s
		}
		s.Own += c.Own
		s.Initcalls = append(s.Initcalls, c.Name)
		for _, o := range objects {
			if !slices.Contains(s.Objects, o) {
				s.Objects = append(s.Objects, o)
			}
		}
	}
	p.Symbols = nil
	for _, s := range sum {
		p.Symbols = append(p.Symbols, *s)
	}
	slices.SortFunc(p.Symbols, func(x, y Symbol) int {
		return cmp.Or(cmp.Compare(y.Own, x.Own), strings.Compare(x.Name, y.Name))
	})
}

// ofModule leaves out the places that cannot be a module's, where one is left.
func ofModule(all []Origin, module string) []Origin {
	for _, o := range all {
		if module != "" && strings.ReplaceAll(strings.TrimSuffix(path.Base(o.Object), ".o"), "-", "_") == module {
			return []Origin{o}
		}
	}
	return all
}
