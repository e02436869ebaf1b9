package kbuild

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Names are what Define looks for.
type Names struct {
	Functions   []string // such as vxlan_open
	Calls       []string // system calls by their entry, without sys_: newstat
	FileSystems []string // types, as mount(2) has them
}

// Definitions are where a tree defines them: a name that is defined more than once has
// several origins.
type Definitions struct {
	Functions   map[string][]Origin `json:"functions,omitempty"`
	Calls       map[string][]Origin `json:"calls,omitempty"`
	FileSystems map[string][]Origin `json:"file_systems,omitempty"`
}

// fileSystemType is the name in a struct file_system_type.
var fileSystemType = regexp.MustCompile(`(?s)struct file_system_type \w+ = \{[^}]*?\.name\s*=\s*"(\w+)"`)

// Define looks in all of the tree's code for definitions. Of one inside of #ifdef
// CONFIG_X, X is the symbol.
func (t *Tree) Define(ctx context.Context, names Names) (Definitions, error) {
	wanted := map[kind]map[string]bool{aFunction: set(names.Functions), aCall: set(names.Calls), aFileSystem: set(names.FileSystems)}
	found, err := t.search(ctx, func(text []byte) []definition {
		return slices.DeleteFunc(definitions(text), func(d definition) bool { return !wanted[d.kind][d.name] })
	})
	return Definitions{found[aFunction], found[aCall], found[aFileSystem]}, err
}

func set(names []string) map[string]bool {
	all := map[string]bool{}
	for _, n := range names {
		all[n] = true
	}
	return all
}

type kind int

const (
	aFunction kind = iota
	aCall
	aFileSystem
	anInitcall
)

// definition is one of a file's.
type definition struct {
	kind   kind
	name   string
	inside string // the symbol of the #ifdef around it; "" for none
	file   string
}

func (t *Tree) originOf(d definition) Origin {
	o := Origin{Object: strings.TrimSuffix(d.file, filepath.Ext(d.file)) + ".o"}
	o.Symbol, o.Known = t.Symbol(o.Object)
	if d.inside != "" {
		o.Symbol, o.Known = d.inside, true
	}
	return o
}

// mostLines is how far a definition's { may be from its name.
const mostLines = 12

// definitions are those of a C file in the kernel's style: they begin at a line's
// begin, and all else there is no call.
func definitions(text []byte) (all []definition) {
	lines := bytes.Split(text, []byte("\n"))
	var inside []string
	for i, line := range lines {
		if len(line) == 0 {
			continue
		}
		if line[0] == '#' {
			inside = preprocessed(inside, string(line))
			continue
		}
		name, argument := named(line)
		if name == "" {
			continue
		}
		d := definition{kind: aFunction, name: name, inside: innermost(inside)}
		if strings.HasPrefix(name, "SYSCALL_DEFINE") {
			d.kind, d.name = aCall, argument
		} else if !begins(lines[i:min(len(lines), i+mostLines)]) {
			continue
		}
		all = append(all, d)
	}
	if bytes.Contains(text, []byte("struct file_system_type")) {
		for _, m := range fileSystemType.FindAllSubmatch(text, -1) {
			all = append(all, definition{kind: aFileSystem, name: string(m[1])})
		}
	}
	return all
}

// named is the word before a line's first parenthesis, and the one after it; "" for a
// line that begins no definition.
func named(line []byte) (name, argument string) {
	open := bytes.IndexByte(line, '(')
	if open <= 0 || !isWord(line[0]) || bytes.IndexByte(line[:open], '=') >= 0 {
		return "", ""
	}
	end := open
	for end > 0 && line[end-1] == ' ' {
		end--
	}
	begin := end
	for begin > 0 && isWord(line[begin-1]) {
		begin--
	}
	rest := line[open+1:]
	n := 0
	for n < len(rest) && isWord(rest[n]) {
		n++
	}
	return string(line[begin:end]), string(rest[:n])
}

func isWord(c byte) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

// begins reports whether a body comes before a semicolon, which a declaration lacks.
func begins(lines [][]byte) bool {
	for _, line := range lines {
		if i := bytes.IndexAny(line, "{;"); i >= 0 {
			return line[i] == '{'
		}
	}
	return false
}

// preprocessed is the stack of conditions after a line of the preprocessor: of each the
// symbol that must be set, "" where there is none.
func preprocessed(inside []string, line string) []string {
	word := strings.TrimSpace(strings.TrimPrefix(line, "#"))
	switch {
	case strings.HasPrefix(word, "if"):
		return append(inside, conditionOf(word))
	case strings.HasPrefix(word, "else"), strings.HasPrefix(word, "elif"):
		if len(inside) > 0 {
			inside[len(inside)-1] = ""
			if strings.HasPrefix(word, "elif") {
				inside[len(inside)-1] = conditionOf(word)
			}
		}
	case strings.HasPrefix(word, "endif"):
		if len(inside) > 0 {
			return inside[:len(inside)-1]
		}
	}
	return inside
}

// conditionOf is the one symbol that a condition asks for to be set.
func conditionOf(word string) string {
	if strings.HasPrefix(word, "ifndef") || strings.ContainsAny(word, "!|") {
		return ""
	}
	if m := inBraces.FindAllStringSubmatch(word, -1); len(m) == 1 {
		return strings.TrimSuffix(m[0][1], "_MODULE")
	}
	return ""
}

func innermost(inside []string) string {
	for _, symbol := range slices.Backward(inside) {
		if symbol != "" {
			return symbol
		}
	}
	return ""
}

// Origin is where an object is decided on.
func (t *Tree) Origin(object string) Origin {
	o := Origin{Object: object}
	o.Symbol, o.Known = t.Symbol(object)
	return o
}

// callTables are where kernels have their table of system calls, by architecture, the
// newest kernels' first: arm64's was C until 6.11.
var callTables = map[string][]string{
	"x86":   {"arch/x86/entry/syscalls/syscall_64.tbl"},
	"arm64": {"arch/arm64/tools/syscall_64.tbl", "scripts/syscall.tbl", "include/uapi/asm-generic/unistd.h"},
}

// narrow are the ABIs in such a table that a kernel of 64 bits serves for others alone.
var narrow = map[string]bool{"x32": true, "32": true, "time32": true, "stat64": true}

// SystemCalls are the entries of the system calls of 64 bits, without sys_, by number.
func (t *Tree) SystemCalls() (map[int]string, error) {
	files := callTables[t.arch]
	if files == nil {
		return nil, fmt.Errorf("the system calls of %s are not known: those of %s are", t.arch, strings.Join(slices.Sorted(maps.Keys(callTables)), " and "))
	}
	var errs []error
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join(t.dir, file))
		if errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("the kernel's table of system calls: %w", err)
		}
		if strings.HasSuffix(file, ".h") {
			return headerCalls(string(text)), nil
		}
		return tableCalls(string(text)), nil
	}
	return nil, fmt.Errorf("the kernel's table of system calls: %w", errors.Join(errs...))
}

// tableCalls reads lines of NUMBER ABI NAME ENTRY.
func tableCalls(text string) map[int]string {
	all := map[int]string{}
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 4 || narrow[f[1]] {
			continue
		}
		entry, ok := strings.CutPrefix(f[3], "sys_")
		if number, err := strconv.Atoi(f[0]); err == nil && ok {
			all[number] = entry
		}
	}
	return all
}

var (
	callNumber = regexp.MustCompile(`(?m)^#define (__NR\w*) (\d+)$`)
	callEntry  = regexp.MustCompile(`(?m)^(__SYSCALL|__SC_COMP|__SC_3264|__SC_COMP_3264)\((__NR\w*),([^)]*)\)`)
)

// headerCalls reads include/uapi/asm-generic/unistd.h. What it has for 32 bits alone is
// by names of numbers that nothing of 64 bits has (__NR3264_ is of both).
func headerCalls(text string) map[int]string {
	text = strings.ReplaceAll(text, "\\\n", " ")
	numbers := map[string]int{}
	for _, m := range callNumber.FindAllStringSubmatch(text, -1) {
		numbers[m[1]], _ = strconv.Atoi(m[2]) // digits, few of them
	}
	all := map[int]string{}
	for _, m := range callEntry.FindAllStringSubmatch(text, -1) {
		entries := strings.Split(m[3], ",")
		entry := entries[0]
		if strings.HasSuffix(m[1], "_3264") && len(entries) > 1 {
			entry = entries[1] // the first is for 32 bits
		}
		number, known := numbers[m[2]]
		entry, ok := strings.CutPrefix(strings.TrimSpace(entry), "sys_")
		if known && ok && !strings.Contains(m[2], "time64") {
			all[number] = entry
		}
	}
	return all
}
