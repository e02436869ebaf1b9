package workload

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/tarelab/tare/internal/sample"
)

// Where the root file system holds the Unix workloads, and where the page must
// be mounted that makes the instances of a trial begin together.
const (
	UnixDir     = "/.tare"
	UnixPath    = UnixDir + "/unix"
	UnixBarrier = UnixDir + "/barrier"
)

// The programs of the dynamic build, which run with the machine's C library, the one
// that runs a user's UnixBench next to a test, and where the root has that UnixBench.
const (
	unixGNUPath      = UnixDir + "/unix-gnu"
	whetstoneGNUPath = UnixDir + "/whetstone-gnu"
	unixBenchPath    = UnixDir + "/unixbench"
	unixBenchHome    = UnixDir + "/user/unixbench"
)

// ParamUnixBuild is the parameter that says which build of a Unix test runs.
// UnixStatic is tare's own C library inside the program, the same on every machine.
// UnixDynamic is the machine's, as UnixBench has it where a user builds it.
const (
	ParamUnixBuild = "build"
	UnixStatic     = "static"
	UnixDynamic    = "dynamic"
)

// ParamUnixBench is the parameter that names the directory of a user's own UnixBench.
const ParamUnixBench = "unixbench"

// unixOverlapWanted is the part of their windows that containers should share
// for a trial to be one with all of them at work.
const unixOverlapWanted = 0.98

// unixTest is one test of the family: the same program and the same output,
// another subcommand, baseline and unit. docs/unix-index.md defines them.
type unixTest struct {
	name     string        // in the published tables; the kind is "unix-" and this
	args     []string      // subcommand and options of helpers/unix
	unit     string        // as the program prints it
	baseline float64       // "George", a SPARCstation 20-61, scores 10 (UnixBench 5.1.3, pgms/index.base)
	factor   float64       // from unit to the base unit of rate
	base     sample.Unit   // of rate
	seconds  time.Duration // one pass of UnixBench 5.1.3 (Run)
	cpu      bool          // has a rate by CPU time too
	programs bool          // runs busybox's programs
	file     int64         // size of the file that is copied, bytes; 0 for none
	help     string
	theirs   []string      // programs in pgms of UnixBench's directory
	around   time.Duration // what UnixBench's program takes besides its window
}

// unixTests are the tests of the index, in the order of published tables.
func unixTests() []unixTest {
	perSecond := unixTest{unit: "lps", factor: 1, base: sample.PerSecond, seconds: 10 * time.Second}
	kilobytes := unixTest{unit: "KBps", factor: 1024, base: sample.BytesPerSecond, seconds: 30 * time.Second}
	scripts := unixTest{unit: "lpm", factor: 1. / 60, base: sample.PerSecond, seconds: time.Minute, programs: true}
	define := func(t unixTest, baseline float64, help, name string, args ...string) unixTest {
		t.name, t.args, t.baseline, t.help = name, args, baseline, help
		return t
	}
	theirs := func(t unixTest, programs ...string) unixTest {
		t.theirs = programs
		return t
	}
	scripts.theirs = []string{"looper", "multi.sh", "tst.sh"}
	kilobytes.theirs, kilobytes.around = []string{"fstime"}, 15*time.Second // it writes, reads and sleeps before it copies
	whetstone := define(perSecond, 55, "floating-point loop mix of Curnow and Wichmann, double precision", "whetstone", "whetstone")
	whetstone.unit, whetstone.factor, whetstone.cpu = "MWIPS", 1e6, true
	whetstone.theirs, whetstone.around = []string{"whetstone-double"}, 12*time.Second // its window is always 10 s
	execl := define(perSecond, 43, "a program that replaces itself, over and over", "execl", "execl")
	execl.seconds, execl.theirs = 30*time.Second, []string{"execl"}
	spawn := define(perSecond, 126, "fork a process that ends at once, and wait for it", "process-creation", "process-creation")
	spawn.seconds, spawn.theirs = 30*time.Second, []string{"spawn"}
	copying := func(kib int64, baseline float64, piece string) unixTest {
		t := define(kilobytes, baseline, fmt.Sprintf("copy a file of %d KiB in %s-byte pieces, in the page cache", kib, piece),
			"file-copy-"+piece, "file-copy", "--buffer="+piece, fmt.Sprintf("--blocks=%d", kib))
		t.file = kib << 10
		return t
	}
	return []unixTest{
		define(theirs(perSecond, "dhry2reg"), 116700, "Weicker's Dhrystone 2.1 with register variables: integers and strings", "dhrystone2", "dhrystone2"),
		whetstone,
		execl,
		copying(2000, 3960, "1024"),
		copying(500, 1655, "256"),
		copying(8000, 5800, "4096"),
		define(theirs(perSecond, "pipe"), 12440, "one process writes 512 bytes into a pipe and reads them back", "pipe-throughput", "pipe-throughput"),
		define(theirs(perSecond, "context1"), 4000, "two processes hand a number back and forth through pipes", "pipe-context-switch", "pipe-context-switch"),
		spawn,
		define(scripts, 42.4, "a shell script over sort, od, grep, tee, wc and rm", "shell-1", "shell-1"),
		define(scripts, 6, "eight such scripts at once", "shell-8", "shell-8"),
		define(theirs(perSecond, "syscall"), 15000, "close(dup), getpid, getuid, umask", "syscall", "syscall"),
	}
}

// Kind is "unix-" and the test's name.
func (t unixTest) Kind() string { return "unix-" + t.name }

func (t unixTest) Help() string { return t.help }

func (t unixTest) Params() []Param {
	params := []Param{
		{Name: "time", Type: Duration, Default: t.seconds.String(), Help: "length of the timed window; default UnixBench's", Min: int64(10 * time.Millisecond), Max: int64(time.Hour)},
		{Name: "copies", Type: Integer, Default: "1", Help: "copies at once inside the target", Min: 1, Max: 4096},
		{Name: "files", Type: Choice, Default: "shared", Choices: []string{"shared", "own"}, Help: "whether the copies share their files, as in UnixBench 5.1.3, or have their own, as in 6"},
		{Name: "barrier", Type: Choice, Default: "none", Choices: []string{"none", "shared"}, Help: "shared: begin together with the trial's other instances, by the page at " + UnixBarrier},
		{Name: ParamUnixBuild, Type: Choice, Default: UnixStatic, Choices: []string{UnixStatic, UnixDynamic}, Help: "static: the same bits on every machine; dynamic: with this machine's C library, shell and programs, as a user builds UnixBench"},
		{Name: ParamUnixBench, Type: Directory, Default: noDirectory, Help: "directory of a UnixBench in which make was run: its programs run next to the tests, unchanged"},
	}
	switch t.name {
	case "syscall":
		params = append(params, Param{Name: "variant", Type: Choice, Default: "mix", Choices: []string{"mix", "getpid", "close", "exec"}, Help: "which system calls; a score is defined for the mix"})
	case "whetstone":
		params = append(params, Param{Name: "variant", Type: Choice, Default: "kept", Choices: []string{"kept", "as-compiled"}, Help: "kept: the compiler cannot leave out statements"})
	}
	return params
}

func (t unixTest) Metrics() []sample.Metric {
	metrics := append(sample.Describe(sample.UnixScore), sample.In(sample.UnixRate, t.base))
	if t.cpu {
		metrics = append(metrics, sample.Describe(sample.UnixCPUScore)...)
	}
	return append(metrics, sample.Describe(sample.UnixEvenness, sample.UnixOverlap, sample.UnixStart, sample.UnixEnd, sample.UnixTimed)...)
}

func (t unixTest) Command(v Values, _ []string) (Command, error) {
	dynamic := v.Text(ParamUnixBuild) == UnixDynamic
	args := append([]string{t.program(dynamic)}, t.args...)
	args = append(args,
		"--seconds="+strconv.FormatFloat(v.Duration("time").Seconds(), 'g', -1, 64),
		"--copies="+strconv.FormatInt(v.Int("copies"), 10),
		"--dir=/tmp")
	if v.Text("files") == "own" {
		args = append(args, "--own")
	}
	if v.Text("barrier") == "shared" {
		args = append(args, "--barrier="+UnixBarrier)
	}
	if variant, ok := v.texts["variant"]; ok && variant != "mix" && variant != "kept" {
		args = append(args, "--variant="+variant)
	}
	c := Command{Args: args, Env: []string{"PATH=/usr/bin:/bin"}, Length: v.Duration("time"), Memory: t.memory(v.Int("copies"), v.Text("files") == "own")}
	if t.programs {
		c.Needs = []string{"busybox"}
	}
	if dynamic {
		c.Dynamic, c.Otherwise = args[0], map[string]string{ParamUnixBuild: UnixStatic}
	}
	if t.programs && dynamic {
		c.Commands = []string{"sh", "sort", "od", "grep", "tee", "wc", "rm", "expr"}
	}
	if v.Text("barrier") == "shared" {
		c.Barrier = int(v.Int("copies"))
	}
	if home := v.Text(ParamUnixBench); home != noDirectory {
		t.besides(&c, v, home)
	} else if !dynamic {
		c.Turns = t.turns(v)
	}
	return c, nil
}

// program is the one that runs the test.
func (t unixTest) program(dynamic bool) string {
	switch {
	case !dynamic:
		return UnixPath
	case t.name == "whetstone":
		return whetstoneGNUPath
	}
	return unixGNUPath
}

// besides has the test of a user's UnixBench run next to ours.
func (t unixTest) besides(c *Command, v Values, home string) {
	args := []string{unixBenchPath, "--home=" + unixBenchHome,
		"--seconds=" + strconv.FormatFloat(v.Duration("time").Seconds(), 'g', -1, 64),
		"--copies=" + strconv.FormatInt(v.Int("copies"), 10), "--dir=/tmp"}
	if c.Barrier > 0 {
		args = append(args, "--after") // ours begin together with those of other instances
	}
	c.Args = slices.Concat(args, []string{t.name, "--"}, c.Args)
	hint := fmt.Sprintf("is %s the directory with UnixBench's Run, and was make run there?", home)
	for _, program := range t.theirs {
		c.Files = append(c.Files, File{home, "pgms/" + program, unixBenchHome + "/pgms/" + program, hint})
	}
	if t.programs {
		c.Files = append(c.Files, File{home, "testdir/sort.src", unixBenchHome + "/testdir/sort.src", hint})
	}
	c.Length += max(time.Second, v.Duration("time")).Truncate(time.Second) + t.around
	c.Gives = sample.Describe(sample.UnixBenchScore, sample.UnixBenchRatio)
}

// memory is what so many copies need at least, in bytes: each two processes of
// one MiB, or a MiB for each program of the scripts that run at once, and the two
// files of file-copy, once or for each copy.
func (t unixTest) memory(copies int64, own bool) int64 {
	each := int64(2 << 20)
	switch t.name {
	case "shell-1":
		each = 4 << 20
	case "shell-8":
		each = 32 << 20
	}
	files := 2 * t.file
	if own {
		files *= copies
	}
	return copies*each + files
}

// unixLine is one copy's line of output; every field is always there but
// those of whetstone, which has them where CPU time went by.
type unixLine struct {
	Test     string    `json:"test"`
	Build    string    `json:"build"` // "unixbench" of a user's own program; "" of ours
	Copy     int       `json:"copy"`
	Count    float64   `json:"count"`
	Whole    float64   `json:"whole"` // with all of the last batch, as CPU has it; 0 in older records
	Seconds  float64   `json:"seconds"`
	CPU      float64   `json:"cpu_seconds"`
	Unit     string    `json:"unit"`
	Value    float64   `json:"value"`
	CPUValue float64   `json:"cpu_value"`
	Sections []float64 `json:"sections"`
	Readings int       `json:"clock_readings"` // of clocks in the window; 0 in older records
	Start    int64     `json:"start"`
	First    int64     `json:"first"`
	End      int64     `json:"end"`
	Check    string    `json:"check"`
}

// Parse reads one line of JSON per copy.
func (t unixTest) Parse(stdout []byte) ([]sample.Value, error) {
	lines, theirs, err := t.lines(stdout)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", t.Kind(), err)
	}
	var rate, cpu float64
	least, most := math.Inf(1), 0.
	for _, l := range lines {
		rate += l.Value
		cpu += l.CPUValue
		least, most = min(least, l.Value), max(most, l.Value)
	}
	start, end, longest := window(lines)
	values := []sample.Value{
		{Metric: sample.UnixScore, Value: 10 * rate / t.baseline},
		{Metric: sample.UnixRate, Value: rate * t.factor},
		{Metric: sample.UnixEvenness, Value: least / most},
		{Metric: sample.UnixOverlap, Value: max(0, float64(end-start)/float64(longest))},
		{Metric: sample.UnixStart, Value: float64(start) / 1e9},
		{Metric: sample.UnixEnd, Value: float64(end) / 1e9},
		{Metric: sample.UnixTimed, Value: float64(longest) / 1e9},
	}
	// A machine's clock of CPU time may have stood still over a copy's window.
	if t.cpu && !slices.ContainsFunc(lines, func(l unixLine) bool { return l.CPUValue == 0 }) {
		values = append(values, sample.Value{Metric: sample.UnixCPUScore, Value: 10 * cpu / t.baseline})
	}
	return checked(append(values, t.besideTheirs(lines, theirs)...))
}

// besideTheirs is the score of a user's own UnixBench, and ours by it; nothing where it
// did not run.
func (t unixTest) besideTheirs(ours, theirs []unixLine) []sample.Value {
	if len(theirs) == 0 {
		return nil
	}
	var rate, byCPU, oursByCPU float64
	for _, l := range theirs {
		rate += l.Value
		byCPU += l.CPUValue
	}
	for _, l := range ours {
		value := l.CPUValue // whetstone's
		if value == 0 {
			value = l.Value * l.Seconds / l.CPU * cmp.Or(l.Whole, l.Count) / l.Count
		}
		oursByCPU += value
	}
	values := []sample.Value{{Metric: sample.UnixBenchScore, Value: 10 * rate / t.baseline}}
	ratio := oursByCPU / float64(len(ours)) / (byCPU / float64(len(theirs)))
	if ratio > 0 && !math.IsInf(ratio, 0) { // a clock of CPU time may have stood still
		values = append(values, sample.Value{Metric: sample.UnixBenchRatio, Value: ratio})
	}
	return values
}

// window is the time in which all copies were at work, from the latest first
// iteration on (the barrier opens for all at once, but not each gets a CPU then),
// and the length of the longest timed window; where there was no such time, end
// is before start.
func window(lines []unixLine) (start, end, longest int64) {
	start, end = lines[0].First, lines[0].End
	for _, l := range lines {
		start, end, longest = max(start, l.First), min(end, l.End), max(longest, l.End-l.Start)
	}
	return start, end, longest
}

// lines are those of our copies, and those of a user's own UnixBench.
func (t unixTest) lines(stdout []byte) (ours, theirs []unixLine, err error) {
	decode := json.NewDecoder(bytes.NewReader(stdout))
	decode.DisallowUnknownFields()
	type copy struct {
		build string
		of    int
	}
	seen := map[copy]bool{}
	for {
		var l unixLine
		err := decode.Decode(&l)
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = t.sound(l)
		}
		if err == nil && seen[copy{l.Build, l.Copy}] {
			err = fmt.Errorf("copy %d for the second time", l.Copy)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("line %d of the output: %w", len(ours)+len(theirs)+1, err)
		}
		seen[copy{l.Build, l.Copy}] = true
		if l.Build == buildTheirs {
			theirs = append(theirs, l)
		} else {
			ours = append(ours, l)
		}
	}
	if len(ours) == 0 {
		return nil, nil, errors.New("no copy has printed its line")
	}
	return ours, theirs, nil
}

// buildTheirs marks a line of a user's own UnixBench.
const buildTheirs = "unixbench"

// sound says what cannot be true in a line.
func (t unixTest) sound(l unixLine) error {
	name := l.Test == t.name || t.hasVariants() && strings.HasPrefix(l.Test, t.name+"-")
	switch {
	case !name:
		return fmt.Errorf("test %q, not %q", l.Test, t.name)
	case l.Unit != t.unit:
		return fmt.Errorf("unit %q, not %q", l.Unit, t.unit)
	case l.Build != "" && l.Build != buildTheirs:
		return fmt.Errorf("build %q, not %q", l.Build, buildTheirs)
	case l.Build == buildTheirs && !(l.CPUValue > 0):
		return fmt.Errorf("value of UnixBench's program by CPU time: %v", l.CPUValue)
	case l.Check != "ok":
		return fmt.Errorf("check %q, not \"ok\"", l.Check)
	case l.Count == 0 || l.Value <= 0 || l.End <= l.Start || l.First < l.Start:
		return fmt.Errorf("nothing was measured: count %v, value %v, window %d to %d, first iteration at %d", l.Count, l.Value, l.Start, l.End, l.First)
	case l.CPUValue < 0:
		return fmt.Errorf("value by CPU time: %v", l.CPUValue)
	}
	return nil
}

func (t unixTest) hasVariants() bool { return t.name == "syscall" || t.name == "whetstone" }

// unixPage is the length of the barrier's page (helpers/unix/barrier.c).
const unixPage = 4096

// UnixBarrierPage is the content of a fresh page for the barrier at which
// parties copies meet: the sum of the copies of all instances of a trial.
// Three 32-bit words of the machine's byte order, then zeroes: how many have
// arrived, whether they may go, how many are wanted (helpers/unix/barrier.c).
func UnixBarrierPage(parties int) []byte {
	page := make([]byte, unixPage)
	binary.NativeEndian.PutUint32(page[8:], uint32(parties))
	return page
}

// UnixBarrierAbort lets those who wait at the page fail at once; it is without
// effect once they have been let go. page is the mapped file of
// UnixBarrierPage, shared with the instances.
func UnixBarrierAbort(page []byte) {
	const waiting, aborted = 0, 2 // the second word (helpers/unix/barrier.c)
	atomic.CompareAndSwapUint32((*uint32)(unsafe.Pointer(&page[4])), waiting, aborted)
}

// unixTogether says how much of the timed window the instances shared: from the
// latest first iteration of any copy of any to the earliest end, by the longest
// timed window, which begins when the barrier opens. Windows
// that do not lie within the trial are of another clock than the host's, as a
// target with a kernel of its own has, and cannot be set beside each other.
func unixTogether(from, to float64, values map[string][]float64) ([]sample.Value, []sample.Warning) {
	starts, ends, timed := values[sample.UnixStart], values[sample.UnixEnd], values[sample.UnixTimed]
	if len(starts) < 2 || len(starts) != len(ends) || len(starts) != len(timed) {
		return nil, nil
	}
	if slices.Min(starts) < from || slices.Max(ends) > to {
		return nil, []sample.Warning{{Kind: sample.OtherClock}}
	}
	shared := max(0, (slices.Min(ends)-slices.Max(starts))/slices.Max(timed))
	v := []sample.Value{{Metric: sample.UnixContainersOverlap, Value: shared}}
	if shared < unixOverlapWanted {
		return v, []sample.Warning{{Kind: sample.Overlapped, Share: shared, Least: unixOverlapWanted}}
	}
	return v, nil
}

// UnixTestNames are the names of the tests as published tables have them.
func UnixTestNames() []string {
	var names []string
	for _, t := range unixTests() {
		names = append(names, t.name)
	}
	return names
}

// UnixWindow is UnixBench's own window of a kind of workload; ok is false where
// that is no Unix test.
func UnixWindow(kind string) (length time.Duration, ok bool) {
	for _, t := range unixTests() {
		if t.Kind() == kind {
			return t.seconds, true
		}
	}
	return 0, false
}

// UnixComputes says of a kind of workload that it is a Unix test whose tasks are
// on a CPU all through its window: they wait for nothing.
func UnixComputes(kind string) bool {
	return slices.Contains([]string{"unix-dhrystone2", "unix-whetstone", "unix-pipe-throughput", "unix-syscall"}, kind)
}

// UnixBaseline is the rate of the baseline machine, in the unit of published
// tables (lps, KBps, MWIPS, lpm), and that unit; ok is false for other names.
func UnixBaseline(test string) (rate float64, unit string, ok bool) {
	for _, t := range unixTests() {
		if t.name == test {
			return t.baseline, t.unit, true
		}
	}
	return 0, "", false
}
