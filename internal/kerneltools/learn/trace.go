package learn

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/tarelab/tare/internal/kerneltools/kconfig"
	"github.com/tarelab/tare/internal/limit"
)

// A FailedError says that a command could not be run, or that the guest did not say how
// it went.
type FailedError struct{ Why string }

func (e *FailedError) Error() string { return e.Why }

// mostUses bounds each list of an Observed; more are left out with a warning.
const mostUses = 4096

// Parse reads what Script printed.
func Parse(text []byte) (*Observed, error) {
	if err := limit.ErrandText.CheckBytes(int64(len(text))); err != nil {
		return nil, err
	}
	if err := limit.ErrandText.CheckItems(bytes.Count(text, []byte("\n"))); err != nil {
		return nil, err
	}
	parts := sections(text)
	if why, failed := parts["failed"]; failed {
		return nil, &FailedError{"the machine: " + printable(strings.Join(why, " "))}
	}
	if _, whole := parts["end"]; !whole {
		return nil, &FailedError{"the machine did not say how the command went; its last words: " + lastWords(text)}
	}
	said := parts["said"]
	said = said[max(0, len(said)-mostSaid):]
	o := &Observed{Release: printable(strings.Join(parts["release"], " ")), Said: strings.TrimRight(strings.Join(mapped(said, printable), "\n"), "\n")}
	var err error
	if o.Exit, err = strconv.Atoi(strings.Join(parts["exit"], " ")); err != nil {
		return nil, &FailedError{fmt.Sprintf("the machine says that the command ended with %.20q", strings.Join(parts["exit"], " "))}
	}
	o.times(parts["times"])
	for _, lack := range parts["lacks"] {
		o.warn("the kernel cannot be traced by %s: what it would show is missing", printable(lack))
	}
	if lost := parts["lost"]; len(lost) > 0 {
		o.warn("the trace is not whole (%s): mounts, opened devices and who asked for modules may be missing", printable(strings.Join(lost, ", ")))
	}
	o.trace(parts["trace"])
	o.Modules, o.Present = o.modules(parts["modules"]), o.modules(parts["present"])
	o.histograms(parts)
	if len(o.Opened) == 0 && len(o.Calls) > 0 { // the command's own standard input is /dev/null
		o.warn("the kernel showed no path that was opened, as some of 6.1 do not: file systems and devices may be missing")
	}
	o.initcalls(parts["initcalls"])
	for _, line := range parts["devnames"] {
		if f := strings.Fields(line); len(f) >= 2 && isName(f[0]) {
			o.DevNames = append(o.DevNames, DevName{f[0], printable(f[1])})
		}
	}
	if o.Config, err = kconfig.Parse(strings.NewReader(strings.Join(parts["config"], "\n"))); err != nil {
		o.warn("the kernel's configuration is not in /boot, /proc or /lib/modules: %v", err)
	}
	o.symbols = parseSymbols(parts["functions"])
	o.Syscalls = o.symbols.syscalls()
	o.bound()
	return o, nil
}

// lastWords is the end of a text, for an error.
func lastWords(text []byte) string {
	return cmp.Or(printable(strings.TrimSpace(string(text[max(0, len(text)-mostText):]))), "none")
}

// sections are the lines after each "@@ NAME". One that comes twice is the first.
func sections(text []byte) map[string][]string {
	parts := map[string][]string{}
	name, skip := "", false
	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(line, "\r\n")
		if title, ok := strings.CutPrefix(line, "@@ "); ok {
			name = title
			_, skip = parts[name]
			if !skip {
				parts[name] = []string{}
			}
			continue
		}
		if name != "" && !skip {
			parts[name] = append(parts[name], line)
		}
	}
	return parts
}

// The bounds of what a guest says that is shown on a terminal.
const (
	mostSaid     = 1000 // lines
	mostWarnings = 100
)

func (o *Observed) warn(format string, args ...any) {
	if len(o.Warnings) == mostWarnings {
		return
	}
	o.Warnings = append(o.Warnings, fmt.Sprintf(format, args...))
}

func (o *Observed) times(lines []string) {
	const most = 1e9 // seconds
	var up, began, ended float64
	said := strings.Join(lines, " ")
	_, err := fmt.Sscan(said, &up, &began, &ended)
	if sound := up >= 0 && up < most && began >= 0 && ended >= began && ended < most; err != nil || !sound { // NaN is not sound
		o.warn("%.40q are not the guest's times", said)
		return
	}
	o.Up, o.Seconds = up, math.Round((ended-began)*100)/100
}

// bound cuts lists that are too long to be a command's.
func (o *Observed) bound() {
	cut := func(what string, n int) int {
		if n > mostUses {
			o.warn("of %d %s only %d are kept", n, what, mostUses)
		}
		return min(n, mostUses)
	}
	o.Modules = o.Modules[:cut("modules", len(o.Modules))]
	o.Present = o.Present[:cut("modules", len(o.Present))]
	o.Requests = o.Requests[:cut("requests for modules", len(o.Requests))]
	o.Calls = o.Calls[:cut("system calls", len(o.Calls))]
	o.Sockets = o.Sockets[:cut("sockets", len(o.Sockets))]
	o.Mounts = o.Mounts[:cut("mounts", len(o.Mounts))]
	o.Opened = o.Opened[:cut("opened files", len(o.Opened))]
	o.Namespaces = o.Namespaces[:cut("namespaces", len(o.Namespaces))]
	o.Initcalls = o.Initcalls[:cut("initcalls", len(o.Initcalls))]
	o.DevNames = o.DevNames[:cut("device names", len(o.DevNames))]
}

var (
	event      = regexp.MustCompile(`^\s*(.{1,16})-(\d+)\s+\[\d+\]\s+\S+\s+[\d.]+: (\w+): (.*)$`)
	probeField = regexp.MustCompile(`\b(?:file|type)="((?:[^"\\]|\\.)*)"`)
	cloneField = regexp.MustCompile(`\bflags=(0x[0-9a-f]{1,16})\b`)
	name       = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)
	digits     = regexp.MustCompile(`/\d+\b`)
)

func isName(s string) bool { return name.MatchString(s) }

// trace reads events.
func (o *Observed) trace(lines []string) {
	mounts, opened, spaces := uses{}, uses{}, uses{}
	seen := map[Request]bool{}
	for _, line := range lines {
		m := event.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		by, rest := printable(strings.TrimSpace(m[1])), m[4]
		switch m[3] {
		case "module_load":
			if f := strings.Fields(rest); len(f) > 0 && isName(f[0]) {
				o.Modules = append(o.Modules, Module{Name: f[0], By: by})
			}
		case "module_request":
			if f := strings.Fields(rest); len(f) > 0 {
				if r := (Request{printable(f[0]), by}); !seen[r] {
					seen[r] = true
					o.Requests = append(o.Requests, r)
				}
			}
		case "mount", "fsopen":
			if f := probeField.FindStringSubmatch(rest); f != nil && isName(f[1]) {
				if kind, _, _ := strings.Cut(f[1], "."); kind != "" { // as get_fs_type does: fuse.bindfs is fuse
					mounts.add(kind, by, 1)
				}
			}
		case "open":
			if f := probeField.FindStringSubmatch(rest); f != nil {
				opened.add(digits.ReplaceAllString(printable(path.Clean(f[1])), "/N"), by, 1)
			}
		case "clone3":
			if f := cloneField.FindStringSubmatch(rest); f != nil {
				spaces.flags(f[1], by, 1)
			}
		}
	}
	o.Mounts, o.Opened, o.Namespaces = mounts.sorted(), opened.sorted(), spaces.sorted()
}

// uses are names with who used them.
type uses map[[2]string]int

func (u uses) add(name, by string, n int) { u[[2]string{name, by}] += n }

// flags adds the namespaces among clone's flags.
func (u uses) flags(hex, by string, n int) {
	flags, err := strconv.ParseUint(strings.TrimPrefix(hex, "0x"), 16, 64)
	if err != nil {
		return
	}
	for _, s := range spaces {
		if flags&s.flag != 0 {
			u.add(s.name, by, n)
		}
	}
}

func (u uses) sorted() (all []Use) {
	for key, n := range u {
		all = append(all, Use{key[0], key[1], n})
	}
	slices.SortFunc(all, func(a, b Use) int { return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.By, b.By)) })
	return all
}

// modules are what modinfo says of them, with who was seen to load each.
func (o *Observed) modules(lines []string) (all []Module) {
	known := map[string]*Module{}
	asked := map[string]bool{}
	for _, r := range o.Requests {
		asked[r.Alias] = true
	}
	by := map[string]string{}
	for _, m := range o.Modules {
		by[m.Name] = m.By
	}
	var at *Module
	for _, line := range lines {
		key, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		switch {
		case key == "name" && isName(value):
			at = &Module{Name: value, By: by[value]}
			if known[value] == nil && len(known) < mostUses {
				known[value] = at
			}
		case at == nil:
		case key == "filename":
			at.Object = objectOf(value)
		case key == "alias" && asked[value], key == "name" && asked[value]:
			at.Aliases = append(at.Aliases, value)
		case key == "depends":
			at.Depends = slices.DeleteFunc(strings.Split(value, ","), func(s string) bool { return !isName(s) })
		}
	}
	for _, name := range slices.Sorted(maps.Keys(known)) {
		m := *known[name]
		if asked[m.Name] {
			m.Aliases = append(m.Aliases, m.Name)
		}
		all = append(all, m)
	}
	return all
}

// moduleFile is a module's below the kernel's directory of modules.
var moduleFile = regexp.MustCompile(`/lib/modules/[^/]+/kernel/([\w/.+-]+)\.ko(?:\.(?:xz|gz|zst))?$`)

// objectOf is the object of a module's file; "" for a path of another form.
func objectOf(file string) string {
	m := moduleFile.FindStringSubmatch(file)
	if m == nil || strings.Contains(m[1], "..") {
		return ""
	}
	return m[1] + ".o"
}

var (
	bucket    = regexp.MustCompile(`^\{ (.*) \} hitcount:\s+(\d+)$`)
	byProcess = regexp.MustCompile(`common_pid: (.{1,16}?)\s*\[\s*\d+\]\s*$`)
	numeric   = regexp.MustCompile(`(\w+):\s+([0-9a-f]+)\b`)
)

// histograms reads what was counted in the kernel.
func (o *Observed) histograms(parts map[string][]string) {
	calls, spaces := map[[2]string]int{}, uses{}
	for _, o := range o.Namespaces {
		spaces.add(o.Name, o.By, o.Count)
	}
	sockets, refused := map[Socket]bool{}, map[int]int{}
	for title, lines := range parts {
		what, is := strings.CutPrefix(title, "hist ")
		if !is {
			continue
		}
		for _, line := range lines {
			if strings.Contains(line, "Dropped") {
				o.warn("the kernel counted not all of %s: %s", printable(what), printable(line))
				continue
			}
			fields, by, n := bucketOf(line)
			number, err := strconv.Atoi(fields["id"])
			switch what {
			case "sys_enter":
				if err == nil {
					calls[[2]string{fields["id"], by}] += n
				}
			case "sys_exit":
				if err == nil {
					refused[number] += n
				}
			case "sys_enter_socket":
				family, ferr := strconv.Atoi(fields["family"])
				protocol, perr := strconv.Atoi(fields["protocol"])
				if errors.Join(ferr, perr) == nil {
					sockets[Socket{family, protocol, by}] = true
				}
			case "sys_enter_clone":
				spaces.flags(fields["clone_flags"], by, n)
			case "sys_enter_unshare":
				spaces.flags(fields["unshare_flags"], by, n)
			}
		}
	}
	for key, n := range calls {
		number, _ := strconv.Atoi(key[0]) // it was one above
		o.Calls = append(o.Calls, Call{number, key[1], n})
	}
	if len(refused) > 0 {
		o.Refused = refused
	}
	slices.SortFunc(o.Calls, func(a, b Call) int { return cmp.Or(cmp.Compare(a.Number, b.Number), strings.Compare(a.By, b.By)) })
	o.Sockets = slices.SortedFunc(maps.Keys(sockets), func(a, b Socket) int {
		return cmp.Or(cmp.Compare(a.Family, b.Family), cmp.Compare(a.Protocol, b.Protocol), strings.Compare(a.By, b.By))
	})
	o.Namespaces = spaces.sorted()
}

// bucketOf reads one line of a histogram.
func bucketOf(line string) (fields map[string]string, by string, n int) {
	fields = map[string]string{}
	m := bucket.FindStringSubmatch(line)
	if m == nil {
		return fields, "", 0
	}
	n, _ = strconv.Atoi(m[2]) // more than an int: it was used all the same
	keys := m[1]
	if p := byProcess.FindStringSubmatchIndex(keys); p != nil {
		by = printable(keys[p[2]:p[3]])
		keys = keys[:p[0]]
	}
	for _, f := range numeric.FindAllStringSubmatch(keys, -1) {
		fields[f[1]] = f[2]
	}
	return fields, by, max(n, 1)
}

var initcall = regexp.MustCompile(`initcall (\w{1,128})\+0x[0-9a-f]+/0x[0-9a-f]+ \[(\w{1,64})\] returned (-?\d+) after (\d{1,12}) usecs`)

func (o *Observed) initcalls(lines []string) {
	for _, line := range lines {
		if m := initcall.FindStringSubmatch(line); m != nil {
			micros, _ := strconv.Atoi(m[4]) // at most twelve digits
			o.Initcalls = append(o.Initcalls, Initcall{m[1], m[2], micros})
		}
	}
}

// mostText bounds a text that a guest said, before it is shown.
const mostText = 200

// printable is a guest's text as it may be shown on a terminal and put into YAML.
func printable(s string) string {
	s = strings.Map(visible, s)
	return s[:min(len(s), mostText)]
}

func visible(r rune) rune {
	if r < ' ' || r > '~' {
		return '?'
	}
	return r
}

func mapped(lines []string, f func(string) string) []string {
	out := make([]string, len(lines))
	for i, l := range lines {
		out[i] = f(l)
	}
	return out
}
