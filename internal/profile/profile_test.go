package profile

import (
	"bytes"
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	pprof "github.com/google/pprof/profile"

	"github.com/tarelab/tare/internal/sample"
)

const ms = time.Millisecond

// merged are the profiles of several trials, added up.
func merged(all []Profile) Profile {
	m := NewSum()
	for _, p := range all {
		m.Add(p)
	}
	return m.Profile()
}

// made is a profile of four waits: two for one lock, of which the table knows
// one taker alone; one of a kernel thread; one that lost its stack and lock.
func made() Profile {
	return Profile{
		Elapsed: time.Second, Cost: 5 * ms,
		Waits: []Wait{
			{Kind: Mutex, Lock: 0x10, Stack: 0, Count: 100, Total: 30 * ms, Most: 2 * ms, Times: times(100, 300*time.Microsecond)},
			{Kind: Mutex, Lock: 0x10, Stack: 1, Count: 1, Total: 10 * ms, Most: 10 * ms, Times: times(1, 10*ms)},
			{Kind: RWSem, Lock: 0x20, Stack: 2, Kernel: true, Count: 2, Total: 50 * ms, Most: 40 * ms, Times: times(2, 25*ms)},
			{Kind: OtherLock, Stack: -1, Count: 3, Total: 3 * ms, Most: ms, Times: times(3, ms)},
		},
		Stacks: [][]string{
			{"__mutex_lock", "cgroup_kn_lock_live", "cgroup_mkdir", "do_mkdirat"},
			{"__mutex_lock", "nobody_knows;me", "do_rmdir"},
			{"down_write", "cleanup_net", "process_one_work"},
		},
		Notes: []string{"a note"}, Lost: map[string]uint64{"stacks": 3},
	}
}

func times(n int, each time.Duration) (h Histogram) {
	for range n {
		h.Count(each)
	}
	return h
}

func TestTable(t *testing.T) {
	rows := made().Table()
	if len(rows) != 3 || !rows[0].Kernel || rows[0].Name != "pernet_ops_rwsem" || rows[2].Name != other {
		t.Fatalf("rows %+v", rows)
	}
	r := rows[1] // one lock has one address, whoever takes it
	if r.Name != CgroupMutex || !r.Inferred || r.Waits != 101 || r.Locks != 1 || r.Total != 0.04 || r.Most != 0.01 || len(r.Places) != 2 {
		t.Errorf("%+v", r)
	}
	if math.Abs(r.P99-300e-6) > 0.06*300e-6 {
		t.Errorf("p99 %g, of 100 waits of 300 µs and one of 10 ms", r.P99)
	}
	if rows[0].P99 != 0 {
		t.Errorf("p99 %g of 2 waits", rows[0].P99)
	}
	if p := r.Places[0]; p.Function != "cgroup_kn_lock_live" || strings.Join(p.Path, " ") != "cgroup_kn_lock_live cgroup_mkdir do_mkdirat" {
		t.Errorf("place %+v", p)
	}
}

func TestTheKernelsWordIsNotInferred(t *testing.T) {
	p := made()
	p.Waits[0].Symbol = "cgroup_mutex"
	for _, r := range p.Table() {
		if r.Name == CgroupMutex && r.Inferred {
			t.Errorf("%+v", r)
		}
	}
}

// At one address may be other locks: in another trial, and of another kind.
func TestNamesAreOfTheirTrialAndKind(t *testing.T) {
	stacks := [][]string{{"__mutex_lock", "cgroup_kn_lock_live"}, {"__mutex_lock", "rtnl_lock", "rtnetlink_rcv_msg"}, {"__mutex_lock", "nobody_knows"}, {"down_write", "nobody_knows"}}
	trial := func(taker int, longer time.Duration) Profile {
		return Profile{Stacks: stacks, Waits: []Wait{
			{Kind: Mutex, Lock: 0x10, Stack: taker, Count: 1, Total: longer},
			{Kind: Mutex, Lock: 0x10, Stack: 2, Count: 1, Total: ms},
			{Kind: RWSem, Lock: 0x10, Stack: 3, Count: 1, Total: ms},
		}}
	}
	got := map[string]uint64{}
	for _, r := range merged([]Profile{trial(0, 5*ms), trial(1, 9*ms)}).Table() {
		got[r.Name+" "+string(r.Kind)] += r.Waits
	}
	want := map[string]uint64{"cgroup_mutex mutex": 2, "rtnl_mutex mutex": 2, "in nobody_knows rwsem": 2}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestLockShare(t *testing.T) {
	p := made() // 43 ms of lock waits that are not the kernel's threads'
	for _, test := range []struct {
		within, lock string
		want         float64
	}{{"do_mkdirat", CgroupMutex, 30. / 43}, {"do_rmdir", CgroupMutex, 10. / 43}, {"do_rmdir", "", 10. / 43}, {"do_rmdir", Directory, 0}, {"process_one_work", "", 0}} {
		if got := p.LockShare(test.within, test.lock); math.Abs(got-test.want) > 1e-9 {
			t.Errorf("%+v: %g", test, got)
		}
	}
	if got := (Profile{}).LockShare("do_mkdirat", ""); got != 0 {
		t.Errorf("share of nothing: %g", got)
	}
}

func TestValuesAreThoseOfTheMetrics(t *testing.T) {
	got := map[string]float64{}
	waited := made()
	waited.Waits = append(waited.Waits, Wait{Kind: Mutex, Lock: 0x10, Stack: 0, Shared: true, Count: 1, Total: 7 * ms, Most: 7 * ms})
	for _, p := range []Profile{waited, spent()} {
		for _, v := range p.Values() {
			got[v.Metric] = v.Value
		}
	}
	for _, m := range Metrics() {
		if _, ok := got[m.Name]; !ok {
			t.Errorf("no value of %s", m.Name)
		}
	}
	for metric, want := range map[string]float64{sample.LockWait: 0.043, sample.LockWaits: 104, sample.SleepWait: 0, sample.ProbeTime: 0.005, "wait-cgroup-mutex": 0.04, "wait-pernet": 0, sample.KernelWait: 0.05, sample.SharedWait: 0.007, "wait-rtnl": 0, sample.OnCPUTime: 0.07, sample.AsleepTime: 0.061, sample.RunnableTime: 0.002} {
		if math.Abs(got[metric]-want) > 1e-9 {
			t.Errorf("%s: %g, want %g", metric, got[metric], want)
		}
	}
}

// TestHiddenNames: where the kernel tells none, locks are addresses, and no place
// is named after the probe's own frames.
func TestHiddenNames(t *testing.T) {
	p := Profile{Hidden: true,
		Waits: []Wait{
			{Kind: Mutex, Lock: 0xffff10, Stack: 0, Count: 1, Total: 3 * ms},
			{Kind: Sleep, Stack: 0, Count: 1, Total: 2 * ms},
		},
		Samples: []Sample{{State: Asleep, Stack: 0, User: -1, Comm: "sh", Count: 1, Total: ms}},
		Stacks:  [][]string{{"0xffffc0de", "0xffff8001"}},
	}
	for i, want := range []string{"lock at 0xffff10", "uninterruptible sleep"} {
		if r := p.Table()[i]; r.Name != want || r.Inferred || r.Places[0].Function != "(names hidden)" {
			t.Errorf("%+v, want %s", r, want)
		}
	}
	if rows := p.Times(); rows[0].Name != "(names hidden)" {
		t.Errorf("%+v", rows)
	}
}

func TestSumAddsUp(t *testing.T) {
	a, b := made(), made()
	a.Waits[0].Unfinished, b.Waits[0].Unfinished = 1, 1 // of one stack and lock
	b.Stacks[0], b.Stacks[1] = b.Stacks[1], b.Stacks[0] // another order of the same
	b.Waits[0].Stack, b.Waits[1].Stack = 1, 0
	m := merged([]Profile{a, b})
	if m.Elapsed != 2*time.Second || m.Cost != 10*ms || m.Lost["stacks"] != 6 || len(m.Notes) != 1 || len(m.Stacks) != 3 || len(m.Waits) != 4 {
		t.Fatalf("%+v", m)
	}
	one, two := a.Table(), m.Table()
	for i := range one {
		if two[i].Name != one[i].Name || two[i].Waits != 2*one[i].Waits || two[i].Total != 2*one[i].Total || two[i].Most != one[i].Most || two[i].Unfinished != 2*one[i].Unfinished {
			t.Errorf("%+v, twice %+v", two[i], one[i])
		}
	}
}

// TestFoldedAndPprof reads back what is written: frames, counts and times agree.
func TestFoldedAndPprof(t *testing.T) {
	p := made()
	p.Samples = []Sample{{State: OnCPU, Stack: 2, User: -1, Comm: "sh", Count: 7, Total: 70 * ms}}
	var folded, packed bytes.Buffer
	if err := p.Folded(&folded); err != nil {
		t.Fatal(err)
	}
	want := map[string]int64{
		"do_mkdirat;cgroup_mkdir;cgroup_kn_lock_live;__mutex_lock;[cgroup_mutex] 30000":   30,
		"do_rmdir;nobody_knows:me;__mutex_lock;[cgroup_mutex] 10000":                      10,
		"kernel threads;process_one_work;cleanup_net;down_write;[pernet_ops_rwsem] 50000": 50,
		"[other] 3000": 3,
		"on CPU;sh;process_one_work;cleanup_net;down_write 70000": 70,
	}
	lines := strings.Split(strings.TrimSpace(folded.String()), "\n")
	for _, line := range lines {
		if _, ok := want[line]; !ok {
			t.Errorf("unexpected: %s", line)
		}
	}
	if len(lines) != len(want) {
		t.Errorf("%d lines", len(lines))
	}
	if err := p.Pprof(&packed); err != nil {
		t.Fatal(err)
	}
	read, err := pprof.Parse(&packed)
	if err != nil {
		t.Fatal(err)
	}
	if err := read.CheckValid(); err != nil {
		t.Error(err)
	}
	var count, nanoseconds int64
	for _, s := range read.Sample {
		count, nanoseconds = count+s.Value[0], nanoseconds+s.Value[1]
	}
	if len(read.Sample) != 5 || count != 113 || time.Duration(nanoseconds).Round(time.Microsecond) != 163*ms || read.DurationNanos != int64(time.Second) {
		t.Errorf("%d samples, count %d, %d ns: %s", len(read.Sample), count, nanoseconds, read)
	}
}

func TestFlameHoldsAllAndPrunesTheSmall(t *testing.T) {
	p := made()
	p.Stacks = append(p.Stacks, []string{"tiny"})
	p.Waits = append(p.Waits, Wait{Kind: Mutex, Lock: 1, Stack: 3, Count: 1, Total: time.Microsecond})
	root := p.Flame()
	if math.Abs(root.Value-0.093001) > 1e-9 || len(root.Children) != 4 {
		t.Errorf("%+v", root)
	}
}

func TestHistogram(t *testing.T) {
	for d := time.Duration(1); d < 100*time.Second; d += d/7 + 1 {
		at := bucketOf(d)
		if low, high := bounds(at); d < 1<<lastExponent && (d < low || d >= high) {
			t.Fatalf("%d ns is in bucket %d, of %d to %d", d, at, low, high)
		}
		if h := times(1, d); d >= 1<<firstExponent && d < 1<<lastExponent && math.Abs(float64(h.Quantile(0.5)-d)) > 0.07*float64(d) {
			t.Fatalf("median of %v: %v", d, h.Quantile(0.5))
		}
	}
	if got := bucketOf(time.Hour); got != buckets-1 {
		t.Errorf("an hour is in bucket %d of %d", got, buckets)
	}
	if h := (Histogram{}); h.Quantile(0.99) != 0 {
		t.Error("a quantile of nothing")
	}
	all := times(5, ms)
	all.Add(times(2, time.Second))
	data, err := json.Marshal(all)
	var back Histogram
	if err == nil {
		err = json.Unmarshal(data, &back)
	}
	if err != nil || !reflect.DeepEqual(back, all) {
		t.Errorf("%s: %v", data, err)
	}
	for _, bad := range []string{`{"-1":1}`, `{"225":1}`, `{"1":-1}`, `[]`, `{"a":1}`} {
		if err := json.Unmarshal([]byte(bad), &back); err == nil {
			t.Errorf("%s is taken", bad)
		}
	}
}

// spent is a profile of stacks: what ran, slept, spun and waited for a CPU.
func spent() Profile {
	return Profile{
		Elapsed: time.Second, Cost: 5 * ms,
		Stacks: [][]string{
			{"osq_lock", "rwsem_optimistic_spin", "rwsem_down_write_slowpath", "down_write", "filename_create"},
			{"__schedule", "schedule", "schedule_preempt_disabled", "__mutex_lock.constprop.0", "cgroup_kn_lock_live", "cgroup_mkdir"},
			{"schedule", "do_wait", "kernel_wait4"},
			{"main"},
			{"schedule", "__wait_rcu_gp", "synchronize_rcu_normal", "namespace_unlock"},
			{"mutex_unlock", "cgroup_kn_unlock"},
		},
		Samples: []Sample{
			{State: OnCPU, Stack: 0, User: 3, Comm: "churn", Count: 2, Total: 20 * ms},
			{State: OnCPU, Stack: -1, User: 3, Comm: "churn", Count: 4, Total: 40 * ms},
			{State: OnCPU, Stack: 5, User: 3, Comm: "churn", Count: 1, Total: 10 * ms},
			{State: Asleep, Stack: 1, User: -1, Comm: "churn", Count: 5, Total: 30 * ms},
			{State: Asleep, Stack: 2, User: -1, Comm: "sh", Count: 1, Total: 20 * ms},
			{State: Asleep, Stack: 2, User: -1, Comm: "ls", Count: 1, Total: 10 * ms},
			{State: Asleep, Stack: 4, User: -1, Comm: "ls", Count: 1, Total: ms},
			{State: Runnable, Stack: -1, User: -1, Comm: "ls", Count: 1, Total: 2 * ms},
			{State: OnCPU, Stack: 2, User: -1, Comm: "kworker", Kernel: true, Count: 1, Total: 3 * ms},
		},
		Lost: map[string]uint64{"stacks": 3},
	}
}

func TestTimes(t *testing.T) {
	rows := spent().Times()
	want := []TimeRow{
		{State: OnCPU, Name: "main", Count: 4, Total: 0.04, Of: []Part{{"churn", 0.04}}},
		{State: Asleep, Name: CgroupMutex, Lock: true, Count: 5, Total: 0.03, Of: []Part{{"churn", 0.03}}},
		{State: Asleep, Name: "do_wait", Count: 2, Total: 0.03, Of: []Part{{"sh", 0.02}, {"ls", 0.01}}},
		{State: OnCPU, Name: "osq_lock", Count: 2, Total: 0.02, Of: []Part{{"churn", 0.02}}},
		{State: OnCPU, Name: "mutex_unlock", Count: 1, Total: 0.01, Of: []Part{{"churn", 0.01}}},
		{State: OnCPU, Name: "schedule", Kernel: true, Count: 1, Total: 0.003, Of: []Part{{"kworker", 0.003}}},
		{State: Runnable, Name: "preempted", Count: 1, Total: 0.002, Of: []Part{{"ls", 0.002}}},
		{State: Asleep, Name: "namespace_unlock", Count: 1, Total: 0.001, Of: []Part{{"ls", 0.001}}},
	}
	if !reflect.DeepEqual(rows, want) {
		t.Errorf("%+v\nwant %+v", rows, want)
	}
}

// TestEstimate makes waits of stacks: those asleep in a lock's code and those that
// spin in it, and not those that give one back.
func TestEstimate(t *testing.T) {
	e := spent().Estimate("a test")
	got := map[string]Row{}
	for _, r := range e.Table() {
		got[r.Name] = r
	}
	for name, want := range map[string]Row{
		Directory:          {Kind: RWSem, Waits: 2, Total: 0.02},
		CgroupMutex:        {Kind: Mutex, Waits: 5, Total: 0.03},
		"RCU grace period": {Kind: Sleep, Waits: 1, Total: 0.001},
	} {
		if r := got[name]; r.Kind != want.Kind || r.Waits != want.Waits || math.Abs(r.Total-want.Total) > 1e-9 || !r.Inferred || r.P99 != 0 {
			t.Errorf("%s: %+v, want %+v", name, r, want)
		}
	}
	if len(got) != 3 || len(e.Notes) != 1 || e.Lost["stacks"] != 3 || e.Cost != 5*ms {
		t.Errorf("%+v of %+v", got, e)
	}
}
