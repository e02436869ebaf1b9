package store

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/study"
)

// Share takes what identifies machines out of runs, as they are read from here on: ids,
// host names and addresses, the kernel's command line, which may have addresses, and
// directories. Machines are numbered; a target that is named by its program's path keeps
// the path's last part, with a number where two programs have the same. The files of the
// runs stay as they are.
func Share(runs ...*Run) error {
	numbers, programs := map[string]string{}, &programNames{}
	for _, r := range runs {
		host := r.manifest.Host.Hostname
		if numbers[host] == "" {
			numbers[host] = fmt.Sprintf("machine %d", len(numbers)+1)
		}
		if err := r.share(numbers[host], programs); err != nil {
			return fmt.Errorf("run %s: %w", r.manifest.ID, err)
		}
	}
	return nil
}

const otherMachine = "the other machine"

func (r *Run) share(name string, programs *programNames) error {
	before := r.manifest
	h := newHiding(before, name, programs)
	shown, err := h.manifest(before)
	if err != nil {
		return err
	}
	host := &shown.Host
	host.Hostname, host.Machine, host.BootID, host.CommandLine, shown.Dir = name, "", "", "", ""
	if p := shown.Peer; p != nil {
		p.Here, p.There = "", ""
		p.Host.Hostname, p.Host.Machine, p.Host.BootID, p.Host.CommandLine = otherMachine+" of "+name, "", "", ""
	}
	r.manifest, r.hiding = shown, h
	return nil
}

// hiding is what a run's texts are shown without.
type hiding struct {
	known    knownPaths
	programs map[string]string // by path, what names the program in place of it
	// addresses are of machines. names are their host names, which are looked for only in
	// texts that no program reads: one may be a word such as "kvm".
	addresses, names []machineWords
	peer             string            // where the user said that the other machine is
	cells            map[string]string // as they are shown, by their id on the disk
	targets          map[string]string // as they are on the disk, by their name as shown
}

// machineWords are names of a machine, and what stands for them.
type machineWords struct {
	of    *regexp.Regexp
	shown string
}

func newHiding(m Manifest, name string, programs *programNames) *hiding {
	h := &hiding{programs: map[string]string{}, peer: peerOf(m.Command), cells: map[string]string{}, targets: map[string]string{}}
	targets := targetsOf(m)
	var known []string
	for _, p := range slices.Concat(lines(targets, programOf), m.Study.Kernels) {
		if filepath.IsAbs(p) && h.programs[p] == "" {
			h.programs[p] = programs.of(p)
			known = append(known, p)
		}
	}
	for _, p := range pathsOf(m) {
		if filepath.IsAbs(p) && strings.ContainsAny(p, pathEnds) { // the others end where they seem to
			known = append(known, p)
		}
	}
	h.known = knownOf(known)
	cells := lines(m.Cells, func(c study.Cell) string { return c.ID })
	h.machines(m, name, strings.Join(cells, " ")+" tare run weigh localhost")
	for _, c := range cells {
		h.cells[c] = h.text(c)
	}
	for _, t := range targets {
		h.targets[h.text(t)] = t
	}
	return h
}

// machines finds the names of both machines. One that is also a word of common is not
// hidden: it would take that word from the report.
func (h *hiding) machines(m Manifest, name, common string) {
	add := func(shown string, names ...string) {
		for _, n := range names {
			if _, err := netip.ParseAddr(n); err == nil {
				h.addresses = append(h.addresses, machineWords{namePattern(n, ""), shown})
				continue
			}
			if len(n) > maxName { // of no machine, and perhaps too long for a pattern
				continue
			}
			label, _, _ := strings.Cut(n, ".")
			if of := namePattern(label, `(?:\.[A-Za-z][\w-]*)*`); label != "" && !of.MatchString(common) {
				h.names = append(h.names, machineWords{of, shown})
			}
		}
	}
	if m.Peer != nil {
		add(otherMachine, m.Peer.There, m.Peer.Host.Hostname)
	}
	add(otherMachine, hostOf(h.peer))
	add(name, m.Host.Hostname)
	if m.Peer != nil {
		add(name, m.Peer.Here)
	}
}

func namePattern(name, domain string) *regexp.Regexp {
	return regexp.MustCompile(`(?:[\w.+-]+@)?\b` + regexp.QuoteMeta(name) + domain + `\b`)
}

// pathEnds are the characters that end a path in a text, next to blanks.
const pathEnds = " \t\r\n\"'`,:"

// pathPattern finds paths, which end at a character of pathEnds. "runc/systemd" is none.
// Addresses of the Web are passed over, and those of ssh are of the other machine.
var pathPattern = regexp.MustCompile("https?://[^\\s\"'`]*|(ssh://[^\\s\"'`]*)" +
	`|(?:^|[^\pL\pN_./~@%*$^})\]-]|\B-[A-Za-z])((?:~|\.\.?)?/[^` + pathEnds + `]*)`)

// knownPaths are paths of a manifest, in ascending order. A foreign one may name thousands,
// each the beginning of the next: a pattern of them all would be too deep.
type knownPaths struct {
	paths  []string
	within []int // of each path, the longest other that it begins with; -1 for none
}

func knownOf(paths []string) knownPaths {
	slices.Sort(paths)
	k := knownPaths{paths: slices.Compact(paths)}
	for i, p := range k.paths {
		before := i - 1
		for before >= 0 && !strings.HasPrefix(p, k.paths[before]) {
			before = k.within[before]
		}
		k.within = append(k.within, before)
	}
	return k
}

// longest is the longest path that a text begins with, "" for none.
func (k knownPaths) longest(text string) string {
	i, found := slices.BinarySearch(k.paths, text)
	if !found {
		i-- // all that the text begins with are this one, or it begins with them, too
	}
	if i < 0 {
		return ""
	}
	same := 0
	for p := k.paths[i]; same < min(len(p), len(text)) && p[same] == text[same]; {
		same++
	}
	for i >= 0 && len(k.paths[i]) > same {
		i = k.within[i]
	}
	if i < 0 {
		return ""
	}
	return k.paths[i]
}

// text is a text without directories and addresses. The same name gives the same words,
// so that what refers to it still does.
func (h *hiding) text(s string) string {
	for _, a := range h.addresses {
		s = a.of.ReplaceAllLiteralString(s, a.shown)
	}
	var out strings.Builder
	for {
		at := pathPattern.FindStringSubmatchIndex(s)
		if at == nil {
			return out.String() + s
		}
		from, to, shown := at[0], at[1], s[at[0]:at[1]] // an address of the Web
		switch {
		case at[2] >= 0:
			shown = otherMachine
		case at[4] >= 0:
			from = at[4]
			shown, to = h.path(s, from)
		}
		out.WriteString(s[:from] + shown)
		s = s[to:] // no path begins here: what comes is a character that ends one
	}
}

// path is how the path is shown that begins in a text there, and where it ends: a known
// one may have characters that end others.
func (h *hiding) path(s string, from int) (shown string, end int) {
	known := h.known.longest(s[from:])
	rest := s[from+len(known):]
	if i := strings.IndexAny(rest, pathEnds); i >= 0 {
		rest = rest[:i]
	}
	end = from + len(known) + len(rest)
	if program := h.programs[known]; program != "" && (rest == "" || strings.ContainsAny(rest[:1], "/@~")) {
		return program + rest, end
	}
	return lastPart(s[from:end]), end
}

// said is text of what people or programs said, which may name machines.
func (h *hiding) said(s string) string {
	s = h.text(s)
	for _, n := range h.names {
		s = n.of.ReplaceAllLiteralString(s, n.shown)
	}
	return s
}

// lastPart is a path without its directories; a home directory, which names its user, is ~.
func lastPart(p string) string {
	dir, base := path.Split(strings.TrimRight(p, "/"))
	switch parent := path.Base(dir); {
	case strings.Trim(dir, "/.~") == "":
		return p
	case parent == "home" || parent == "Users":
		return "~"
	}
	return base
}

// manifest is a copy of a manifest without all that.
func (h *hiding) manifest(m Manifest) (shown Manifest, err error) {
	data, err := json.Marshal(m)
	if err != nil {
		return shown, err
	}
	var all any
	numbers := json.NewDecoder(bytes.NewReader(data))
	numbers.UseNumber() // a seed has more digits than a float
	if err := numbers.Decode(&all); err != nil {
		return shown, err
	}
	if data, err = json.Marshal(h.value(all)); err != nil {
		return shown, err
	}
	if err := json.Unmarshal(data, &shown); err != nil {
		return shown, err
	}
	for i, word := range shown.Command {
		if h.peer != "" {
			word = strings.ReplaceAll(word, h.peer, otherMachine)
		}
		shown.Command[i] = h.said(word)
	}
	shown.ImageSource = h.said(shown.ImageSource)
	for _, texts := range []map[string]string{shown.LeftOut, shown.MissingCounters} {
		for name, why := range texts {
			texts[name] = h.said(why)
		}
	}
	return shown, nil
}

// value is a value of JSON with all its strings passed through text.
func (h *hiding) value(v any) any {
	switch v := v.(type) {
	case string:
		return h.text(v)
	case []any:
		for i := range v {
			v[i] = h.value(v[i])
		}
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, each := range v {
			out[h.text(name)] = h.value(each)
		}
		return out
	}
	return v
}

// record hides it in a record that was just read. A nil hiding hides nothing.
func (h *hiding) record(t *trialLine) {
	if h == nil {
		return
	}
	if shown, ok := h.cells[string(t.cell)]; ok {
		t.cell = []byte(shown)
	}
	if t.full == nil {
		return
	}
	t.full.Cell = string(t.cell)
	for i := range t.full.Warnings {
		t.full.Warnings[i].Text = h.said(t.full.Warnings[i].Text)
	}
	if f := t.full.Failure; f != nil {
		f.Message, f.Stderr = h.said(f.Message), h.said(f.Stderr)
		for i := range f.Each {
			f.Each[i].Message = h.said(f.Each[i].Message)
		}
	}
}

// cell is how a cell is shown whose id is on the disk.
func (h *hiding) cell(id string) string {
	if h != nil && h.cells[id] != "" {
		return h.cells[id]
	}
	return id
}

// target is a target's name on the disk.
func (h *hiding) target(shown string) string {
	if h != nil && h.targets[shown] != "" {
		return h.targets[shown]
	}
	return shown
}

// programNames name programs by the last part of their paths, no two alike.
type programNames struct {
	byPath, byName map[string]string
	last           map[string]int // by the last part of paths: the number of the last name
}

func (p *programNames) of(file string) string {
	if p.byPath == nil {
		p.byPath, p.byName, p.last = map[string]string{}, map[string]string{}, map[string]int{}
	}
	if name, ok := p.byPath[file]; ok {
		return name
	}
	base := path.Base(file)
	name := base
	for p.byName[name] != "" {
		p.last[base] = max(2, p.last[base]+1)
		name = fmt.Sprintf("%s-%d", base, p.last[base])
	}
	p.byPath[file], p.byName[name] = name, file
	return name
}

// targetsOf are all targets that a manifest names, in the report's order as far as it
// has one.
func targetsOf(m Manifest) []string {
	all := lines(m.Cells, func(c study.Cell) string { return c.Target })
	return slices.Concat(all, m.Study.Targets, m.Study.Optional, []string{m.Study.Control},
		slices.Sorted(maps.Keys(m.Targets)), slices.Sorted(maps.Keys(m.LeftOut)))
}

// programOf is the program or kernel in a target's name.
func programOf(target string) string {
	_, program, _ := strings.Cut(target, driver.ProgramSign)
	program, _, _ = strings.Cut(program, study.PathSign)
	return program
}

// pathsOf are fields of a manifest that are paths.
func pathsOf(m Manifest) []string {
	all := []string{m.Dir, m.Rootfs, m.ImageSource}
	if m.Guest != nil {
		all = append(all, m.Guest.Kernel, m.Guest.Rootfs)
	}
	for _, facts := range m.Targets {
		all = append(all, facts.Path)
	}
	for _, word := range ownWords(m.Command) {
		_, value, _ := strings.Cut(word, "=")
		all = append(all, word, value)
	}
	return all
}

// ownWords are the words of a command line that are tare's: those before "--".
func ownWords(argv []string) []string {
	if end := slices.Index(argv, "--"); end >= 0 {
		return argv[:end]
	}
	return argv
}

// peerOf is the place of the other machine in a command line.
func peerOf(argv []string) string {
	argv = ownWords(argv)
	for i, word := range argv {
		if value, ok := strings.CutPrefix(word, "--peer="); ok {
			return value
		}
		if word == "--peer" && i+1 < len(argv) {
			return argv[i+1]
		}
	}
	return ""
}

// hostOf is the host of a place: ssh://[USER@]HOST[:PORT][/PATH], or HOST:PORT.
func hostOf(place string) string {
	if u, err := url.Parse(place); err == nil && u.Host != "" {
		return u.Hostname()
	}
	host, _, err := net.SplitHostPort(place)
	if err != nil {
		return ""
	}
	return host
}

func lines[T any](all []T, of func(T) string) []string {
	out := make([]string, len(all))
	for i := range all {
		out[i] = of(all[i])
	}
	return out
}
