package learn

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/tarelab/tare/internal/kerneltools/kbuild"
	"github.com/tarelab/tare/internal/kerneltools/kconfig"
)

// A Source is what a kernel's source says of what was observed.
type Source struct {
	kbuild.Definitions
	Objects map[string]kbuild.Origin `json:"objects"` // of modules
	Entries map[int]string           `json:"entries"` // of system calls, by number
	Asked   map[string]bool          `json:"asked"`   // the symbols that people are asked for
}

// Ask asks a kernel's source of what was observed.
func Ask(ctx context.Context, tree *kbuild.Tree, o *Observed) (s Source, err error) {
	if s.Entries, err = tree.SystemCalls(); err != nil {
		return s, err
	}
	if s.Asked, err = tree.Asked(); err != nil {
		return s, err
	}
	s.Objects = map[string]kbuild.Origin{}
	for _, m := range slices.Concat(o.Modules, o.Present) {
		if m.Object != "" {
			s.Objects[m.Object] = tree.Origin(m.Object)
		}
	}
	var names kbuild.Names
	for _, c := range o.Calls {
		if entry := s.Entries[c.Number]; entry != "" {
			names.Calls = append(names.Calls, entry)
		}
	}
	for _, m := range o.Mounts {
		names.FileSystems = append(names.FileSystems, m.Name)
	}
	for _, f := range o.Functions {
		if f.Module == "" {
			names.Functions = append(names.Functions, plain(f.Name))
		}
	}
	s.Definitions, err = tree.Define(ctx, names)
	return s, err
}

// Reachable are how many of a kernel's system calls stand in its table: the entries of
// other ABIs do not.
func (s *Source) Reachable(syscalls []string) (n int) {
	for _, entry := range s.Entries {
		if _, found := slices.BinarySearch(syscalls, entry); found {
			n++
		}
	}
	return n
}

// plain is a function's name without what the compiler put behind it, as .isra.0.
func plain(name string) string {
	name, _, _ = strings.Cut(name, ".")
	return name
}

// How a symbol came to be proposed.
const (
	byModule     = "module"
	byCall       = "system call"
	byFileSystem = "file system"
	bySocket     = "socket"
	byNamespace  = "namespace"
	byDevice     = "device"
	byFunctions  = "functions"
)

// A Reason is one thing that was seen, and what it has to do with a symbol.
type Reason struct {
	Kind string `json:"kind"`
	Seen string `json:"seen"`           // "the module vxlan was loaded, which the kernel asked for as rtnl-link-vxlan for ip"
	Rule string `json:"rule,omitempty"` // "drivers/net/vxlan/vxlan.o is built by CONFIG_VXLAN (its Makefile)"
}

// A Symbol is one that the command uses.
type Symbol struct {
	Symbol  string   `json:"symbol"`
	Reasons []Reason `json:"reasons"`
	// Optional: its code was reached, and nothing shows that the command asked for it.
	Optional bool   `json:"optional,omitempty"`
	Need     string `json:"need,omitempty"`  // that asks for it already; "" for none
	Stock    string `json:"stock,omitempty"` // its value in the configuration that was observed
}

// A Proposal is what was learned of a command.
type Proposal struct {
	Symbols []Symbol `json:"symbols"`            // sorted: the news first, those that must be before the optional
	Unknown []string `json:"unknown,omitempty"`  // what was seen, and no rule says which symbol it is of
	Entries []string `json:"syscalls,omitempty"` // of the system calls that were made
}

// News are the symbols that no need asks for yet.
func (p *Proposal) News() []Symbol {
	return slices.DeleteFunc(slices.Clone(p.Symbols), func(s Symbol) bool { return s.Need != "" })
}

// Propose says which symbols the command uses. base are the wants that its kernel is
// given anyway.
func Propose(o *Observed, s Source, base []kconfig.Want) Proposal {
	l := learner{o: o, source: s, stock: o.Config, found: map[string]*Symbol{}}
	l.fromModules()
	l.fromCalls()
	l.fromFileSystems()
	l.fromSockets()
	l.fromNamespaces()
	l.fromDevices()
	l.fromFunctions()
	return l.proposal(base)
}

type learner struct {
	o       *Observed
	source  Source
	stock   *kconfig.Config
	found   map[string]*Symbol
	unknown []string
	entries []string
}

// loading are the symbols of loadable modules: what was one in the observed kernel is
// built into the new one.
var loading = []string{"MODULES", "MODULE_UNLOAD"}

// add adds a reason for a symbol. One that the observed kernel did not have on cannot be
// what the command used, and one that nobody is asked for follows from others: Kconfig
// turns it on by itself.
func (l *learner) add(symbol string, optional bool, r Reason) {
	if l.stock != nil && !l.stock.On(symbol) || !l.source.Asked[symbol] || slices.Contains(loading, symbol) {
		return
	}
	at := l.found[symbol]
	if at == nil {
		at = &Symbol{Symbol: symbol, Optional: optional}
		if l.stock != nil {
			at.Stock = l.stock.Values[symbol]
		}
		l.found[symbol] = at
	}
	at.Optional = at.Optional && optional
	if !slices.Contains(at.Reasons, r) {
		at.Reasons = append(at.Reasons, r)
	}
}

// rule says which symbol an object is of.
func rule(o kbuild.Origin) string {
	return fmt.Sprintf("CONFIG_%s decides on %s, as the source's Makefiles and conditions say", o.Symbol, o.Object)
}

func (l *learner) fromModules() {
	for _, m := range l.o.Modules {
		origin := l.source.Objects[m.Object]
		if m.Object == "" || !origin.Known || origin.Symbol == "" {
			l.unknown = append(l.unknown, fmt.Sprintf("the module %s, whose object no Makefile names", m.Name))
			continue
		}
		l.add(origin.Symbol, false, Reason{byModule, l.loaded(m), rule(origin)})
	}
}

// loaded says who asked for a module.
func (l *learner) loaded(m Module) string {
	what := fmt.Sprintf("the module %s was loaded", m.Name)
	for _, r := range l.o.Requests {
		if slices.Contains(m.Aliases, r.Alias) {
			return fmt.Sprintf("%s, which the kernel asked for as %s for %s", what, r.Alias, r.By)
		}
	}
	for _, other := range l.o.Modules {
		if slices.Contains(other.Depends, m.Name) {
			return fmt.Sprintf("%s, which the module %s depends on", what, other.Name)
		}
	}
	if m.By != "" {
		return what + " by " + m.By
	}
	return what
}

func (l *learner) fromCalls() {
	made, often := map[int][]string{}, map[int]int{}
	for _, c := range l.o.Calls {
		often[c.Number] += c.Count
		if !slices.Contains(made[c.Number], c.By) {
			made[c.Number] = append(made[c.Number], c.By)
		}
	}
	for _, c := range l.o.Calls {
		by, entry := made[c.Number], l.source.Entries[c.Number]
		// A filter of seccomp refuses in the same way: only who never had an answer has none.
		if l.o.Refused[c.Number] >= often[c.Number] || entry == "" || slices.Contains(l.entries, entry) {
			continue
		}
		l.entries = append(l.entries, entry)
		if origin, one := only(l.source.Calls[entry]); one {
			l.add(origin.Symbol, false, Reason{byCall, fmt.Sprintf("%s called %s", someOf(by), entry), rule(origin)})
		}
	}
	slices.Sort(l.entries)
}

// only is the origin that decides, where all have one symbol.
func only(origins []kbuild.Origin) (kbuild.Origin, bool) {
	if len(origins) == 0 || slices.ContainsFunc(origins, func(o kbuild.Origin) bool {
		return !o.Known || o.Symbol == "" || o.Symbol != origins[0].Symbol
	}) {
		return kbuild.Origin{}, false
	}
	return origins[0], true
}

func (l *learner) fromFileSystems() {
	for name, by := range byName(l.o.Mounts) {
		if name == "bind" || name == "none" { // words for a type where mount(2) takes none
			continue
		}
		origin, one := only(l.source.FileSystems[name])
		if !one {
			if len(l.source.FileSystems[name]) == 0 {
				l.unknown = append(l.unknown, fmt.Sprintf("the file system %s, which the source does not define", name))
			}
			continue
		}
		l.add(origin.Symbol, false, Reason{byFileSystem, fmt.Sprintf("%s mounted %s", someOf(by), name), rule(origin)})
	}
}

func (l *learner) fromSockets() {
	for _, s := range l.o.Sockets {
		asked := []protocol{families[s.Family]}
		if s.Family == netlinkFamily {
			asked = append(asked, netlinks[s.Protocol])
		}
		for _, p := range asked {
			if p.symbol != "" { // programs try families that they can do without
				l.add(p.symbol, true, Reason{bySocket, fmt.Sprintf("%s asked for a socket of %s", s.By, p.name), "CONFIG_" + p.symbol + " has such sockets"})
			}
		}
	}
}

func (l *learner) fromNamespaces() {
	for name, by := range byName(l.o.Namespaces) {
		for _, s := range spaces {
			if s.name == name {
				l.add(s.symbol, false, Reason{byNamespace, fmt.Sprintf("%s made a namespace by %s", someOf(by), name), "init/Kconfig: CONFIG_" + s.symbol})
			}
		}
	}
}

// fromDevices are devices whose opening loads a module.
func (l *learner) fromDevices() {
	for name, by := range byName(l.o.Opened) {
		for _, d := range l.o.DevNames {
			if name != "/dev/"+d.Name {
				continue
			}
			for _, m := range slices.Concat(l.o.Modules, l.o.Present) {
				if origin := l.source.Objects[m.Object]; m.Name == d.Module && origin.Symbol != "" {
					l.add(origin.Symbol, false, Reason{byDevice, fmt.Sprintf("%s opened %s", someOf(by), name), "modules.devname: the module " + d.Module})
				}
			}
		}
	}
}

// ours are the objects that tracing itself reaches.
const ours = "kernel/trace/"

// fromFunctions are what the command was the first to reach of the built-in code and of
// modules that were there before.
func (l *learner) fromFunctions() {
	objects := map[string]string{}
	for _, m := range l.o.Present {
		objects[m.Name] = m.Object
	}
	reached := map[kbuild.Origin][]string{}
	for _, f := range l.o.Functions {
		origins := l.source.Functions[plain(f.Name)]
		if f.Module != "" {
			origins = []kbuild.Origin{l.source.Objects[objects[f.Module]]}
		}
		if origin, one := only(origins); one && !strings.HasPrefix(origin.Object, ours) {
			reached[origin] = append(reached[origin], f.Name)
		}
	}
	for origin, names := range reached {
		l.add(origin.Symbol, true, Reason{byFunctions, fmt.Sprintf("it was the first to reach %d functions of %s: %s", len(names), origin.Object, someOf(names)), rule(origin)})
	}
}

func (l *learner) proposal(base []kconfig.Want) Proposal {
	p := Proposal{Unknown: l.unknown, Entries: l.entries}
	slices.Sort(p.Unknown)
	for _, s := range l.found {
		for _, w := range base {
			// One that a need calls optional was called so by somebody who knows the program.
			if w.Value != "n" && (w.Symbol == s.Symbol || slices.Contains(w.Or, s.Symbol)) {
				s.Need = w.Need
				break
			}
		}
		slices.SortFunc(s.Reasons, func(a, b Reason) int { return cmp.Or(strings.Compare(a.Kind, b.Kind), strings.Compare(a.Seen, b.Seen)) })
		p.Symbols = append(p.Symbols, *s)
	}
	slices.SortFunc(p.Symbols, func(a, b Symbol) int {
		return cmp.Or(falseFirst(a.Need != "", b.Need != ""), falseFirst(a.Optional, b.Optional), strings.Compare(a.Symbol, b.Symbol))
	})
	return p
}

func falseFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// byName are the users of each name.
func byName(all []Use) map[string][]string {
	out := map[string][]string{}
	for _, u := range all {
		if !slices.Contains(out[u.Name], u.By) {
			out[u.Name] = append(out[u.Name], u.By)
		}
	}
	return out
}

// someOf names the first of many.
func someOf(names []string) string {
	const most = 3
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}
