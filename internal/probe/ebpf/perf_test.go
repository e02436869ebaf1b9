package ebpf

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/driver/drivertest/oldkernel"
	"github.com/tarelab/tare/internal/profile"
	"github.com/tarelab/tare/internal/sys"
)

// needsPerf skips where perf events cannot be had.
func needsPerf(t *testing.T) {
	t.Helper()
	stop, err := samplePerf(Selection{})
	var cannot *driver.CannotError
	if errors.As(err, &cannot) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	p, err := stop()
	if err != nil {
		t.Fatal(err)
	}
	if p.Way != profile.BySamples {
		t.Skipf("without switches: %q", p.Notes)
	}
}

// TestPerfEventsOfTheRealKernel finds a shell that spins on a CPU and one that sleeps off
// it, as TestStacksOfTheRealKernel does.
func TestPerfEventsOfTheRealKernel(t *testing.T) {
	needsPerf(t)
	self, err := SelectProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	p := recordedBy(t, samplePerf, self, func() {
		if out, err := exec.CommandContext(t.Context(), "sh", "-c", spin+"; sleep 0.3").CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	})
	checkSpinAndSleep(t, p)
	inFile := func(s profile.Sample) bool {
		return s.State == profile.OnCPU && s.Comm == "sh" && s.User >= 0 && !slices.Contains(p.Stacks[s.User], unknown)
	}
	if !slices.ContainsFunc(p.Samples, inFile) {
		t.Errorf("no sample of the shell is in a file that is known: %+v", p.Times())
	}
}

// TestBothWaysNameTheSameLock watches the same quarrel by the kernel's programs and by perf
// events.
func TestBothWaysNameTheSameLock(t *testing.T) {
	needsKernel(t)
	needsPerf(t)
	self, err := SelectProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	estimate := func(own Selection) (func() (profile.Profile, error), error) {
		stop, err := samplePerf(own)
		return func() (profile.Profile, error) {
			p, err := stop()
			return p.Estimate("a test"), err
		}, err
	}
	for deadline := time.Now().Add(30 * time.Second); ; {
		var longest []string
		for _, record := range []Recorder{RecordLocks, estimate} {
			longest = append(longest, longestWait(recordedBy(t, record, self, func() { quarrel(t, 300*time.Millisecond) })))
		}
		if longest[0] == profile.Directory && longest[1] == profile.Directory {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("threads quarrel for %s: measured waits are for %q, estimated ones for %q", profile.Directory, longest[0], longest[1])
		}
	}
}

// longestWait is the lock that threads of the selection waited for most.
func longestWait(p profile.Profile) string {
	for _, r := range p.Table() { // the longest first
		if !r.Kernel && r.Kind != profile.Sleep {
			return r.Name
		}
	}
	return ""
}

// TestRecordersFallBack runs TestPerfIsUsed as on a kernel without bpf(2).
func TestRecordersFallBack(t *testing.T) {
	needsPerf(t)
	oldkernel.Rerun(t, oldkernel.Kernels[0], "^TestPerfIsUsed$")
}

// TestPerfIsUsed: on a kernel that takes no programs both recorders use perf events, and
// the profiles say so and why.
func TestPerfIsUsed(t *testing.T) {
	if oldkernel.Kernel() == "" {
		t.Skip("this kernel takes programs: TestRecordersFallBack runs this test as on another")
	}
	self, err := SelectProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	p := recordedBy(t, RecordStacks, self, func() {
		if out, err := exec.CommandContext(t.Context(), "sh", "-c", spin+"; sleep 0.3").CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	})
	checkSpinAndSleep(t, p)
	if said := strings.Join(p.Notes, "; "); p.Way != profile.BySamples || !strings.Contains(said, "does not have bpf(2)") {
		t.Errorf("%s: %s", p.Way, said)
	}
	for deadline := time.Now().Add(30 * time.Second); ; {
		p = recordedBy(t, RecordLocks, self, func() { quarrel(t, 300*time.Millisecond) })
		if said := strings.Join(p.Notes, "; "); p.Way != "estimated from stacks measured by perf events" || !strings.Contains(said, "does not have bpf(2)") {
			t.Fatalf("%s: %s", p.Way, said)
		}
		if r := own(p)[profile.Directory]; r.Total > 0 && r.Inferred {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("threads that contend for a directory never waited for it: %+v", p.Table())
		}
	}
}

// switchFields are where the fields of these tests' switches lie.
var switchFields = map[string]sys.TracepointField{"prev_comm": {Offset: 8, Size: 16}, "prev_pid": {Offset: 24, Size: 4}, "prev_state": {Offset: 32, Size: 8}, "next_pid": {Offset: 56, Size: 4}}

// written builds a record: strings, and numbers by their width.
func written(t *testing.T, parts ...any) []byte {
	t.Helper()
	var b bytes.Buffer
	for _, p := range parts {
		if text, ok := p.(string); ok {
			b.WriteString(text)
			continue
		}
		if err := binary.Write(&b, binary.NativeEndian, p); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

// sampled is a sample of a thread of process 7 on kernel address 0x1000 and user address
// 0x400010.
func sampled(t *testing.T, tid uint32, at uint64, raw []byte) []byte {
	kernel, user := int64(unix.PERF_CONTEXT_KERNEL), int64(unix.PERF_CONTEXT_USER)
	return written(t, uint32(7), tid, at, uint64(2e6), uint64(4), kernel, ^uint64(0xefffffff), user, uint64(0x400010), uint32(len(raw)), raw)
}

// switchOf is the raw data of a switch.
func switchOf(t *testing.T, prev, next uint32, state uint64) []byte {
	return written(t, uint64(0), "worker\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00", prev, uint32(0), state, make([]byte, 16), next, uint32(0), uint32(0))
}

// TestPerfRecords adds up records of a thread that runs, sleeps and loses its CPU.
func TestPerfRecords(t *testing.T) {
	table := &processTable{all: map[int]*process{
		7: {owner: ownerOwn, mappings: []mapping{{0x400000, 0x500000, 0x1000, "/bin/worker"}}},
		8: {owner: nobody},
	}}
	s := newPerfSamples(table, &perfEvents{switches: &sys.Tracepoint{Fields: switchFields}})
	s.names[70] = threadName{'w', 'o', 'r', 'k', 'e', 'r'}
	none := []byte{0, 0, 0, 0}
	for _, r := range []struct {
		cpu    int
		kind   uint32
		record []byte
	}{
		{0, unix.PERF_RECORD_SAMPLE, sampled(t, 70, 1_000, none)},
		{0, unix.PERF_RECORD_SAMPLE, sampled(t, 70, 3_000, none)},
		{0, unix.PERF_RECORD_SAMPLE, sampled(t, 70, 4_000, switchOf(t, 70, 80, 2))},     // asleep until 9_000
		{1, unix.PERF_RECORD_SAMPLE, sampled(t, 71, 9_000, switchOf(t, 71, 70, 0x100))}, // another of it is preempted, until the end
		{1, unix.PERF_RECORD_LOST, written(t, uint64(1), uint64(3), uint64(7), uint64(9_500))},
		{1, unix.PERF_RECORD_SAMPLE, sampled(t, 70, 20_000, switchOf(t, 70, 0, 0x40))}, // it ends; since when it ran is not known
		{0, unix.PERF_RECORD_FORK, written(t, uint32(9), uint32(7), uint32(9), uint32(70), uint64(21_000))},
		{0, unix.PERF_RECORD_EXIT, written(t, uint32(7), uint32(1), uint32(7), uint32(1), uint64(29_000))},
		{0, unix.PERF_RECORD_SAMPLE, sampled(t, 72, 30_000, switchOf(t, 72, 0, 1))},
		{1, unix.PERF_RECORD_SAMPLE, sampled(t, 72, 37_000, switchOf(t, 72, 0, 0x20))}, // back without a record, and then ended
	} {
		if err := s.add(r.cpu, perfHeader{kind: r.kind}, r.record); err != nil {
			t.Fatal(err)
		}
	}
	p := s.profile(&symbols{text: []symbol{{^uint64(0xefffffff) - 8, "mutex_lock"}, {^uint64(0), "_etext"}}}, "")
	var got []string
	for _, x := range p.Samples {
		got = append(got, string(x.State)+" "+x.Comm+" "+x.Total.String())
	}
	slices.Sort(got)
	want := []string{"asleep worker 12µs", "on CPU worker 46µs"} // the end of another's wait for a CPU may be lost
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if child := table.all[9]; child == nil || child.owner != ownerOwn || s.names[9].String() != "worker" {
		t.Errorf("a child of the selection: %+v, %q", child, s.names[9])
	}
	if n := p.Lost["records of perf events, for which there was no room until tare read them"]; n != 3 {
		t.Errorf("lost %v", p.Lost)
	}
	if len(s.userStacks) != 1 || s.userStacks[0][0].offset != 0x1010 || s.files[0].path != "/bin/worker" {
		t.Errorf("frames %v of %v", s.userStacks, s.files)
	}
}

// TestShortRecords: what ends before its fields is an error, and no panic.
func TestShortRecords(t *testing.T) {
	whole := sampled(t, 70, 1_000, switchOf(t, 70, 80, 2))
	for n := range whole {
		s := newPerfSamples(&processTable{all: map[int]*process{7: {}}}, &perfEvents{switches: &sys.Tracepoint{Fields: switchFields}})
		if err := s.add(0, perfHeader{kind: unix.PERF_RECORD_SAMPLE}, whole[:n]); !errors.Is(err, errShort) {
			t.Errorf("%d of %d bytes: %v", n, len(whole), err)
		}
	}
}

// TestRing reads records that reach over the ring's end.
func TestRing(t *testing.T) {
	r := ring{page: &unix.PerfEventMmapPage{}, data: make([]byte, 64)}
	put := func(content string) {
		record := written(t, uint32(len(content)), uint16(5), uint16(headerLength+len(content)), content)
		for i, b := range record {
			r.data[(int(r.page.Data_head)+i)%len(r.data)] = b
		}
		r.page.Data_head += uint64(len(record))
	}
	var got []string
	read := func() error {
		return r.take(func(h perfHeader, record []byte) error {
			if int(h.kind) != len(record) || h.misc != 5 {
				t.Errorf("%+v of %q", h, record)
			}
			got = append(got, string(record))
			return nil
		})
	}
	for _, text := range []string{"sixteen letters.", "24 letters, and the rest", "24 letters, over the end"} {
		put(text)
		if err := read(); err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{"sixteen letters.", "24 letters, and the rest", "24 letters, over the end"}; !slices.Equal(got, want) || r.page.Data_tail != r.page.Data_head {
		t.Errorf("%q, read until %d of %d", got, r.page.Data_tail, r.page.Data_head)
	}
	r.page.Data_head += 8 // a header of nothing
	binary.NativeEndian.PutUint16(r.data[r.page.Data_tail%64+6:], 0)
	if read() == nil {
		t.Error("a record without a length is read")
	}
}

// TestRecordsAreInOrder: records of two CPUs are added up by their times, though a round
// reads one CPU after the other.
func TestRecordsAreInOrder(t *testing.T) {
	s := perfSession{events: &perfEvents{}, samples: newPerfSamples(&processTable{all: map[int]*process{}}, &perfEvents{})}
	fork := func(at uint64) []byte {
		record := written(t, uint32(9), uint32(9), uint32(at), uint32(1), at)
		return append(written(t, uint32(unix.PERF_RECORD_FORK), uint16(0), uint16(headerLength+len(record))), record...)
	}
	for range 2 {
		s.events.rings = append(s.events.rings, ring{page: &unix.PerfEventMmapPage{}, data: make([]byte, 256)})
	}
	put := func(cpu int, record []byte) {
		r := &s.events.rings[cpu]
		copy(r.data[r.page.Data_head:], record)
		r.page.Data_head += uint64(len(record))
	}
	put(0, fork(10))
	put(0, fork(30))
	if err := s.round(false); err != nil || len(s.pending) != 2 {
		t.Fatalf("%v, %d wait", err, len(s.pending))
	}
	put(1, fork(20))
	put(1, fork(40))
	if err := s.round(false); err != nil || len(s.pending) != 1 || s.samples.last != 30 {
		t.Fatalf("%v, %d wait, read until %d", err, len(s.pending), s.samples.last)
	}
	if err := s.round(true); err != nil || len(s.pending) != 0 || s.samples.last != 40 || len(s.kept) != 0 {
		t.Errorf("%v, %d wait, read until %d", err, len(s.pending), s.samples.last)
	}
}

func TestMappings(t *testing.T) {
	m, ok := parseMapping("55d0c0a00000-55d0c0b00000 r-xp 00002000 08:01 1234   /usr/bin/a program")
	if want := (mapping{0x55d0c0a00000, 0x55d0c0b00000, 0x2000, "/usr/bin/a program"}); !ok || m != want {
		t.Errorf("%+v", m)
	}
	for _, line := range []string{"", "55d0-55d1 rw-p 0 08:01 1 /data", "55d0-55d1 r-xp 0 00:00 0", "x-y r-xp 0 08:01 1 /a"} {
		if m, ok := parseMapping(line); ok {
			t.Errorf("%q: %+v", line, m)
		}
	}
}
