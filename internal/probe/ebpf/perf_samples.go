package ebpf

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tarelab/tare/internal/profile"
	"github.com/tarelab/tare/internal/sys"
)

// The bounds of what a recording by perf events holds, as those of stack.h and stacks.bpf.c.
const (
	mostFrames     = 64
	mostUserFrames = 32
	mostStacks     = 16384
	mostRows       = 32768
	mostOff        = 65536
	mostSeen       = 65536 // stacks of processes: for a cache alone
)

// The states, as indexes into states.
const (
	stateOnCPU = iota
	stateAsleep
	stateRunnable
)

// threadName is a thread's name, as the kernel has it.
type threadName [16]byte

func (n threadName) String() string { return string(bytes.TrimRight(n[:], "\x00")) }

// perfRow is what samples are summed up by.
type perfRow struct {
	kernel, user int // indexes into kernelStacks and userStacks; -1 for none
	state, owner int
	name         threadName
}

type perfTotal struct {
	count uint64
	time  uint64
}

type perfOff struct {
	since uint64
	row   perfRow
}

// place is where a frame of a program lies: in a file, by its index; -1 for none.
type place struct {
	file   int
	offset uint64
}

// perfSamples sums up the records of perf events, as stacks.bpf.c does in the kernel. The
// records come in the order of their times.
type perfSamples struct {
	processes *processTable
	switches  map[string]sys.TracepointField // of sched_switch; nil without
	period    func(uint64) uint64            // nanoseconds that a sample stands for, by its period

	names map[uint32]threadName
	rows  map[perfRow]perfTotal
	other [owners][3]perfTotal
	off   map[uint32]perfOff // threads off their CPU
	since map[int]uint64     // by CPU: when something was seen there last
	ran   [owners]time.Duration
	last  uint64
	gap   uint64 // time of the latest record that says that others were lost

	kernelStacks [][]uint64
	kernelAt     map[uint64]int
	userStacks   [][]place
	userAt       map[uint64]int
	seen         map[uint64]int // stacks of processes, to those of files
	files        []codeFile
	fileAt       map[codeFile]int
	lost         [6]uint64 // by the reasons of lossNames
	dropped      uint64    // records for which a ring had no room
}

// The reasons of lossNames.
const (
	lostStack = iota
	lostStackFull
	lostWaitFull
	lostSumFull
	lostEnd
	lostProcess
)

func newPerfSamples(processes *processTable, e *perfEvents) *perfSamples {
	s := &perfSamples{processes: processes, names: map[uint32]threadName{}, rows: map[perfRow]perfTotal{}, off: map[uint32]perfOff{}, since: map[int]uint64{},
		kernelAt: map[uint64]int{}, userAt: map[uint64]int{}, seen: map[uint64]int{}, fileAt: map[codeFile]int{},
		period: func(ns uint64) uint64 { return ns }}
	if e.cycles {
		s.period = func(uint64) uint64 { return uint64(time.Second) / samplesPerSecond }
	}
	if e.switches != nil {
		s.switches = e.switches.Fields
	}
	return s
}

// errShort is a record that ends before its fields do.
var errShort = errors.New("perf events: a record is too short for what it should hold")

// words reads the fields of a record.
type words struct {
	left  []byte
	short bool
}

func (w *words) bytes(n int) []byte {
	if n < 0 || n > len(w.left) {
		w.short, w.left = true, nil
		return make([]byte, min(max(n, 0), 8))
	}
	b := w.left[:n]
	w.left = w.left[n:]
	return b
}

func (w *words) u32() uint32 { return binary.NativeEndian.Uint32(w.bytes(4)) }
func (w *words) u64() uint64 { return binary.NativeEndian.Uint64(w.bytes(8)) }

// timeOf is the time of a record, which stands at the end of all but samples.
func timeOf(kind uint32, record []byte) uint64 {
	switch {
	case kind == unix.PERF_RECORD_SAMPLE && len(record) >= 16:
		return binary.NativeEndian.Uint64(record[8:])
	case len(record) >= 8:
		return binary.NativeEndian.Uint64(record[len(record)-8:])
	}
	return 0
}

// add takes a record of a CPU.
func (s *perfSamples) add(cpu int, h perfHeader, record []byte) error {
	w := words{left: record}
	s.last = max(s.last, timeOf(h.kind, record))
	switch h.kind {
	case unix.PERF_RECORD_SAMPLE:
		s.sample(cpu, &w)
	case unix.PERF_RECORD_FORK:
		pid, parent, tid, parentThread := int(w.u32()), int(w.u32()), w.u32(), w.u32()
		if pid != parent {
			s.processes.forked(pid, parent)
		}
		if name, known := s.names[parentThread]; known {
			s.names[tid] = name
		} else {
			delete(s.names, tid) // an earlier thread's of this number
		}
	case unix.PERF_RECORD_EXIT:
		pid, _, tid := int(w.u32()), w.u32(), w.u32()
		delete(s.names, tid)
		if uint32(pid) == tid {
			s.processes.exited(pid)
		}
	case unix.PERF_RECORD_COMM:
		pid, tid := int(w.u32()), w.u32()
		var name threadName
		copy(name[:len(name)-1], upToNull(w.left))
		if s.names[tid] = name; uint32(pid) == tid { // execve makes the thread that calls it the first one
			s.processes.executed(pid, h.misc&unix.PERF_RECORD_MISC_COMM_EXEC != 0)
		}
	case unix.PERF_RECORD_MMAP:
		pid, _, start, length, offset := int(w.u32()), w.u32(), w.u64(), w.u64(), w.u64()
		s.processes.mapped(pid, mapping{start, start + length, offset, string(upToNull(w.left))})
	case unix.PERF_RECORD_LOST:
		_, n := w.u64(), w.u64()
		s.dropped += n
		s.gap = s.last
		delete(s.since, cpu) // who ran here meanwhile is unknown
	}
	if w.short {
		return errShort
	}
	return nil
}

func upToNull(b []byte) []byte {
	text, _, _ := bytes.Cut(b, []byte{0})
	return text
}

// shortRaw is the raw data of events that have none.
const shortRaw = 4

// sample takes a sample of what runs, or a switch.
func (s *perfSamples) sample(cpu int, w *words) {
	pid, tid, at, period := int(w.u32()), w.u32(), w.u64(), w.u64()
	frames := w.u64()
	if frames > mostRecord {
		w.short = true
		return
	}
	chain := w.bytes(8 * int(frames))
	raw := w.bytes(int(w.u32()))
	if w.short {
		return
	}
	p := s.running(pid)
	s.run(cpu, p, at)
	if len(raw) > shortRaw {
		s.switched(p, at, chain, raw)
		return
	}
	if p == nil || p.owner == nobody {
		return
	}
	row := s.row(p, pid, stateOnCPU, chain)
	row.name = s.nameOf(pid, tid)
	s.sumUp(row, perfTotal{1, s.period(period)})
}

// running is the process that runs; nil for a CPU's idle thread.
func (s *perfSamples) running(pid int) *process {
	if pid <= 0 {
		return nil
	}
	return s.processes.of(pid)
}

// run gives the time since this CPU was last looked at to whom it belongs.
func (s *perfSamples) run(cpu int, p *process, at uint64) {
	if since, known := s.since[cpu]; known && p != nil && p.owner != nobody && at > since {
		s.ran[p.owner] += time.Duration(at - since)
	}
	s.since[cpu] = at
}

// The bits of a task's state in sched_switch (include/trace/events/sched.h): none of a
// thread whose CPU was taken, and those of one that has ended, in all kernels.
const (
	stateBits  = 0xff
	stateEnded = 0x10 | 0x20 | 0x40
)

// switched is a thread of p that leaves its CPU for another. The kernel's own numbers of
// threads stand in the raw data, whatever this process's namespace calls them.
func (s *perfSamples) switched(p *process, at uint64, chain, raw []byte) {
	prev, okPrev := field(raw, s.switches["prev_pid"])
	next, okNext := field(raw, s.switches["next_pid"])
	state, okState := field(raw, s.switches["prev_state"])
	if !okPrev || !okNext || !okState {
		s.lost[lostEnd]++
		return
	}
	s.back(uint32(next), at)
	if s.back(uint32(prev), at) { // its return was not recorded: it came between this and the CPU's record before
		s.lost[lostEnd]++
	}
	if p == nil || !p.watched() || state&stateEnded != 0 {
		return // kernel threads that sleep have nothing to do
	}
	row := perfRow{kernel: -1, user: -1, state: stateRunnable, owner: p.owner}
	if state&stateBits != 0 {
		row = s.row(p, int(prev), stateAsleep, chain)
	}
	name := s.switches["prev_comm"]
	if name.Offset+name.Size <= len(raw) {
		copy(row.name[:len(row.name)-1], upToNull(raw[name.Offset:name.Offset+name.Size]))
	}
	if len(s.off) >= mostOff {
		s.lost[lostWaitFull]++
		return
	}
	s.off[uint32(prev)] = perfOff{at, row}
}

// back ends the time of a thread off its CPU, and reports whether it was off.
func (s *perfSamples) back(tid uint32, at uint64) bool {
	away, off := s.off[tid]
	if off {
		s.sumUp(away.row, perfTotal{1, at - min(at, away.since)})
		delete(s.off, tid)
	}
	return off
}

// field is a number in a tracepoint's raw data.
func field(raw []byte, f sys.TracepointField) (uint64, bool) {
	if f.Offset+f.Size > len(raw) {
		return 0, false
	}
	switch b := raw[f.Offset : f.Offset+f.Size]; f.Size {
	case 4:
		return uint64(binary.NativeEndian.Uint32(b)), true
	case 8:
		return binary.NativeEndian.Uint64(b), true
	}
	return 0, false
}

// nameOf is a thread's name.
func (s *perfSamples) nameOf(pid int, tid uint32) threadName {
	name, known := s.names[tid]
	if !known {
		copy(name[:len(name)-1], readName(pid, tid))
		s.names[tid] = name
	}
	return name
}

// row says whose a call chain is.
func (s *perfSamples) row(p *process, pid, state int, chain []byte) perfRow {
	kernel, user := split(chain)
	r := perfRow{kernel: s.kernelStack(kernel), user: -1, state: state, owner: p.owner}
	if p.watched() {
		r.user = s.userStack(p, pid, user)
	}
	return r
}

// split takes a call chain apart: the kernel's frames and the program's, innermost first.
// Numbers near the end of all addresses say what follows.
func split(chain []byte) (kernel, user []uint64) {
	const lastAddress = ^uint64(4095)
	of := &kernel
	for ; len(chain) >= 8; chain = chain[8:] {
		address := binary.NativeEndian.Uint64(chain)
		if address < lastAddress {
			if of != nil {
				*of = append(*of, address)
			}
			continue
		}
		switch int64(address) {
		case unix.PERF_CONTEXT_KERNEL:
			of = &kernel
		case unix.PERF_CONTEXT_USER:
			of = &user
		default: // a guest's, or the hypervisor's
			of = nil
		}
	}
	return kernel[:min(len(kernel), mostFrames)], user[:min(len(user), mostUserFrames)]
}

// hash is stack.h's: FNV-1a over words.
func hash(key uint64, word uint64) uint64 {
	key = (key ^ word) * 1099511628211
	return key ^ key>>29
}

const hashSeed = 14695981039346656037

func (s *perfSamples) kernelStack(frames []uint64) int {
	key := uint64(hashSeed)
	for _, address := range frames {
		key = hash(key, address)
	}
	return keep(s, &s.kernelStacks, s.kernelAt, key, frames)
}

// userStack keeps where the frames lie in files, by which they are the same in all
// processes.
func (s *perfSamples) userStack(p *process, pid int, frames []uint64) int {
	key := hash(hash(hashSeed, uint64(pid)), p.image)
	for _, address := range frames {
		key = hash(key, address)
	}
	at, known := s.seen[key]
	if !known {
		places, same := s.places(p, frames), uint64(hashSeed)
		for _, l := range places {
			same = hash(hash(same, uint64(l.file)), l.offset)
		}
		if at = keep(s, &s.userStacks, s.userAt, same, places); len(s.seen) >= mostSeen {
			clear(s.seen)
		}
		s.seen[key] = at
	}
	return at
}

func (s *perfSamples) places(p *process, frames []uint64) []place {
	var all []place
	for i, address := range frames {
		if i > 0 {
			address-- // a return address may be the next function's first
		}
		l := place{file: -1}
		if m, ok := p.at(address); ok {
			l = place{s.file(codeFile{p.away, m.file}), address - m.start + m.offset}
		}
		all = append(all, l)
	}
	return all
}

func (s *perfSamples) file(f codeFile) int {
	at, known := s.fileAt[f]
	if !known && len(s.files) < mostStacks {
		at = len(s.files)
		s.files, s.fileAt[f] = append(s.files, f), at
	} else if !known {
		at = -1
	}
	return at
}

// keep is the index of a stack among those that are kept; -1 for none, or for one that
// finds no room.
func keep[T any](s *perfSamples, stacks *[][]T, at map[uint64]int, key uint64, frames []T) int {
	if len(frames) == 0 {
		return -1
	}
	i, known := at[key]
	if known {
		return i
	}
	if len(*stacks) >= mostStacks {
		s.lost[lostStackFull]++
		return -1
	}
	i = len(*stacks)
	*stacks, at[key] = append(*stacks, frames), i
	return i
}

func (s *perfSamples) sumUp(row perfRow, t perfTotal) {
	sum, known := s.rows[row]
	if !known && len(s.rows) >= mostRows {
		s.lost[lostSumFull]++
		other := &s.other[row.owner][row.state]
		other.count, other.time = other.count+t.count, other.time+t.time
		return
	}
	s.rows[row] = perfTotal{sum.count + t.count, sum.time + t.time}
}

// profile is what was recorded, with the time of threads that are still off their CPUs.
func (s *perfSamples) profile(known *symbols, root string) profile.Profile {
	var p profile.Profile
	known.noteHidden(&p)
	for _, off := range s.off {
		if off.since < s.gap { // its end may be among the lost records
			s.lost[lostEnd]++
			continue
		}
		s.sumUp(off.row, perfTotal{1, s.last - min(s.last, off.since)})
	}
	kernel, user := s.nameKernel(&p, known), s.nameUser(&p, root)
	for row, t := range s.rows {
		p.Samples = append(p.Samples, profile.Sample{State: states[row.state], Stack: at(kernel, row.kernel), User: at(user, row.user), Comm: row.name.String(),
			Kernel: row.owner == ownerKernel, Shared: row.owner == ownerShared, Count: t.count, Total: time.Duration(t.time)})
	}
	slices.SortFunc(p.Samples, func(a, b profile.Sample) int {
		return cmp.Or(cmp.Compare(b.Total, a.Total), cmp.Compare(a.Stack, b.Stack), cmp.Compare(a.User, b.User), cmp.Compare(a.Comm, b.Comm), cmp.Compare(a.State, b.State))
	})
	for owner := range s.other {
		for state, t := range s.other[owner] {
			if t.count > 0 {
				p.Samples = append(p.Samples, profile.Sample{State: states[state], Stack: -1, User: -1, Comm: "[other]",
					Kernel: owner == ownerKernel, Shared: owner == ownerShared, Count: t.count, Total: time.Duration(t.time)})
			}
		}
	}
	if s.switches != nil {
		spread(&p, s.ran)
	}
	s.lost[lostProcess] += s.processes.lost
	for i, n := range s.lost {
		lose(&p, lossNames[i], n)
	}
	lose(&p, "records of perf events, for which there was no room until tare read them", s.dropped)
	return p
}

func at(indexes []int, i int) int {
	if i < 0 {
		return -1
	}
	return indexes[i]
}

// nameKernel puts the kernel's stacks into a profile and returns their indexes there.
func (s *perfSamples) nameKernel(p *profile.Profile, known *symbols) (indexes []int) {
	for _, frames := range s.kernelStacks {
		indexes = append(indexes, len(p.Stacks))
		p.Stacks = append(p.Stacks, known.stack(frames))
	}
	return indexes
}

// nameUser does the same for programs' stacks.
func (s *perfSamples) nameUser(p *profile.Profile, root string) (indexes []int) {
	files := codeFiles{root: root, read: map[codeFile]*functions{}}
	for _, places := range s.userStacks {
		var names []string
		for _, l := range places {
			name := unknown
			if l.file >= 0 {
				name = files.function(s.files[l.file], l.offset)
			}
			names = appendFrame(names, name)
		}
		indexes = append(indexes, len(p.Stacks))
		p.Stacks = append(p.Stacks, names)
	}
	return indexes
}

// readName reads a thread's name; "" of one that has ended.
func readName(pid int, tid uint32) []byte {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/comm", pid, tid))
	if err != nil {
		return nil
	}
	return bytes.TrimRight(text, "\n")
}
