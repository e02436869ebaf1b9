package workload

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/tarelab/tare/internal/sample"
)

// slicePath is the program in the workbench that works in turns (helpers/slice).
const slicePath = "/.tare/slice"

// Turns is how a payload takes turns. It reads "NAME MICROSECONDS" from standard
// input, works for about that long, and answers with one line on standard output:
//
//	COUNT [BEGIN END [CPU]] [key=value ...]
//
// COUNT is the number of iterations; BEGIN and END are its own CLOCK_MONOTONIC and
// CPU is CPU time, in nanoseconds. It ends with the input. Workloads with equal
// Args share an instance, which then takes turns of several names.
type Turns struct {
	Args     []string // argv of the program
	Name     string   // of the turn
	Evidence sample.Evidence
	Copies   int // processes that work on each turn at once, at least 1
	// Bytes is the payload of one iteration; 0 where iterations are counted. The
	// rate is then in bytes per second.
	Bytes int64
}

// sliceTest is one workload of helpers/slice.
type sliceTest struct {
	name     string // of its turns; the kind is "slice-" and this
	help     string
	bytes    int64
	evidence sample.Evidence
	memory   int64    // bytes that it needs at least, beside the program
	root     bool     // it makes what only root may
	modules  []string // as Command.Modules
}

// Bytes of one iteration of helpers/slice.
const (
	sliceFilePiece   = 4 << 10
	sliceStreamPiece = 64 << 10
	sliceDatagram    = 1400
	sliceCopy        = 1 << 20
)

// sliceTests are those that are no Unix test, in the order of help.
func sliceTests() []sliceTest {
	checked := func(name, help string) sliceTest {
		return sliceTest{name: name, help: help, evidence: sample.EvidenceChecked, memory: 1 << 20}
	}
	bytes := func(n int64, evidence sample.Evidence, name, help string) sliceTest {
		return sliceTest{name: name, help: help, bytes: n, evidence: evidence, memory: 9 << 20}
	}
	latency := checked("memory-latency", "follow pointers through a random cycle of cache lines, 16 MiB in all")
	latency.memory = 17 << 20
	huge := checked("page-fault-huge", "first writes to new pages of 2 MiB")
	huge.memory = 11 << 20
	bandwidth := bytes(sliceCopy, sample.EvidenceChecked, "memory-bandwidth", "copy memory, 1 MiB at a time, in a buffer of 32 MiB")
	bandwidth.memory = 33 << 20
	rooted := func(name, help string, modules ...string) sliceTest {
		t := checked(name, help+" (root)")
		t.root, t.modules = true, modules
		return t
	}
	return []sliceTest{
		checked("getpid", "one system call that does nothing"),
		checked("clock", "read the monotonic clock by the C library: no system call where the vDSO serves it"),
		checked("clock-syscall", "read the monotonic clock by system call"),
		checked("getrandom", "16 random bytes by system call"),
		checked("name-lookup", "find a user's name in /etc/passwd: open, read, close"),
		bandwidth,
		latency,
		checked("page-fault", "first writes to new pages of 4 KiB, given back after every 64"),
		huge,
		checked("mmap", "map 64 KiB, write to one page, unmap"),
		bytes(sliceFilePiece, sample.EvidenceCached, "read-cached", "random reads of 4 KiB in a file of 256 KiB in the page cache"),
		bytes(sliceFilePiece, sample.EvidenceDevice, "read-direct", "random reads of 4 KiB in a file of 8 MiB, past the page cache (O_DIRECT)"),
		bytes(sliceFilePiece, sample.EvidenceChecked, "write-cached", "random writes of 4 KiB in a file of 8 MiB, without waiting for the disk"),
		bytes(sliceFilePiece, sample.EvidenceDevice, "write-fsync", "random writes of 4 KiB in a file of 8 MiB, each made durable by fsync"),
		checked("futex", "two threads hand a turn back and forth by futex"),
		checked("epoll", "write one of 64 event descriptors, find it by epoll_wait, read it"),
		checked("timer", "set a timer descriptor to 1 ns and wait for it"),
		checked("signal", "a process sends itself a signal and handles it"),
		bytes(sliceStreamPiece, sample.EvidenceChecked, "tcp-throughput", "a TCP stream over the loopback, in pieces of 64 KiB"),
		checked("tcp-request", "64 bytes there and back over TCP on the loopback"),
		checked("tcp-connect", "connect over TCP on the loopback, take one byte, close"),
		bytes(sliceDatagram, sample.EvidenceChecked, "udp-throughput", "datagrams of 1,400 bytes over UDP on the loopback, acknowledged after every 16"),
		checked("udp-request", "64 bytes there and back over UDP on the loopback"),
		bytes(sliceStreamPiece, sample.EvidenceChecked, "unix-throughput", "a Unix stream socket, in pieces of 64 KiB"),
		checked("unix-request", "64 bytes there and back over a Unix stream socket"),
		checked("unix-connect", "connect to a Unix stream socket, take one byte, close"),
		rooted("cgroup-mkdir", "make a cgroup of version 2; its removal is not timed"),
		rooted("cgroup-join", "move a waiting process from one cgroup to another"),
		rooted("namespace-uts", "clone a process with a new UTS namespace, wait for its end"),
		rooted("namespace-ipc", "clone a process with a new IPC namespace, wait for its end"),
		rooted("namespace-pid", "clone a process with a new PID namespace, wait for its end"),
		rooted("namespace-mount", "clone a process with a new mount namespace, wait for its end"),
		rooted("namespace-net", "clone a process with a new network namespace, wait for its end"),
		rooted("namespace-cgroup", "clone a process with a new cgroup namespace, wait for its end"),
		rooted("namespace-user", "clone a process with a new user namespace, wait for its end"),
		rooted("veth", "make a pair of links; its removal is not timed", "veth"),
		rooted("bridge-port", "make a link a port of a bridge, and free it again", "veth", "bridge"),
		rooted("mount-tmpfs", "mount a file system in memory, and unmount it"),
		rooted("mount-overlay", "mount an overlay, and unmount it", "overlay"),
		rooted("container-start", "what a runtime asks of the kernel, once: a cgroup of version 2, six namespaces, an overlay as root with /proc, a program that ends; removals are not timed", "overlay"),
	}
}

// Kind is "slice-" and the name of the turns.
func (t sliceTest) Kind() string { return "slice-" + t.name }

func (t sliceTest) Help() string { return t.help + "; measured in rounds" }

// Params: those that keep no files may have several copies.
func (t sliceTest) Params() []Param {
	if t.files() {
		return nil
	}
	return []Param{{Name: "copies", Type: Integer, Default: "1", Help: "copies at once inside the target", Min: 1, Max: 4096}}
}

// files reports whether the test works on a file.
func (t sliceTest) files() bool { return t.bytes == sliceFilePiece }

// sliceArgs is the argv for so many copies.
func sliceArgs(copies int) []string {
	if copies <= 1 {
		return []string{slicePath}
	}
	return []string{slicePath, "--copies=" + strconv.Itoa(copies)}
}

func (t sliceTest) Metrics() []sample.Metric { return nil }

func (t sliceTest) Command(v Values, _ []string) (Command, error) {
	copies := 1
	if !t.files() {
		copies = int(v.Int("copies"))
	}
	args := sliceArgs(copies)
	return Command{
		Args:    args,
		Memory:  int64(copies) * t.memory,
		Modules: t.modules,
		Turns:   &Turns{Args: slices.Clone(args), Name: t.name, Evidence: t.evidence, Copies: copies, Bytes: t.bytes},
	}, nil
}

// Parse is never asked: what a slice counted comes with its turn.
func (t sliceTest) Parse([]byte) ([]sample.Value, error) {
	return nil, fmt.Errorf("%s is measured in rounds: its output is its answers to turns", t.Kind())
}

// turns is how a Unix test is measured in rounds, nil where its parameters ask for
// what only a window has: copies inside the instance, or another variant.
func (t unixTest) turns(v Values) *Turns {
	variant, ok := v.texts["variant"]
	if v.Text("barrier") == "shared" || t.name == "shell-8" || ok && variant != "mix" && variant != "kept" {
		return nil
	}
	copies := int(v.Int("copies"))
	turns := &Turns{Args: sliceArgs(copies), Name: t.name, Evidence: sample.EvidenceChecked, Copies: copies}
	if copies > 1 && v.Text("files") == "shared" {
		turns.Args = append(turns.Args, "--shared")
	}
	if t.file > 0 {
		if _, err := fmt.Sscanf(t.name, "file-copy-%d", &turns.Bytes); err != nil {
			return nil
		}
	}
	return turns
}
