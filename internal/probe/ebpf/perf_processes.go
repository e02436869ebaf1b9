package ebpf

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
)

// nobody is the owner of processes that are not watched.
const nobody = owners

const kernelThread = 0x200000 // PF_KTHREAD, of /proc/PID/stat

// The bounds of what is remembered of processes.
const (
	mostProcesses = 65536
	mostMappings  = 1024
	mostEnded     = 8192 // whose last records may still come
	mostFilesRead = 256  // at a time
)

// process is what perf events need to know of one.
type process struct {
	owner    int
	ended    bool
	away     bool // its files are not below this process's root
	mappings []mapping
	image    uint64 // another after each execve
}

// mapping is code that a process may run.
type mapping struct {
	start, end, offset uint64
	file               string
}

// processTable follows processes by the records of their lives.
type processTable struct {
	own    Selection
	all    map[int]*process
	ended  []int // in order
	images uint64
	root   unix.Stat_t
	lost   uint64 // for which there was no room
}

// newProcessTable knows what runs now. It is made when events are recorded already, so
// that nothing is born unseen in between.
func newProcessTable(own Selection) (*processTable, error) {
	t := &processTable{own: own, all: map[int]*process{}}
	if err := unix.Stat("/", &t.root); err != nil {
		return nil, fmt.Errorf("perf events: %w", err)
	}
	running, err := procfs.AllProcs()
	if err != nil {
		return nil, fmt.Errorf("perf events: %w", err)
	}
	stats := map[int]procfs.ProcStat{}
	for _, p := range running {
		if stat, err := p.Stat(); err == nil { // else it has ended
			stats[p.PID] = stat
		}
	}
	for pid, stat := range stats {
		owner := t.ownerOf(pid, stat.Flags)
		if owner == nobody {
			owner = t.inherited(pid, stats)
		}
		t.add(pid, owner)
	}
	return t, nil
}

// inherited is the owner of a process by the processes that it descends from.
func (t *processTable) inherited(pid int, stats map[int]procfs.ProcStat) int {
	owner := nobody
	for range len(stats) { // whoever reads of parents one after another may go in a circle
		if slices.Contains(t.own.pids, pid) {
			return ownerOwn
		}
		if slices.Contains(t.own.shared, pid) {
			owner = ownerShared
		}
		stat, known := stats[pid]
		if !known || stat.PPID == 0 {
			break
		}
		pid = stat.PPID
	}
	return owner
}

// ownerOf is the owner of a process by what it is itself, and where.
func (t *processTable) ownerOf(pid int, flags uint) int {
	switch {
	case flags&kernelThread != 0:
		return ownerKernel
	case t.own.everybody, slices.Contains(t.own.pids, pid), t.inCgroup(pid):
		return ownerOwn
	case slices.Contains(t.own.shared, pid):
		return ownerShared
	}
	return nobody
}

// inCgroup reports whether a process is in a selected cgroup of version 2.
func (t *processTable) inCgroup(pid int) bool {
	if len(t.own.dirs) == 0 {
		return false
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return false // it has ended
	}
	for line := range strings.Lines(string(text)) {
		if path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			dir := filepath.Join(t.own.tree, path)
			return slices.ContainsFunc(t.own.dirs, func(of string) bool { return dir == of || strings.HasPrefix(dir, of+"/") })
		}
	}
	return false
}

// add remembers a process, nil where there is no room.
func (t *processTable) add(pid, owner int) *process {
	if len(t.all) >= mostProcesses && t.all[pid] == nil {
		t.lost++
		return nil
	}
	t.images++
	p := &process{owner: owner, image: t.images}
	t.all[pid] = p
	if p.watched() {
		t.readFiles(pid, p)
	}
	return p
}

// watched reports whether stacks of the process's own program count.
func (p *process) watched() bool { return p.owner == ownerOwn || p.owner == ownerShared }

// readFiles learns where the files of a process are, and which code it has mapped already.
func (t *processTable) readFiles(pid int, p *process) {
	t.findRoot(pid, p)
	maps, err := os.Open(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return // it has ended
	}
	defer maps.Close()
	for lines := bufio.NewScanner(maps); lines.Scan() && len(p.mappings) < mostMappings; {
		if m, ok := parseMapping(lines.Text()); ok {
			p.mappings = append(p.mappings, m)
		}
	}
}

// findRoot learns whether a process has another root than this one.
func (t *processTable) findRoot(pid int, p *process) {
	var root unix.Stat_t
	if err := unix.Stat(fmt.Sprintf("/proc/%d/root/", pid), &root); err == nil {
		p.away = root.Dev != t.root.Dev || root.Ino != t.root.Ino
	}
}

// parseMapping reads a line of /proc/PID/maps (proc(5)); ok says that it is code.
func parseMapping(line string) (m mapping, ok bool) {
	fields := strings.Fields(line)
	if len(fields) < 6 || len(fields[1]) < 3 || fields[1][2] != 'x' {
		return m, false
	}
	low, high, _ := strings.Cut(fields[0], "-")
	var errs [3]error
	m.start, errs[0] = strconv.ParseUint(low, 16, 64)
	m.end, errs[1] = strconv.ParseUint(high, 16, 64)
	m.offset, errs[2] = strconv.ParseUint(fields[2], 16, 64)
	m.file = strings.Join(fields[5:], " ")
	return m, errors.Join(errs[:]...) == nil
}

// of is the process of a number; nil for one that is not known and has ended.
func (t *processTable) of(pid int) *process {
	if p := t.all[pid]; p != nil {
		return p
	}
	proc, err := procfs.NewProc(pid)
	if err != nil {
		return nil
	}
	stat, err := proc.Stat()
	if err != nil {
		return nil
	}
	return t.add(pid, t.ownerOf(pid, stat.Flags))
}

// forked follows a new process: it is its parent's, with the parent's memory.
func (t *processTable) forked(pid, parent int) {
	from := t.of(parent)
	if from == nil {
		delete(t.all, pid) // an earlier process of this number
		return
	}
	if len(t.all) >= mostProcesses && t.all[pid] == nil {
		t.lost++
		return
	}
	p := *from
	p.ended, p.mappings = false, slices.Clip(from.mappings)
	t.all[pid] = &p
}

// executed follows a process that has a new name, in most cases by execve, which is sure
// since Linux 3.16 alone. It may have been moved to a cgroup meanwhile, and what a kernel
// thread executes is a process from then on; before 3.16 it stays the kernel's.
func (t *processTable) executed(pid int, sure bool) {
	p := t.all[pid]
	if p == nil {
		t.of(pid)
		return
	}
	switch {
	case p.owner == ownerKernel:
		if sure { // else a new kernel thread is given its name
			p.owner = t.ownerOf(pid, 0)
		}
	case p.owner != ownerOwn && t.inCgroup(pid):
		p.owner = ownerOwn
	}
	t.images++
	if p.image = t.images; sure {
		p.mappings = nil
	}
	if p.watched() {
		t.findRoot(pid, p)
	}
}

// mapped follows a process that maps code.
func (t *processTable) mapped(pid int, m mapping) {
	if p := t.all[pid]; p != nil && p.watched() && len(p.mappings) < mostMappings {
		p.mappings = append(p.mappings, m)
	}
}

// exited lets a process go, after a while: its other threads may end later.
func (t *processTable) exited(pid int) {
	p := t.all[pid]
	if p == nil || p.ended {
		return
	}
	p.ended = true
	if t.ended = append(t.ended, pid); len(t.ended) > mostEnded {
		if old := t.all[t.ended[0]]; old != nil && old.ended {
			delete(t.all, t.ended[0])
		}
		t.ended = t.ended[1:]
	}
}

// at is the mapping that an address lies in, the latest where several do.
func (p *process) at(address uint64) (m mapping, ok bool) {
	for i := len(p.mappings) - 1; i >= 0; i-- {
		if m := p.mappings[i]; address >= m.start && address < m.end {
			return m, true
		}
	}
	return mapping{}, false
}

// codeFile is a file as a process names it.
type codeFile struct {
	away bool
	path string
}

// codeFiles name functions by their file's path: perf events have no build ids before
// Linux 5.12.
type codeFiles struct {
	root string // of the trial's programs' files; "" for the host's
	read map[codeFile]*functions
}

func (c *codeFiles) function(f codeFile, offset uint64) string {
	known := c.read[f]
	if known == nil {
		if len(c.read) >= mostFilesRead {
			clear(c.read)
		}
		known = c.open(f)
		c.read[f] = known
	}
	return known.at(offset)
}

// open reads a file below the root that its process has, as far as that is known here.
func (c *codeFiles) open(f codeFile) *functions {
	if !filepath.IsAbs(f.path) { // [vdso], //anon
		return &functions{}
	}
	roots := []string{"/"}
	if f.away {
		if c.root == "" {
			return &functions{} // the host's file of that path is another
		}
		roots = []string{c.root, "/"} // a runtime's own program, before execve
	}
	for _, root := range roots {
		below, err := os.OpenRoot(root)
		if err != nil {
			return &functions{}
		}
		found := readFunctionsIn(below, strings.TrimLeft(f.path, "/"))
		below.Close()
		if found.name != "" {
			return found
		}
	}
	return &functions{}
}
