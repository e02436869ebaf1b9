// Package kbuild reads a kernel tree's Makefiles as far as it takes to say
// which Kconfig symbol decides whether an object is built, and finds the source
// file of an initcall.
package kbuild

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
)

// A Tree is a kernel's source.
type Tree struct {
	dir  string
	arch string // as arch/ has it, such as x86

	mu        sync.Mutex
	makefiles map[string]*makefile // by directory below the root
}

// Open finds a kernel tree. The architecture is the directory below arch/ whose
// code counts, such as x86.
func Open(dir, arch string) (*Tree, error) {
	if real, err := filepath.EvalSymlinks(dir); err == nil { // a walk does not follow a link at its root
		dir = real
	}
	for _, name := range []string{"Makefile", "Kconfig", "init/Makefile"} {
		if _, err := os.Stat(filepath.Join(dir, name)); errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%s is no kernel source tree: it has no %s", dir, name)
		} else if err != nil {
			return nil, fmt.Errorf("kernel source tree: %w", err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "arch", arch)); err != nil {
		return nil, fmt.Errorf("%s has no architecture %q: %w", dir, arch, err)
	}
	return &Tree{dir: dir, arch: arch, makefiles: map[string]*makefile{}}, nil
}

// makefile is what a directory's Makefile says of objects.
type makefile struct {
	goals []goal
}

// A goal is one word of an assignment: object or directory, in list, if symbol.
type goal struct {
	list   string // "obj" for the directory's own, else a composite object's name
	symbol string // without CONFIG_; empty: always
	word   string // such as foo.o or bar/
}

var (
	assignment = regexp.MustCompile(`^\s*([\w./-]+?)-(y|m|objs|\$\(CONFIG_(\w+)\)|\$\(subst m,y,\$\(CONFIG_(\w+)\)\))\s*[:+?]?=\s*(.*)$`)
	conditions = regexp.MustCompile(`^\s*(?:else\s+)?(ifdef|ifndef|ifeq|ifneq)\b(.*)$`)
	inBraces   = regexp.MustCompile(`CONFIG_(\w+)`)
)

// lists of the top Makefile and of arch/*/Makefile that mean what obj- means.
var objectLists = map[string]bool{"obj": true, "core": true, "drivers": true, "net": true, "libs": true, "lib": true, "virt": true}

// parse reads a Makefile's assignments to lists of objects. What is neither
// that nor a condition on a Kconfig symbol is left alone.
func parse(text string) *makefile {
	m := &makefile{}
	var inside []string // symbols of the conditions around a line, innermost last
	text = strings.ReplaceAll(text, "\\\n", " ")
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		line = strings.TrimRight(line, "\r\n \t")
		trimmed := strings.TrimSpace(line)
		switch {
		case conditions.MatchString(trimmed) && !strings.HasPrefix(trimmed, "else"):
			inside = append(inside, conditionSymbol(trimmed))
			continue
		case strings.HasPrefix(trimmed, "else"):
			if len(inside) > 0 {
				inside[len(inside)-1] = conditionSymbol(trimmed)
			}
			continue
		case trimmed == "endif":
			if len(inside) > 0 {
				inside = inside[:len(inside)-1]
			}
			continue
		}
		a := assignment.FindStringSubmatch(line)
		if a == nil {
			continue
		}
		symbol := a[3] + a[4]
		for i := len(inside) - 1; i >= 0 && symbol == ""; i-- {
			symbol = inside[i]
		}
		list := a[1]
		if objectLists[list] {
			list = "obj"
		}
		for word := range strings.FieldsSeq(a[5]) {
			m.goals = append(m.goals, goal{list, symbol, word})
		}
	}
	return m
}

// conditionSymbol is the Kconfig symbol that a condition asks for to be set.
func conditionSymbol(line string) string {
	if strings.Contains(line, "ifndef") || strings.Contains(line, "ifneq") && !strings.Contains(line, ",)") {
		return ""
	}
	if m := inBraces.FindStringSubmatch(line); m != nil {
		return m[1]
	}
	return ""
}

// of is what a directory's Makefile says, nothing where there is none. Kbuild
// goes before Makefile; the tree's root and that of an architecture have both,
// and both count.
func (t *Tree) of(dir string) *makefile {
	t.mu.Lock()
	defer t.mu.Unlock()
	if m, ok := t.makefiles[dir]; ok {
		return m
	}
	m := &makefile{}
	for _, name := range []string{"Kbuild", "Makefile"} {
		if text, err := os.ReadFile(filepath.Join(t.dir, dir, name)); err == nil {
			m.goals = append(m.goals, parse(string(text)).goals...)
			if dir != "." && dir != filepath.Join("arch", t.arch) {
				break
			}
		}
	}
	t.makefiles[dir] = m
	return m
}

// Symbol is the nearest Kconfig symbol, without CONFIG_, that decides whether
// an object such as drivers/rtc/class.o is built: its own, else that of the
// composite object which it is part of, else that of its directory. It is empty
// for an object that is always built; found is false for one that no Makefile
// names.
func (t *Tree) Symbol(object string) (symbol string, found bool) {
	dir, word := filepath.Split(filepath.Clean(object))
	return t.symbol(filepath.Clean(dir), word, 0)
}

// mostDepth bounds composites within composites.
const mostDepth = 8

func (t *Tree) symbol(dir, word string, depth int) (string, bool) {
	if depth > mostDepth {
		return "", false
	}
	best, found := "", false
	for _, g := range t.of(dir).goals {
		if g.word != word {
			continue
		}
		symbol, ok := g.symbol, true
		if symbol == "" && g.list == "obj" {
			symbol, ok = t.directory(dir, depth+1)
		} else if symbol == "" {
			symbol, ok = t.symbol(dir, g.list+".o", depth+1)
		}
		if ok && (!found || best == "") {
			best, found = symbol, true
		}
	}
	return best, found
}

// directory is the symbol that decides whether a directory is entered.
func (t *Tree) directory(dir string, depth int) (string, bool) {
	if dir == "." || dir == "" || dir == filepath.Join("arch", t.arch) {
		return "", true
	}
	rest := ""
	for parent := dir; ; {
		rest = filepath.Join(filepath.Base(parent), rest)
		parent = filepath.Dir(parent)
		if symbol, ok := t.symbol(parent, rest+"/", depth+1); ok {
			return symbol, true
		}
		if parent == "." {
			// The top Makefile names some directories with their whole path, and
			// an architecture's names its own so.
			if symbol, ok := t.symbol(filepath.Join("arch", t.arch), dir+"/", depth+1); ok {
				return symbol, true
			}
			return "", false
		}
	}
}
