package profile

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tarelab/tare/internal/limit"
)

// Texts of perf script, as perf 6.1 prints them.
const (
	clockText = `# ========
# os release : 4.19.91-26.al7.x86_64
# nrcpus online : 104
# ========
#
churn 42/43 [001]     1.000000:     250000 cpu-clock:pppH: 
	ffffffff81000001 osq_lock+0x10 ([kernel.kallsyms])
	ffffffff81000002 rwsem_optimistic_spin+0x20 ([kernel.kallsyms])
	ffffffff81000003 down_write.isra.0+0x1 ([kernel.kallsyms])
	ffffffff81000004 filename_create+0x1 ([kernel.kallsyms])
	ffffffff81000005 do_mkdirat+0x1 ([kernel.kallsyms])
	          401000 operator new(unsigned long)+0x7 (/opt/a program (1).so)

my program 44 [000]     1.500000:     750000 cpu-clock:pppH: 
	          401000 main+0x7 (/opt/a)

kworker/0:1 7 [000]     2.000000:    1000000 cpu-clock:pppH: 
	ffffffff81000009 xs_send+0x7 ([xs])
	ffffffff8100000a ret_from_fork+0x22 ([kernel.kallsyms])
`
	lockText = `a 10 [000] 1.000000: lock:contention_begin: 0xffff8881fbc3cd40 (flags=MUTEX|SPIN)
	ffffffff82201d7e __mutex_lock+0x1 ([kernel.kallsyms])
	ffffffff82201d7f cgroup_kn_lock_live+0x1 ([kernel.kallsyms])

b 11 [001] 1.100000: lock:contention_begin: 0xffff888100000000 (flags=READ)
	ffffffff82201d7e rwsem_down_read_slowpath+0x1 ([kernel.kallsyms])
	ffffffff82201d7f walk_component+0x1 ([kernel.kallsyms])

a 10 [000] 1.200000: lock:contention_begin: 0xffff8881fbc3cd40 (flags=MUTEX)
	ffffffff82201d7e __mutex_lock+0x1 ([kernel.kallsyms])

a 10 [000] 1.500000:   lock:contention_end: 0xffff8881fbc3cd40 (ret=0)
	ffffffff82201d7e __mutex_lock+0x1 ([kernel.kallsyms])

c 12 [001] 1.600000: lock:contention_end: 0x0 (ret=0)
`
	switchText = `a 10 [000] 1.000000: sched:sched_switch: prev_comm=a prev_pid=10 prev_prio=120 prev_state=D ==> next_comm=swapper/0 next_pid=0 next_prio=120
	ffffffff82201d7e __schedule+0x1 ([kernel.kallsyms])
	ffffffff82201d7e schedule+0x1 ([kernel.kallsyms])
	ffffffff82201d7f io_schedule+0x1 ([kernel.kallsyms])

swapper 0 [000] 1.250000: sched:sched_switch: swapper/0:0 [120] R ==> a:10 [120]
	ffffffff82201d7e __schedule+0x1 ([kernel.kallsyms])
`
)

func imports(t *testing.T, text, event string) Profile {
	t.Helper()
	p, err := Import(strings.NewReader(text), event)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestImportOfAClock(t *testing.T) {
	p := imports(t, clockText, "")
	if p.Source != SourcePerf || p.Unit != "" || p.Elapsed != time.Second || len(p.Samples) != 3 || len(p.Lost) != 0 {
		t.Fatalf("%+v", p)
	}
	if got := p.Samples[1]; got.Comm != "my program" || got.Total != 750*time.Microsecond || got.Stack != -1 || got.Kernel {
		t.Errorf("%+v", got)
	}
	if got := p.Stacks[p.Samples[0].User]; !slices.Equal(got, []string{"operator new(unsigned long)"}) {
		t.Errorf("%q", got)
	}
	if !p.Samples[2].Kernel || len(p.Stacks[p.Samples[2].Stack]) != 2 {
		t.Errorf("a kernel thread, in a module: %+v", p.Samples[2])
	}
	if notes := strings.Join(p.Notes, "\n"); !strings.Contains(notes, "Linux 4.19.91-26.al7.x86_64, 104 CPUs") {
		t.Errorf("notes %q", notes)
	}
	rows := p.Estimate("a test").Table()
	if len(rows) != 1 || rows[0].Name != Directory || rows[0].Total != 250e-6 {
		t.Errorf("the lock that is spun for: %+v", rows)
	}
	for _, f := range p.Functions() {
		switch f.Name {
		case "osq_lock":
			if math.Abs(f.Self-0.125) > 1e-9 || math.Abs(f.All-0.125) > 1e-9 {
				t.Errorf("%+v", f)
			}
		case "down_write", "operator new(unsigned long)":
			if f.Self != 0 || math.Abs(f.All-0.125) > 1e-9 {
				t.Errorf("%+v", f)
			}
		case "down_write.isra.0":
			t.Error("a compiler's suffix stays")
		}
	}
}

func TestImportOfOtherEvents(t *testing.T) {
	cycles := strings.NewReplacer("cpu-clock:pppH", "cycles:u").Replace(clockText)
	if p := imports(t, cycles, ""); p.Unit != "cycles" || p.Samples[0].Total != 250000 {
		t.Errorf("cycles: %+v", p)
	}
	both := cycles + "\nsh 9 [000] 3.0: 1 page-faults:u: \n\t 401000 main+0x1 (/bin/sh)\n\n"
	if p := imports(t, both, ""); len(p.Samples) != 3 || !strings.Contains(strings.Join(p.Notes, ""), "left out are those of page-faults") {
		t.Errorf("two events: %+v", p)
	}
	if p := imports(t, both, "page-faults"); len(p.Samples) != 1 || p.Unit != "page-faults" {
		t.Errorf("the event that was asked for: %+v", p)
	}
	if _, err := Import(strings.NewReader(both), "branches"); !errors.Is(err, ErrNoProfile) || !strings.Contains(err.Error(), "it has cycles, page-faults") {
		t.Errorf("an event that is not there: %v", err)
	}
	bare := "sh 9 \n\t 401000 main+0x1 (/bin/sh)\n\nmy sh 9\n\t 401000 main+0x1 (/bin/sh)\n\n"
	if p := imports(t, bare, ""); p.Unit != "samples" || len(p.Samples) != 2 || p.Samples[1].Comm != "my sh" || p.Samples[1].Total != 1 {
		t.Errorf("without event, period and time: %+v", p)
	}
	line := "   sh    9 [000] 3.0:     250000 cpu-clock:            401000 main+0x7 (/bin/sh)\n"
	if p := imports(t, line, ""); len(p.Samples) != 1 || p.Stacks[p.Samples[0].User][0] != "main" {
		t.Errorf("without stacks: %+v", p)
	}
}

func TestImportOfWaits(t *testing.T) {
	p := imports(t, lockText, "")
	rows := p.Table()
	if len(rows) != 2 || len(p.Samples) != 0 {
		t.Fatalf("%+v", rows)
	}
	if r := rows[0]; r.Name != CgroupMutex && rows[1].Name != CgroupMutex || r.Kind == Sleep {
		t.Errorf("%+v", rows)
	}
	for _, r := range rows {
		want := Row{Waits: 1, Total: 0.5}
		if r.Kind == RWSem {
			want.Unfinished = 1 // until the last sample
		}
		if r.Waits != want.Waits || math.Abs(r.Total-want.Total) > 1e-6 || r.Unfinished != want.Unfinished {
			t.Errorf("%+v, want %+v", r, want)
		}
	}
}

func TestImportOfSwitches(t *testing.T) {
	p := imports(t, switchText+"\n"+clockText, "")
	if total := p.StateTotal(Asleep); math.Abs(total-0.25) > 1e-6 || p.Unit != "" {
		t.Errorf("asleep %g s, %+v", total, p)
	}
	if rows := p.Estimate("a test").Table(); len(rows) != 2 || rows[0].Name != "I/O" {
		t.Errorf("%+v", rows)
	}
}

// Of threads that wait at the end, each import gives the same order.
func TestImportIsTheSameEachTime(t *testing.T) {
	var text strings.Builder
	for thread := range 20 {
		fmt.Fprintf(&text, "a %d [000] 1.000000: lock:contention_begin: 0x%d (flags=MUTEX)\n\n", thread+1, thread+1)
	}
	text.WriteString("a 99 [000] 2.000000: lock:contention_end: 0x0 (ret=0)\n")
	want := imports(t, text.String(), "")
	if again := imports(t, text.String(), ""); len(want.Waits) != 20 || !reflect.DeepEqual(again, want) {
		t.Errorf("waits are in another order:\n%+v\n%+v", want.Waits, again.Waits)
	}
}

// A thread that comes back before it left, by clocks of two CPUs, was away for no time.
func TestImportOfSwitchesInDisorder(t *testing.T) {
	p := imports(t, strings.Replace(switchText, "1.250000", "0.750000", 1)+"\n"+clockText, "")
	if total := p.StateTotal(Asleep); total != 0 {
		t.Errorf("asleep %g s", total)
	}
}

// What tare writes itself it reads, and so does it what stackcollapse-perf.pl writes.
func TestImportOfFoldedStacks(t *testing.T) {
	p := imports(t, clockText, "")
	var folded bytes.Buffer
	if err := p.Folded(&folded); err != nil {
		t.Fatal(err)
	}
	again := imports(t, folded.String(), "")
	if again.Source != SourceFolded || again.Unit != "" || math.Abs(again.StateTotal(OnCPU)-p.StateTotal(OnCPU)) > 1e-9 {
		t.Errorf("%+v", again)
	}
	same := func(f FunctionShare) bool { return f.Name == "osq_lock" && math.Abs(f.Self-0.125) < 1e-9 }
	if !slices.ContainsFunc(again.Functions(), same) {
		t.Errorf("%+v", again.Functions())
	}
	if p = imports(t, "bash 5\nsh;main 10\n", ""); len(p.Samples) != 2 {
		t.Errorf("a thread without a stack: %+v", p)
	}
	p = imports(t, "sh;main;do_syscall_64_[k];do_mkdirat_[k] 30\nsh;main 10\n", "")
	if p.Unit != "samples" || len(p.Samples) != 2 || p.Samples[0].Total != 30 || p.Samples[0].Count != 30 || p.Stacks[0][0] != "do_mkdirat" {
		t.Errorf("%+v", p)
	}
}

func TestImportRefuses(t *testing.T) {
	deep := "sh 9 [000] 3.0: 1 cpu-clock: \n" + strings.Repeat("\t 401000 main+0x1 (/bin/sh)\n", limit.Profile.Depth+1)
	for name, c := range map[string]struct {
		text string
		want string
	}{
		"nothing":        {"", "it holds no sample"},
		"something else": {"<html>\nx\n", `begins with "<html>"`},
		"a study":        {"id: mine\nrounds: 5\ntargets: [host]\n", `begins with "id: mine"`},
		"a number":       {"# x\nrounds: 5\n", `begins with "rounds: 5"`},
		"it is deeper":   {"plan:\n  rounds: 5\n", `begins with "plan:"`},
		"a list":         {"- 5\n- 6\n", `begins with "- 5"`},
		"only a head":    {"# os release : 4.4\n# arch : x\n", "it holds no sample"},
		"no sample":      {"# x\nsh 9 [000] 3.0: lock:contention_end: 0x1 (ret=0)\n", "no sample of any event"},
		"a long line":    {"sh;" + strings.Repeat("x", longestLine) + " 1\n", "more than 1048576 bytes"},
	} {
		if _, err := Import(strings.NewReader(c.text), ""); !errors.Is(err, ErrNoProfile) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Import(strings.NewReader(deep), ""); !errors.As(err, new(*limit.Error)) {
		t.Errorf("a deep stack: %v", err)
	}
	for name, line := range map[string]string{"programs without a stack": "p%d 1\n", "events": "sh 9 [000] 3.0: 1 e%d:\n\t 1 main\n\n"} {
		var text strings.Builder
		for n := range limit.Profile.Items + 1 {
			fmt.Fprintf(&text, line, n)
		}
		if _, err := Import(strings.NewReader(text.String()), ""); !errors.As(err, new(*limit.Error)) {
			t.Errorf("too many %s: %v", name, err)
		}
	}
	if !IsPerfData([]byte("PERFILE2 and more")) || IsPerfData([]byte("PERF")) {
		t.Error("perf.data is not told by its beginning")
	}
}

// TestImportKeepsNoLines: of a long name the beginning is kept, without the line that it
// stood in, and too many names are refused.
func TestImportKeepsNoLines(t *testing.T) {
	const lines, length = 24, 128 << 10
	pad := strings.Repeat("a", length)
	for what, line := range map[string]string{
		"long names":     "sh;%[1]d%[2]s 1\n",
		"short names":    "sh;%[1]d;%[2]s 1\n",
		"threads":        "%[1]d%[2]s;main 1\n",
		"perf's frames":  "sh 9 [000] 3.0: 1 cpu-clock:\n\t 401000 %[1]d%[2]s (/bin/sh)\n\n",
		"perf's threads": "%[1]d%[2]s 9 [000] 3.0: 1 cpu-clock:\n\t 401000 main (/bin/sh)\n\n",
	} {
		var text strings.Builder
		for n := range lines {
			fmt.Fprintf(&text, line, n, pad)
		}
		before := live()
		p, err := Import(strings.NewReader(text.String()), "")
		if kept := live() - before; err != nil || len(p.Samples) != lines || kept > lines*length/4 {
			t.Errorf("%s: %d samples, %d bytes are kept, %v", what, len(p.Samples), kept, err)
		}
		runtime.KeepAlive(&text)
		runtime.KeepAlive(p)
	}
	whole := limit.ProfileNames
	t.Cleanup(func() { limit.ProfileNames = whole })
	limit.ProfileNames.Bytes = 2000
	if _, err := Import(strings.NewReader("sh;"+pad+" 1\n"), ""); !errors.As(err, new(*limit.Error)) {
		t.Errorf("too many names: %v", err)
	}
}

// live is how many bytes of the heap are in use.
func live() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func FuzzImport(f *testing.F) {
	for _, text := range []string{clockText, lockText, switchText, "sh;main 10\n", "on CPU;kernel threads;x;y 17\n"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var p Profile
		var err error
		if over := limit.Profile.CheckAlloc(func() { p, err = Import(bytes.NewReader(text), "") }); over != nil {
			t.Fatal(over)
		}
		if err != nil {
			return
		}
		p.Table()
		p.Times()
		p.Flame()
		p.Functions()
		if err := p.Folded(new(bytes.Buffer)); err != nil {
			t.Fatal(err)
		}
	})
}

// What perf prints where a program's file was replaced, where it made its code
// itself, where the kernel's compiler inlined, and of a thread that perf lost.
func TestImportOfOddFrames(t *testing.T) {
	p := imports(t, `node 99 [001] d..2. 1.000000: 250000 cpu-clock:
	ffff800010000001 __arch_copy+0x10 (inlined)
	ffff800010000001 copy_user+0x20 ([kernel.kallsyms])
	    7f1234567890 main (/usr/bin/node (deleted))
	    7f1234567891 [unknown] (/memfd:doublemapper (deleted))
	    3f1234567899 [unknown] ([anon:v8])

:-1    -1 [000] 1.100000: 250000 cpu-clock:
	9000000000200000 idle (inlined)
`, "")
	var got []string
	for _, s := range p.Samples {
		line := s.Comm + ":"
		for _, at := range []int{s.Stack, s.User} {
			if at >= 0 {
				line += " " + strings.Join(p.Stacks[at], ",")
			}
			line += ";"
		}
		got = append(got, line)
	}
	if want := []string{"node: __arch_copy,copy_user; main,[unknown],[unknown];", ":-1: idle;;"}; !slices.Equal(got, want) {
		t.Errorf("samples are %q, want %q", got, want)
	}
}
