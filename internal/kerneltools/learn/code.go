package learn

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// symbolTable are the functions of a kernel and its modules, by address.
type symbolTable []symbol

type symbol struct {
	at   uint64
	weak bool
	Function
}

// parseSymbols reads lines of /proc/kallsyms. Lines of another form are left out.
func parseSymbols(lines []string) symbolTable {
	var all symbolTable
	for _, line := range lines {
		f := strings.Fields(line)
		if len(f) < 3 || len(f[2]) > 256 {
			continue
		}
		at, err := strconv.ParseUint(f[0], 16, 64)
		if err != nil || at == 0 {
			continue
		}
		s := symbol{at: at, weak: f[1] == "W" || f[1] == "w", Function: Function{Name: printable(f[2])}}
		if len(f) > 3 {
			s.Module = printable(strings.Trim(f[3], "[]"))
		}
		all = append(all, s)
	}
	slices.SortStableFunc(all, func(a, b symbol) int { return cmp.Compare(a.at, b.at) })
	return all
}

// find is the function at an address.
func (t symbolTable) find(at uint64) (Function, bool) {
	i, exact := slices.BinarySearchFunc(t, at, func(s symbol, at uint64) int { return cmp.Compare(s.at, at) })
	if !exact {
		i--
	}
	const longest = 64 << 10 // of a function; what lies behind the last one is none of it
	if i < 0 || at-t[i].at > longest {
		return Function{}, false
	}
	return t[i].Function, true
}

// callEntry begins the name of the entry of each system call of x86-64 and arm64.
var callEntry = regexp.MustCompile(`^__(?:x64|arm64)_sys_`)

// syscalls are the entries of the system calls that the kernel has, sorted: of those
// that it has not the name is weak.
func (t symbolTable) syscalls() (names []string) {
	for _, s := range t {
		if n := callEntry.ReplaceAllString(s.Name, ""); n != s.Name && !s.weak && s.Module == "" && n != "ni_syscall" {
			names = append(names, n)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Syscalls are those of a kernel by its System.map.
func Syscalls(systemMap []byte) []string {
	return parseSymbols(strings.Split(string(systemMap), "\n")).syscalls()
}

// The functions that the marks of Script are made by: the command's begin and its end.
const (
	beginMark = "tracing_mark_write"
	endMark   = "tracing_mark_raw_write"
)

// Code keeps the functions that the command was the first to reach, by the blocks of
// code in the order of their first runs. The trace must have been parsed.
func (o *Observed) Code(blocks []uint64) {
	before, during := map[Function]bool{}, map[Function]bool{}
	in := before
	for _, at := range blocks {
		f, found := o.symbols.find(at)
		switch {
		case !found:
			continue
		case f.Name == beginMark:
			in = during
			continue
		case f.Name == endMark && len(during) > 0:
			in = map[Function]bool{} // of what comes after
			continue
		}
		in[f] = true
	}
	if len(during) == 0 {
		o.warn("no code of the command's was seen: functions are missing")
	}
	for f := range during {
		if !before[f] {
			o.Functions = append(o.Functions, f)
		}
	}
	slices.SortFunc(o.Functions, func(a, b Function) int {
		return cmp.Or(strings.Compare(a.Module, b.Module), strings.Compare(a.Name, b.Name))
	})
}
