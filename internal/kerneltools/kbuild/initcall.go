package kbuild

import (
	"bytes"
	"context"
	"regexp"
	"strings"
	"unicode"
)

// An Origin is where a definition's code is.
type Origin struct {
	Object string // below the tree's root, such as drivers/rtc/class.o
	Symbol string // see Tree.Symbol
	Known  bool   // false: no Makefile names the object
}

// security modules are declared by DEFINE_LSM(name) = { .init = f }.
var lsm = regexp.MustCompile(`(?s)DEFINE_LSM\(\w+\)\s*=\s*\{[^}]*\.init\s*=\s*(\w+)`)

// declares is the initcall that a line such as subsys_initcall(f) declares,
// empty for any other line. module_pci_driver(d) and its like make d_init. A
// tree has a gigabyte of lines: this is no regular expression for that reason.
func declares(line []byte) string {
	open := bytes.IndexByte(line, '(')
	if open <= 0 {
		return ""
	}
	macro := string(bytes.TrimSpace(line[:open]))
	argument := line[open+1:]
	end := bytes.IndexFunc(argument, func(r rune) bool { return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	if end <= 0 {
		return ""
	}
	name := string(argument[:end])
	switch {
	case strings.ContainsAny(macro, " \t#*="):
		return ""
	case strings.HasSuffix(macro, "_initcall"), strings.HasSuffix(macro, "_initcall_sync"), macro == "module_init", macro == "__initcall":
		return name
	case strings.HasSuffix(macro, "driver") && (strings.HasPrefix(macro, "module_") || strings.HasPrefix(macro, "builtin_")),
		strings.HasSuffix(macro, "_driver_probe"):
		return name + "_init"
	}
	return ""
}

// Find looks in all of the tree's code for the initcalls of these names. A name
// that occurs more than once has several origins.
func (t *Tree) Find(ctx context.Context, names []string) (map[string][]Origin, error) {
	wanted := set(names)
	found, err := t.search(ctx, func(text []byte) (all []definition) {
		for line := range bytes.Lines(text) {
			if name := declares(line); name != "" && wanted[name] {
				all = append(all, definition{kind: anInitcall, name: name})
			}
		}
		if !bytes.Contains(text, []byte("DEFINE_LSM")) {
			return all
		}
		for _, m := range lsm.FindAllSubmatch(text, -1) {
			if name := string(m[1]); wanted[name] {
				all = append(all, definition{kind: anInitcall, name: name})
			}
		}
		return all
	})
	return found[anInitcall], err
}
