package profile

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tarelab/tare/internal/limit"
	"github.com/tarelab/tare/internal/sample"
)

// ErrNoProfile says that a text is neither what perf script prints nor folded stacks.
var ErrNoProfile = errors.New("no profile that can be read")

// Sources of imported profiles.
const (
	SourcePerf   = "perf script"
	SourceFolded = "folded stacks"
)

// longestLine is what a line of an imported profile has at most, in bytes.
const longestLine = 1 << 20

// Import reads a profile that another program took, maybe on another machine: the text
// that perf script prints, or folded stacks, outermost frame first, with a number.
// limit.Profile and limit.ProfileNames bound it. The error is ErrNoProfile, a *limit.Error
// or the reader's.
//
// The samples of one event count, that of the name, or that with the most samples where
// the name is "". Samples of a clock count as time, others as what they are of (Unit).
// What sched_switch tells of time off the CPU is added to samples of a clock, or stands
// alone. Waits are taken from contention_begin and contention_end.
func Import(r io.Reader, event string) (Profile, error) {
	in := bufio.NewReaderSize(limit.Profile.Reader(r), 64<<10)
	head, err := in.Peek(64 << 10)
	if err != nil && !errors.Is(err, io.EOF) {
		return Profile{}, fmt.Errorf("read the profile: %w", err)
	}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, longestLine)
	i := importer{stacks: newInterner(new([][]string)), events: map[string]*importedEvent{}, summed: map[Wait]int{},
		waiting: map[int]openWait{}, off: map[int]openSleep{}, facts: map[string]string{}, stacked: stackLine.Match(head)}
	var read func(string) error
	var first string
	for lines.Scan() {
		line := strings.ToValidUTF8(strings.TrimRight(lines.Text(), "\r"), "�")
		if first == "" && strings.TrimSpace(line) != "" && !strings.HasPrefix(line, "#") {
			first = line
		}
		if read == nil {
			if read = i.reader(line); read == nil {
				continue
			}
		}
		if err := read(line); err != nil {
			return Profile{}, err
		}
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return Profile{}, fmt.Errorf("%w: a line has more than %d bytes", ErrNoProfile, longestLine)
	case err != nil:
		return Profile{}, fmt.Errorf("read the profile: %w", err)
	case first == "":
		return Profile{}, fmt.Errorf("%w: it holds no sample", ErrNoProfile)
	case read == nil, i.source == SourceFolded && !i.stacked:
		return Profile{}, fmt.Errorf("%w: it begins with %.60q, and a line of a profile is as in \"sh 42 [000] 1.000000: 250000 cpu-clock:\" (perf script) or \"sh;main;work 17\" (folded stacks)", ErrNoProfile, first)
	}
	if err := i.endSample(); err != nil {
		return Profile{}, err
	}
	return i.profile(event)
}

// importer is a profile that is being read.
type importer struct {
	stacks  interner
	source  string
	events  map[string]*importedEvent
	waits   Profile           // of which only the waits are there
	summed  map[Wait]int      // where each wait stands there
	facts   map[string]string // what perf script's head says of the machine
	strange uint64            // lines that are of no sample
	sums    int               // different samples of all events

	at      header   // of the sample that is being read
	kernel  []string // its frames, innermost first
	user    []string
	open    bool
	stacked bool // the text has stacks: perf script's lines of frames, or frames in a folded line
	first   time.Duration
	last    time.Duration
	waiting map[int]openWait // by thread
	off     map[int]openSleep
}

// importedEvent sums up the samples of one event.
type importedEvent struct {
	sum   Profile // of which only the samples are there
	at    map[Sample]int
	count uint64
	bare  bool // some sample has no period
}

// header is a sample's first line.
type header struct {
	comm   string
	pid    int
	tid    int
	time   time.Duration // since the machine's boot; 0 where the text does not tell
	period uint64        // 0 where the text does not tell
	event  string        // without modifiers: "cpu-clock"; anyEvent
	rest   string        // what follows the event
}

// openWait is a wait for a lock that has begun, openSleep a thread off its CPU.
type openWait struct {
	since time.Duration
	wait  Wait
}
type openSleep struct {
	since  time.Duration
	sample Sample
}

// The lines of perf script. Which fields there are depends on what was recorded and on
// the option -F; a program's name may hold blanks.
var (
	sampleLine = regexp.MustCompile(`^\s*(\S.*?)\s+(-1|\d+)(?:/(-1|\d+))?(?:\s+|$)(?:\[\d+\]\s+)?(?:[.a-zA-Z][.a-zA-Z0-9#]{3,5}\s+)?(?:(\d+\.\d+):\s+)?(?:(\d+)\s*)?(?:([A-Za-z_]\S*?):(?:\s+(.*))?)?$`)
	frameLine  = regexp.MustCompile(`^\s+([0-9a-f]+)\s+(.*?)\s*$`)
	stackLine  = regexp.MustCompile(`(?m)^[ \t]+[0-9a-f]{4,16}(?:[ \t]|$)`)
	oneFrame   = regexp.MustCompile(`^([0-9a-f]{5,16})\s+(.+)$`)
	foldedLine = regexp.MustCompile(`^(\S.*?)\s+(\d+(?:\.\d+)?)\s*$`)
	switchLine = regexp.MustCompile(`(?:prev_pid=(\d+) .*prev_state=(\S+) ==> .*next_pid=(\d+))|(?::(\d+) \[-?\d+\] (\S+) ==> .*:(\d+) \[)`)
	lockLine   = regexp.MustCompile(`^0x([0-9a-f]+)(?: \(flags=([A-Z|]*))?`)
	factLine   = regexp.MustCompile(`^# (os release|arch|nrcpus online|cpudesc)\s*: (.{1,80})`)
)

// reader is what reads the lines from this one on; nil where this one is no profile's.
// "rounds: 5" of another file is like perf script's "sh 9", which a stack follows, and
// like a folded stack without a frame, which is among others with frames.
func (i *importer) reader(line string) func(string) error {
	m := sampleLine.FindStringSubmatch(line)
	switch {
	case strings.HasPrefix(line, "#"):
		i.fact(line)
	case m != nil && (i.stacked || !foldedLine.MatchString(line) && m[4]+m[6] != ""): // a time, or an event
		i.source = SourcePerf
		return i.script
	case foldedLine.MatchString(line):
		i.source = SourceFolded
		return i.folded
	}
	return nil
}

// fact keeps what perf script's head says of the machine.
func (i *importer) fact(line string) {
	if m := factLine.FindStringSubmatch(line); m != nil {
		i.facts[m[1]] = strings.TrimSpace(m[2])
	}
}

// machine says where the profile was taken; "" where its text does not tell.
func (i *importer) machine() string {
	var parts []string
	for _, fact := range []struct{ name, words string }{{"os release", "Linux %s"}, {"arch", "%s"}, {"nrcpus online", "%s CPUs"}, {"cpudesc", "%s"}} {
		if v := i.facts[fact.name]; v != "" {
			parts = append(parts, fmt.Sprintf(fact.words, v))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return "the profile was taken on " + strings.Join(parts, ", ")
}

func (i *importer) script(line string) error {
	switch {
	case strings.HasPrefix(line, "#"):
		i.fact(line)
		return nil
	case strings.TrimSpace(line) == "":
		return i.endSample()
	}
	if m := frameLine.FindStringSubmatch(line); i.open && m != nil {
		i.frame(m[1], m[2])
		return limit.Profile.CheckDepth(len(i.kernel) + len(i.user))
	}
	m := sampleLine.FindStringSubmatch(line)
	if m == nil {
		i.strange++
		return nil
	}
	if err := i.endSample(); err != nil { // samples without a stack stand line by line
		return err
	}
	i.open, i.kernel, i.user = true, nil, nil
	i.at = header{comm: i.name(m[1]), pid: number(m[2]), event: i.name(eventName(m[6])), rest: m[7]}
	i.at.tid = i.at.pid
	if m[3] != "" {
		i.at.tid = number(m[3])
	}
	if seconds, err := strconv.ParseFloat(m[4], 64); err == nil && seconds < 1e9 {
		i.at.time = time.Duration(seconds * 1e9)
	}
	if period, err := strconv.ParseUint(m[5], 10, 53); err == nil {
		i.at.period = period
	}
	if one := oneFrame.FindStringSubmatch(i.at.rest); one != nil {
		i.frame(one[1], one[2])
	}
	return nil
}

// number is a number of digits; 0 for one that no process can have.
func number(digits string) int {
	n, err := strconv.ParseInt(digits, 10, 32)
	if err != nil {
		return 0
	}
	return int(n)
}

// eventName cuts off how an event is counted: "cycles:ppp", "cpu-clock:pppH", "cycles/u".
// A tracepoint has its system before it: "lock:contention_begin".
func eventName(event string) string {
	if event == "" { // the text does not tell
		return anyEvent
	}
	name, modifiers, _ := strings.Cut(event, ":")
	if strings.Trim(modifiers, "ukhpPGHSDeIW") == "" {
		return name
	}
	return event
}

// frame adds a frame of a stack: the symbol, its offset, and the file in brackets.
func (i *importer) frame(address, text string) {
	name, file := text, ""
	if whole, gone := strings.CutSuffix(text, " (deleted))"); gone { // of a file that was replaced while it ran
		text = whole + ")"
	}
	if at := strings.LastIndex(text, " ("); at >= 0 && strings.HasSuffix(text, ")") {
		name, file = text[:at], text[at+2:len(text)-1]
	}
	if at := strings.LastIndex(name, "+0x"); at > 0 {
		name = name[:at]
	}
	name = i.name(strings.TrimSpace(name))
	if isKernel(file, address) {
		i.kernel = append(i.kernel, name)
	} else {
		i.user = append(i.user, name)
	}
}

// isKernel tells the kernel's code by its file, such as [kernel.kallsyms], [nf_tables]
// or /lib/modules/x.ko.xz, else by its address, in the upper half: so has what the
// kernel's compiler inlined.
func isKernel(file, address string) bool {
	switch {
	case slices.Contains([]string{"[vdso]", "[vsyscall]", "[heap]", "[stack]", "[uprobes]", "[vectors]", "//anon"}, file):
		return false
	case strings.HasPrefix(file, "[anon:"): // memory that a program named, such as V8's code
		return false
	case strings.HasPrefix(file, "[") && file != "[unknown]":
		return true
	case strings.HasSuffix(file, ".ko") || strings.Contains(file, ".ko.") || strings.Contains(file, "vmlinux"):
		return true
	}
	return len(address) == 16 && address[0] >= '8'
}

// anyEvent is the event, and the unit, of samples of which a text tells no more.
const anyEvent = "samples"

// The events that are no samples of what ran.
const (
	eventSwitch = "sched:sched_switch"
	eventBegin  = "lock:contention_begin"
	eventEnd    = "lock:contention_end"
)

// clocks are the events of which a period is nanoseconds.
var clocks = []string{"cpu-clock", sample.TaskClock}

func (i *importer) endSample() error {
	if !i.open {
		return nil
	}
	i.open = false
	if i.at.time > 0 {
		if i.first == 0 {
			i.first = i.at.time
		}
		i.last = max(i.last, i.at.time)
	}
	switch i.at.event {
	case eventSwitch:
		i.switched()
	case eventBegin:
		i.begin()
	case eventEnd:
		i.end()
	default:
		s := i.sample(OnCPU)
		s.Count, s.Total = 1, time.Duration(i.at.period)
		e := i.event(i.at.event)
		e.bare = e.bare || i.at.period == 0
		i.add(e, s)
	}
	return i.bounded()
}

// sample is the sample that was read, in a state, without its weight.
func (i *importer) sample(state State) Sample {
	return Sample{State: state, Stack: i.keep(i.kernel), User: i.keep(i.user), Comm: i.at.comm, Kernel: i.isKernelThread()}
}

// isKernelThread: one that has no program, and a CPU's idle thread.
func (i *importer) isKernelThread() bool {
	if i.at.tid == 0 {
		return true
	}
	return len(i.user) == 0 && len(i.kernel) > 0 && strings.HasPrefix(i.kernel[len(i.kernel)-1], "ret_from_fork")
}

// name is a copy of a name in a line, which may be long.
func (i *importer) name(name string) string { return i.stacks.name(cut(name)) }

func (i *importer) keep(frames []string) int {
	if len(frames) == 0 {
		return -1
	}
	return i.stacks.keep(frames)
}

func (i *importer) event(name string) *importedEvent {
	e := i.events[name]
	if e == nil {
		e = &importedEvent{at: map[Sample]int{}}
		i.events[name] = e
	}
	return e
}

func (i *importer) add(e *importedEvent, s Sample) {
	e.count += s.Count
	before := len(e.sum.Samples)
	e.sum.addSample(e.at, s)
	i.sums += len(e.sum.Samples) - before
}

// bounded says what is held too much of.
func (i *importer) bounded() error {
	return errors.Join(limit.ProfileWaits.CheckItems(len(i.waits.Waits)), limit.ProfileNames.CheckBytes(i.stacks.bytes),
		limit.Profile.CheckItems(max(len(*i.stacks.stacks), len(i.waiting), len(i.off), len(i.events), i.sums)))
}

// switched is a thread that left its CPU for another.
func (i *importer) switched() {
	m := switchLine.FindStringSubmatch(i.at.rest)
	if m == nil {
		i.strange++
		return
	}
	prev, state, next := number(m[1]+m[4]), m[2]+m[5], number(m[3]+m[6])
	if out, away := i.off[next]; away {
		delete(i.off, next)
		out.sample.Count, out.sample.Total = 1, max(0, i.at.time-out.since)
		i.add(i.event(eventSwitch), out.sample)
	}
	if prev == 0 { // a CPU that was idle
		return
	}
	s := i.sample(Asleep)
	if strings.HasPrefix(state, "R") {
		s.State = Runnable
	}
	i.off[prev] = openSleep{i.at.time, s}
}

// begin is a wait for a lock. A mutex begins twice, spinning and then asleep: the first
// counts. So does it where a thread contends within another lock's slow path.
func (i *importer) begin() {
	m := lockLine.FindStringSubmatch(i.at.rest)
	if _, waits := i.waiting[i.at.tid]; waits || m == nil {
		return
	}
	var flags WaitFlags
	for _, word := range strings.Split(m[2], "|") {
		flags |= flagWords[word]
	}
	lock, err := strconv.ParseUint(m[1], 16, 64)
	if err != nil {
		i.strange++
		return
	}
	kind, mode := flags.Kind()
	i.waiting[i.at.tid] = openWait{i.at.time, Wait{Kind: kind, Mode: mode, Lock: lock, Stack: i.keep(i.kernel), Kernel: i.isKernelThread()}}
}

func (i *importer) end() {
	m := lockLine.FindStringSubmatch(i.at.rest)
	open, waits := i.waiting[i.at.tid]
	if !waits || m == nil || fmt.Sprintf("%x", open.wait.Lock) != strings.TrimLeft(m[1], "0") {
		return
	}
	delete(i.waiting, i.at.tid)
	i.addWait(open.until(i.at.time))
}

func (i *importer) addWait(w Wait) { i.waits.addWait(i.summed, w, w.Stack) }

func (o openWait) until(end time.Duration) Wait {
	w := o.wait
	w.Count, w.Total = 1, max(0, end-o.since)
	w.Most = w.Total
	w.Times.Count(w.Total)
	return w
}

// folded reads a line "frame;frame 17", the outermost first. Tare's own begin with the
// state and hold microseconds.
func (i *importer) folded(line string) error {
	m := foldedLine.FindStringSubmatch(line)
	if m == nil {
		if strings.TrimSpace(line) != "" && !strings.HasPrefix(line, "#") {
			i.strange++
		}
		return nil
	}
	weight, err := strconv.ParseFloat(m[2], 64)
	if err != nil || weight > 1e15 {
		i.strange++
		return nil
	}
	frames := strings.Split(m[1], ";")
	i.stacked = i.stacked || len(frames) > 1
	if err := limit.Profile.CheckDepth(len(frames)); err != nil {
		return err
	}
	s, event, unit := Sample{State: OnCPU, User: -1, Count: 1}, anyEvent, 1.0
	if slices.Contains(States(), State(frames[0])) {
		s.State, frames, event, unit = State(frames[0]), frames[1:], clocks[0], 1e3
		if len(frames) > 0 && (frames[0] == kernelThreads || frames[0] == sharedEngine) {
			s.Kernel, s.Shared = frames[0] == kernelThreads, frames[0] == sharedEngine
			frames = frames[1:]
		}
	} else {
		s.Count = uint64(weight)
	}
	if len(frames) > 0 {
		s.Comm, frames = i.name(frames[0]), frames[1:]
	}
	s.Total = time.Duration(weight * unit)
	stack := make([]string, len(frames))
	for at, frame := range frames {
		stack[len(frames)-1-at] = cut(strings.TrimSuffix(strings.TrimSuffix(frame, "_[k]"), "_[i]"))
	}
	s.Stack = i.keep(stack)
	i.add(i.event(event), s)
	return i.bounded()
}

// profile is what was read, of the event that counts.
func (i *importer) profile(event string) (Profile, error) {
	for _, thread := range slices.Sorted(maps.Keys(i.waiting)) {
		if w := i.waiting[thread]; i.last > w.since {
			unfinished := w.until(i.last)
			unfinished.Unfinished = 1
			i.addWait(unfinished)
		}
	}
	p := Profile{Source: i.source, Elapsed: i.last - i.first, Waits: i.waits.Waits, Stacks: *i.stacks.stacks, Lost: map[string]uint64{}}
	if on := i.machine(); on != "" {
		p.Notes = append(p.Notes, on)
	}
	if i.strange > 0 {
		p.Lost["lines that are of no sample"] = i.strange
	}
	names := slices.SortedFunc(maps.Keys(i.events), func(a, b string) int {
		return cmp.Or(cmp.Compare(i.events[b].count, i.events[a].count), cmp.Compare(a, b))
	})
	switch {
	case event != "" && i.events[event] == nil:
		return Profile{}, fmt.Errorf("%w: no sample of the event %q; it has %s", ErrNoProfile, event, orNone(names))
	case len(names) == 0 && len(p.Waits) == 0:
		return Profile{}, fmt.Errorf("%w: no sample of any event", ErrNoProfile)
	case len(names) == 0:
		return p, nil
	case event == "":
		event = names[0]
	}
	i.choose(&p, event, names)
	return p, nil
}

// choose takes the samples of an event, and those off the CPU beside a clock's.
func (i *importer) choose(p *Profile, event string, names []string) {
	chosen := []string{event}
	isTime := slices.Contains(clocks, event) && !i.events[event].bare
	if off := i.events[eventSwitch]; off != nil && isTime {
		chosen = append(chosen, eventSwitch)
	}
	if !isTime && event != eventSwitch {
		if p.Unit = event; i.events[event].bare {
			p.Unit = anyEvent
		}
	}
	for _, name := range chosen {
		for _, s := range i.events[name].sum.Samples {
			if p.Unit == anyEvent && i.source == SourcePerf {
				s.Total = time.Duration(s.Count)
			}
			p.Samples = append(p.Samples, s)
		}
	}
	if others := slices.DeleteFunc(names, func(n string) bool { return slices.Contains(chosen, n) }); len(others) > 0 {
		p.Notes = append(p.Notes, fmt.Sprintf("samples of %s; left out are those of %s (--event)", strings.Join(chosen, " and "), strings.Join(others, ", ")))
	}
}

func orNone(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// IsPerfData reports whether a file begins as perf's own binary records do, which perf
// script prints as text.
func IsPerfData(start []byte) bool {
	return bytes.HasPrefix(start, []byte("PERFILE2")) || bytes.HasPrefix(start, []byte("2ELIFREP"))
}
