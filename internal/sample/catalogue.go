package sample

// The catalogue: every metric that tare records, once. Code names a metric by
// its constant; a name that is neither here nor declared in a run's manifest
// cannot be recorded. docs/metrics.md is generated from it.

// Times of every trial, on the host's CLOCK_MONOTONIC, in seconds after the request to start.
const (
	Ready     = "ready"
	Wall      = "wall"
	Run       = "run"
	Sandboxed = "sandboxed"
	Created   = "created"
	Started   = "started"
	Detached  = "detached"
	Attached  = "attached"
	Silent    = "silent"
)

// Steps of a virtual machine's start.
const (
	VMMExecuted   = "vmm"
	VMMReady      = "vmm-ready"
	Restored      = "restored"
	Firmware      = "firmware"
	KernelByte    = "kernel-byte"
	KernelBanner  = "kernel"
	GuestInit     = "init"
	Agent         = "agent"
	Ballooned     = "ballooned"
	Plugged       = "plugged"
	Panicked      = "panicked"
	PoweredOff    = "off"
	GuestKernel   = "guest-kernel"
	GuestAgent    = "guest-agent"
	GuestAsked    = "guest-asked"
	GuestExecuted = "guest-executed"
)

// What systemd reports of its own start, as systemd-analyze does, by the guest's clock.
const (
	SystemdKernel    = "systemd-kernel"
	SystemdInitrd    = "systemd-initrd"
	SystemdUserspace = "systemd-userspace"
	SystemdTotal     = "systemd-total"
)

// Steps of a container host's boot, by the lines of its console.
const (
	InitrdFreed   = "initrd-freed"
	KernelUp      = "kernel-up"
	RootUp        = "root"
	ModulesUp     = "modules"
	BridgeCreated = "docker0"
	BridgeUp      = "docker0-up"
	EngineUp      = "engine"
)

// CPU time, memory and scheduling of the instance.
const (
	CPU                 = "cpu"
	CPUUser             = "cpu-user"
	CPUSystem           = "cpu-system"
	PeakMemory          = "peak-memory"
	VoluntarySwitches   = "voluntary-switches"
	InvoluntarySwitches = "involuntary-switches"
	MinorFaults         = "minor-faults"
	MajorFaults         = "major-faults"
)

// Many instances that are measured as one.
const (
	Elapsed         = "elapsed"
	StartsPerSecond = "starts-per-second"
	ReadyP50        = "ready-p50"
	ReadyP90        = "ready-p90"
	ReadyP99        = "ready-p99"
	ReadyMax        = "ready-max"
	ReadyLast       = "ready-last"
	Removal         = "removal"
)

// Results of sysbench and fio.
const (
	Events          = "events"
	Operations      = "operations"
	Reads           = "reads"
	Writes          = "writes"
	Fsyncs          = "fsyncs"
	ReadThroughput  = "read-throughput"
	WriteThroughput = "write-throughput"
	LatencyMean     = "latency-mean"
	LatencyP95      = "latency-p95"
	LatencyP99      = "latency-p99"
	LatencyMax      = "latency-max"
)

// Network.
const (
	Throughput       = "throughput"
	Moved            = "moved"
	Retransmits      = "retransmits"
	Packets          = "packets"
	Lost             = "lost"
	RTT              = "rtt"
	RTTMean          = "rtt-mean"
	RTTP99           = "rtt-p99"
	RTTP999          = "rtt-p999"
	RoundTrips       = "round-trips"
	Connections      = "connections"
	CPUPerGbit       = "cpu-per-gbit"
	ClientPerGbit    = "client-cpu-per-gbit"
	ServerPerGbit    = "server-cpu-per-gbit"
	RelayPerGbit     = "relay-cpu-per-gbit"
	SoftIRQPerGbit   = "softirq-per-gbit"
	ClientNeighbours = "client-neighbours"
	ServerNeighbours = "server-neighbours"
	OnNetwork        = "network-containers"
	NFTRules         = "nft-rules"
	IPTablesRules    = "iptables-rules"
	Proxies          = "proxies"
	Resolvers        = "resolvers"
)

// Verbs that are done to an instance while it is alive.
const (
	VerbExec    = "exec-time"
	VerbExecEnd = "exec-end"
	VerbPause   = "pause-time"
	VerbUnpause = "unpause-time"
	VerbStop    = "stop-time"
)

// Requests at a given rate, whose times count from when each was due.
const (
	Response       = "response"
	ResponseMean   = "response-mean"
	ResponseP90    = "response-p90"
	ResponseP99    = "response-p99"
	ResponseP999   = "response-p999"
	ResponseMax    = "response-max"
	Answers        = "answers"
	RequestsDue    = "requests-due"
	RequestsFailed = "requests-failed"
	RequestsServed = "requests-served"
	AnswerBytes    = "answer-bytes"
	RequestWindow  = "request-window"
	ClientLate     = "client-late-p99"
)

// Unix tests.
const (
	UnixScore             = "score"
	UnixRate              = "rate"
	UnixCPUScore          = "cpu-score"
	UnixEvenness          = "evenness"
	UnixOverlap           = "overlap"
	UnixStart             = "window-start"
	UnixEnd               = "window-end"
	UnixTimed             = "window-length"
	UnixContainersOverlap = "containers-overlap"
	UnixBenchScore        = "unixbench-score"
	UnixBenchRatio        = "unixbench-ratio"
)

// Slices of workloads that are measured in rounds.
const (
	SliceRate  = "slice-rate"
	CPUEach    = "cpu-each"
	Turnaround = "turnaround"
	Stalled    = "stalled"
)

// What runs next to the instances of a level with a load.
const (
	BesideRate = "load-rate"
	BesideCPUs = "load-cpus"
)

// Three containers over minutes.
const (
	LoadTask     = "task"
	LoadRunnable = "load"
	DiskRead     = "disk-read"
	DiskWritten  = "disk-written"
	NetReceived  = "net-received"
	NetSent      = "net-sent"
)

// Churn of kernel objects.
const (
	ChurnDone = "cycles-done"
)

// Who used the CPU and the memory.
const (
	PayloadCPU  = "payload-cpu"
	RuntimeCPU  = "runtime-cpu"
	ClientCPU   = "client-cpu"
	DaemonCPU   = "daemon-cpu"
	PeerCPU     = "peer-cpu"
	RelayCPU    = "relay-cpu"
	PayloadPeak = "payload-peak-memory"
	RuntimePeak = "runtime-peak-memory"
	TareCPU     = "tare-cpu"
)

// What disturbs a trial.
const (
	Steal               = "steal"
	CPUPressure         = "cpu-pressure"
	IOPressure          = "io-pressure"
	MachineCPU          = "machine-cpu"
	SoftIRQ             = "softirq"
	GroupCPUPressure    = "group-cpu-pressure"
	GroupIOPressure     = "group-io-pressure"
	GroupMemoryPressure = "group-memory-pressure"
	RunQueueWait        = "run-queue-wait"
)

// Counters of the instances' tasks, by perf_event_open(2).
const (
	TaskClock    = "task-clock"
	Switches     = "context-switches"
	Migrations   = "migrations"
	PageFaults   = "page-faults"
	Cycles       = "cycles"
	Instructions = "instructions"
	Branches     = "branches"
	BranchMisses = "branch-misses"
	Counted      = "counted"
	ClockCounted = "clock-counted"
	ClockCPUFreq = "clock-cpufreq"
)

// Memory of instances that are held.
const (
	AvailableDrop = "available-drop"
	Mapped        = "mapped"
	Dirty         = "dirty"
	GuestResident = "guest-resident"
	VMMOverhead   = "vmm-overhead"
	VMMThreads    = "vmm-threads"
	VMMFiltered   = "vmm-filtered-threads"
	SavedSize     = "saved-size"
	PayloadPSS    = "payload-pss"
	PayloadRSS    = "payload-rss"
	PayloadCharge = "payload-charge"
	RuntimePSS    = "runtime-pss"
	RuntimeRSS    = "runtime-rss"
	RuntimeCharge = "runtime-charge"
	ClientPSS     = "client-pss"
	ClientRSS     = "client-rss"
	ClientCharge  = "client-charge"
	DaemonPSS     = "daemon-pss"
	DaemonRSS     = "daemon-rss"
	DaemonCharge  = "daemon-charge"
)

// Waits in the kernel, by a probe that watches them.
const (
	LockWait     = "lock-wait"
	LockWaits    = "lock-waits"
	SleepWait    = "sleep-wait"
	KernelWait   = "kernel-lock-wait"
	SharedWait   = "shared-lock-wait"
	OnCPUTime    = "on-cpu"
	AsleepTime   = "asleep"
	RunnableTime = "runnable"
	ProbeTime    = "probe-time"
)

// section is a part of the catalogue, as docs/metrics.md shows it.
type section struct {
	title   string
	entries []entry
}

// entry is one metric: what it is and whether it may judge.
type entry struct {
	Metric
	role  Role
	forms []Metric // the same name in another unit, of other workloads
}

// sections are the catalogue but for its families.
var sections = []section{
	{"Times of every trial, on the host's CLOCK_MONOTONIC, in seconds after the request to start.", []entry{
		{Metric{Ready, Seconds, Lower, "from the request to start until the payload's process acted inside the target"}, Primary, nil},
		{Metric{Wall, Seconds, Lower, "from the request to start until the payload ended, seen from outside"}, Primary, nil},
		{Metric{Run, Seconds, Lower, "from the payload's first act until it ended, seen from outside"}, Descriptive, nil},
		{Metric{Sandboxed, Seconds, Lower, "from the request to start until the engine had made the pod's sandbox: its network, its namespaces and the process that holds them"}, Descriptive, nil},
		{Metric{Created, Seconds, Lower, "from the request to start until the engine had created the container"}, Descriptive, nil},
		{Metric{Started, Seconds, Lower, "from the request to start until the engine reported that the container runs; the payload may act earlier"}, Descriptive, nil},
		{Metric{Detached, Seconds, Lower, "from the request to start until a container had been taken from its network, on the path attach"}, Descriptive, nil},
		{Metric{Attached, Seconds, Lower, "from the request to start until that container was on its network again, on the path attach"}, Descriptive, nil},
		{Metric{Silent, Count, Lower, "1 for an instance that printed nothing, whose end therefore counts as its act; else 0"}, Descriptive, nil},
	}},
	{"Steps of a virtual machine's start.", []entry{
		{Metric{VMMExecuted, Seconds, Lower, "from the request to start until the VMM's program was executed"}, Descriptive, nil},
		{Metric{VMMReady, Seconds, Lower, "from the request to start until the VMM's control channel answered"}, Descriptive, nil},
		{Metric{Restored, Seconds, Lower, "from the request to start until the VMM reported that a saved guest runs again"}, Descriptive, nil},
		{Metric{Firmware, Seconds, Lower, "from the request to start to the first line on the guest's console, if it is not the kernel's"}, Descriptive, nil},
		{Metric{KernelByte, Seconds, Lower, "from the request to start to the guest kernel's first line on the console"}, Descriptive, nil},
		{Metric{KernelBanner, Seconds, Lower, "from the request to start to the guest kernel's banner"}, Descriptive, nil},
		{Metric{GuestInit, Seconds, Lower, "from the request to start until the guest's kernel ran /init"}, Descriptive, nil},
		{Metric{Agent, Seconds, Lower, "from the request to start until the guest's agent reported that it runs"}, Descriptive, nil},
		{Metric{Ballooned, Seconds, Lower, "from the request to start until the guest had given up the memory of its balloon"}, Descriptive, nil},
		{Metric{Plugged, Seconds, Lower, "from the request to start until the guest had the memory that was added to it"}, Descriptive, nil},
		{Metric{Panicked, Seconds, Lower, "from the request to start until the guest's kernel reported its panic"}, Descriptive, nil},
		{Metric{PoweredOff, Seconds, Lower, "from the request to start until the VMM ended, after the payload"}, Descriptive, nil},
		{Metric{GuestKernel, Seconds, Lower, "by the guest's clock, from the kernel's start to /init; systemd-analyze calls it the kernel's time"}, Descriptive, nil},
		{Metric{GuestAgent, Seconds, Lower, "by the guest's clock, from the kernel's start until the guest's agent reported that it runs"}, Descriptive, nil},
		{Metric{GuestAsked, Seconds, Lower, "by the guest's clock, from the kernel's start until the guest's agent knew what to run"}, Descriptive, nil},
		{Metric{GuestExecuted, Seconds, Lower, "by the guest's clock, from the kernel's start until the agent executed the payload"}, Descriptive, nil},
	}},
	{"What systemd reports of its own start, as systemd-analyze does, by the guest's clock.", []entry{
		{Metric{SystemdKernel, Seconds, Lower, "the kernel's start; an initramfs without systemd is part of it"}, Descriptive, nil},
		{Metric{SystemdInitrd, Seconds, Lower, "systemd in the initramfs"}, Descriptive, nil},
		{Metric{SystemdUserspace, Seconds, Lower, "systemd on the root file system, until nothing was left to be started"}, Descriptive, nil},
		{Metric{SystemdTotal, Seconds, Lower, "all of these, with firmware and loader where systemd knows them"}, Descriptive, nil},
	}},
	{"Steps of a container host's boot, by the lines of its console.", []entry{
		{Metric{InitrdFreed, Seconds, Lower, "from the request to start until the guest kernel freed the initrd"}, Descriptive, nil},
		{Metric{KernelUp, Seconds, Lower, "from the request to start until the guest kernel freed its own initialisation memory"}, Descriptive, nil},
		{Metric{RootUp, Seconds, Lower, "from the request to start until the init of the root file system started"}, Descriptive, nil},
		{Metric{ModulesUp, Seconds, Lower, "from the request to start until system initialisation was complete (sysinit.target)"}, Descriptive, nil},
		{Metric{BridgeCreated, Seconds, Lower, "from the request to start until the bridge docker0 existed"}, Descriptive, nil},
		{Metric{BridgeUp, Seconds, Lower, "from the request to start until the bridge docker0 was up"}, Descriptive, nil},
		{Metric{EngineUp, Seconds, Lower, "from the request to start until the container engine was started"}, Descriptive, nil},
	}},
	{"CPU time, memory and scheduling of the instance.", []entry{
		{Metric{CPU, Seconds, Lower, "CPU time of the payload and of the runtime that belongs to it"}, Descriptive, nil},
		{Metric{CPUUser, Seconds, Lower, "the part of cpu in user mode, counted in kernel ticks: coarse below 0.1 s"}, Descriptive, nil},
		{Metric{CPUSystem, Seconds, Lower, "the part of cpu in the kernel, counted in kernel ticks: coarse below 0.1 s"}, Descriptive, nil},
		{Metric{PeakMemory, Bytes, Lower, "the instance's largest memory use at one moment, as its cgroup counts it; without one the payload's largest resident set, where the kernel has added it up"}, Descriptive, nil},
		{Metric{VoluntarySwitches, Count, Lower, "times that the payload gave up the CPU to wait"}, Descriptive, nil},
		{Metric{InvoluntarySwitches, Count, Lower, "times that the kernel took the CPU from the payload"}, Descriptive, nil},
		{Metric{MinorFaults, Count, Lower, "page faults of the payload that needed no I/O"}, Descriptive, nil},
		{Metric{MajorFaults, Count, Lower, "page faults of the payload that needed I/O"}, Descriptive, nil},
	}},
	{"Many instances that are measured as one.", []entry{
		{Metric{Elapsed, Seconds, Lower, "from the first request until the last instance ended or, if instances are held, acted"}, Primary, nil},
		{Metric{StartsPerSecond, PerSecond, Higher, "instances divided by elapsed time"}, Descriptive, nil},
		{Metric{ReadyP50, Seconds, Lower, "median of all instances' times to ready"}, Descriptive, nil},
		{Metric{ReadyP90, Seconds, Lower, "90th percentile of all instances' times to ready (from 10 instances on)"}, Descriptive, nil},
		{Metric{ReadyP99, Seconds, Lower, "99th percentile of all instances' times to ready (from 100 instances on)"}, Descriptive, nil},
		{Metric{ReadyMax, Seconds, Lower, "longest of all instances' times to ready"}, Descriptive, nil},
		{Metric{ReadyLast, Seconds, Lower, "time to ready of the instance that was started last; with a concurrency of 1, all others are alive by then"}, Primary, nil},
		{Metric{Removal, Seconds, Lower, "time to end the instances that still run and to remove all of them"}, Descriptive, nil},
	}},
	{"Results of sysbench and fio.", []entry{
		{Metric{Events, PerSecond, Higher, "events finished per second, by sysbench's clock"}, Primary, nil},
		{Metric{Operations, PerSecond, Higher, "reads, writes and fsyncs finished per second"}, Primary, nil},
		{Metric{Reads, PerSecond, Higher, "reads finished per second"}, Descriptive, nil},
		{Metric{Writes, PerSecond, Higher, "writes finished per second"}, Descriptive, nil},
		{Metric{Fsyncs, PerSecond, Higher, "fsyncs finished per second"}, Descriptive, nil},
		{Metric{ReadThroughput, BytesPerSecond, Higher, "bytes read per second"}, Descriptive, nil},
		{Metric{WriteThroughput, BytesPerSecond, Higher, "bytes written per second"}, Descriptive, nil},
		{Metric{LatencyMean, Seconds, Lower, "mean time of one event or access"}, Descriptive, nil},
		{Metric{LatencyP95, Seconds, Lower, "95th percentile of the time of one event (sysbench prints steps of 10 us)"}, Descriptive, nil},
		{Metric{LatencyP99, Seconds, Lower, "99th percentile of the time of one access; of the slower direction for a mix of reads and writes"}, Descriptive, nil},
		{Metric{LatencyMax, Seconds, Lower, "longest event or access (sysbench prints steps of 10 us)"}, Descriptive, nil},
	}},
	{"Network.", []entry{
		{Metric{Throughput, BitsPerSecond, Higher, "bits that arrived per second"}, Primary, []Metric{{Throughput, BytesPerSecond, Higher, "bytes written or read per second, by sysbench's clock"}}},
		{Metric{Moved, Bytes, Higher, "bytes that arrived"}, Descriptive, nil},
		{Metric{Retransmits, Count, Lower, "TCP segments sent again"}, Descriptive, nil},
		{Metric{Packets, PerSecond, Higher, "datagrams that arrived per second"}, Primary, nil},
		{Metric{Lost, Count, Lower, "share of the datagrams that did not arrive"}, Descriptive, nil},
		{Metric{RTT, Seconds, Lower, "median time from a request to its response, on the client's clock"}, Primary, nil},
		{Metric{RTTMean, Seconds, Lower, "mean time from a request to its response, on the client's clock"}, Descriptive, nil},
		{Metric{RTTP99, Seconds, Lower, "99th percentile of the time from a request to its response, on the client's clock"}, Descriptive, nil},
		{Metric{RTTP999, Seconds, Lower, "99.9th percentile of the time from a request to its response, on the client's clock"}, Descriptive, nil},
		{Metric{RoundTrips, Count, Higher, "round trips that were measured"}, Descriptive, nil},
		{Metric{Connections, PerSecond, Higher, "connections made per second"}, Primary, nil},
		{Metric{CPUPerGbit, Seconds, Lower, "CPU time of both ends and of the relay between them, user and system, per Gbit that arrived"}, Descriptive, nil},
		{Metric{ClientPerGbit, Seconds, Lower, "the client's CPU time per Gbit that arrived; that of both ends if they are one payload"}, Descriptive, nil},
		{Metric{ServerPerGbit, Seconds, Lower, "the server's CPU time per Gbit that arrived"}, Descriptive, nil},
		{Metric{RelayPerGbit, Seconds, Lower, "the userland proxy's CPU time per Gbit that arrived"}, Descriptive, nil},
		{Metric{SoftIRQPerGbit, Seconds, Lower, "time that the machine's CPUs spent in soft interrupts per Gbit that arrived (steps of 10 ms)"}, Descriptive, nil},
		{Metric{ClientNeighbours, Count, Lower, "entries of the client's IPv4 neighbour table after the client ended"}, Descriptive, nil},
		{Metric{ServerNeighbours, Count, Lower, "entries of the server's IPv4 neighbour table after the client ended"}, Descriptive, nil},
		{Metric{OnNetwork, Count, Lower, "containers that were alive on the network when the client ended, the two ends among them; without those that are bare namespaces"}, Descriptive, nil},
		{Metric{NFTRules, Count, Lower, "nftables rules of the host of the bridge, those of iptables-nft among them"}, Descriptive, nil},
		{Metric{IPTablesRules, Count, Lower, "entries of the old iptables tables (IPv4 and IPv6) of the host of the bridge"}, Descriptive, nil},
		{Metric{Proxies, Count, Lower, "processes that copy for published ports (userland proxies) on the host of the bridge"}, Descriptive, nil},
		{Metric{Resolvers, Count, Lower, "DNS servers that containers ask on the network: those in the containers' namespaces (127.0.0.11) without the client's, and on the host of the bridge (port 53)"}, Descriptive, nil},
	}},
	{"Verbs that are done to an instance while it is alive, on the host's clock.", []entry{
		{Metric{VerbExec, Seconds, Lower, "from the request to run another process inside until that process acted"}, Primary, nil},
		{Metric{VerbExecEnd, Seconds, Lower, "from the same request until its command had returned"}, Descriptive, nil},
		{Metric{VerbPause, Seconds, Lower, "from the request to pause until its command had returned; the payload does nothing then"}, Primary, nil},
		{Metric{VerbUnpause, Seconds, Lower, "from the request to unpause until the payload had answered what it was asked while it was paused"}, Primary, nil},
		{Metric{VerbStop, Seconds, Lower, "from the request to stop until the payload had ended by itself"}, Primary, nil},
	}},
	{"Requests at a given rate, whose times count from when each was due.", []entry{
		{Metric{Response, Seconds, Lower, "median time from when a request was due to its right answer, on the client's clock; one without a right answer counts until the end"}, Primary, nil},
		{Metric{ResponseMean, Seconds, Lower, "mean of these times"}, Descriptive, nil},
		{Metric{ResponseP90, Seconds, Lower, "90th percentile of these times (from 10 requests on)"}, Descriptive, nil},
		{Metric{ResponseP99, Seconds, Lower, "99th percentile of these times (from 100 requests on)"}, Descriptive, nil},
		{Metric{ResponseP999, Seconds, Lower, "99.9th percentile of these times (from 1,000 requests on)"}, Descriptive, nil},
		{Metric{ResponseMax, Seconds, Lower, "longest of these times"}, Descriptive, nil},
		{Metric{Answers, PerSecond, Higher, "right answers per second"}, Primary, nil},
		{Metric{RequestsDue, PerSecond, Higher, "requests that were due per second: what was asked for"}, Descriptive, nil},
		{Metric{RequestsFailed, Count, Lower, "requests that got no right answer: refused, lost with their connection, or not answered 2 s after the last was due"}, Descriptive, nil},
		{Metric{RequestsServed, Count, Higher, "requests by the server's own count"}, Descriptive, nil},
		{Metric{AnswerBytes, Bytes, Higher, "bytes of the right answers, with what the protocol adds"}, Descriptive, nil},
		{Metric{RequestWindow, Seconds, Lower, "time that the requests took, on the client's clock"}, Descriptive, nil},
		{Metric{ClientLate, Seconds, Lower, "99th percentile of how late the client itself sent a request that was due and had a free connection"}, Descriptive, nil},
	}},
	{"Unix tests.", []entry{
		{Metric{UnixScore, Count, Higher, "10 x rate / rate of the baseline machine; the sum over the processes inside the target"}, Primary, nil},
		{Metric{UnixRate, PerSecond, Higher, "what the test counts, per second of wall time; the sum over the processes"}, Descriptive, []Metric{{UnixRate, BytesPerSecond, Higher, "bytes copied per second of wall time; the sum over the processes"}}},
		{Metric{UnixCPUScore, Count, Higher, "the score by CPU time, as in published rows"}, Descriptive, nil},
		{Metric{UnixEvenness, Count, Higher, "rate of the slowest process divided by that of the fastest, 0 to 1"}, Descriptive, nil},
		{Metric{UnixOverlap, Count, Higher, "part of the longest process's window in which all processes inside the target worked, 0 to 1"}, Descriptive, nil},
		{Metric{UnixStart, Seconds, Lower, "when the last process began its first iteration, on the target's CLOCK_MONOTONIC"}, Descriptive, nil},
		{Metric{UnixEnd, Seconds, Lower, "when the first process ended, on the target's CLOCK_MONOTONIC"}, Descriptive, nil},
		{Metric{UnixTimed, Seconds, Lower, "the timed window of the longest process, from the opening of the barrier to the window's end"}, Descriptive, nil},
		{Metric{UnixContainersOverlap, Count, Higher, "part of the timed window in which every process of every instance of the trial worked, 0 to 1; should be at least 0.98"}, Descriptive, nil},
		{Metric{UnixBenchScore, Count, Higher, "score of the user's own UnixBench program, as its script Run counts; the sum over its processes"}, Descriptive, nil},
		{Metric{UnixBenchRatio, Count, Higher, "rate of tare's test by that of the user's UnixBench program next to it, both by CPU time"}, Descriptive, nil},
	}},
	{"Slices of workloads that are measured in rounds.", []entry{
		{Metric{SliceRate, PerSecond, Higher, "iterations per second of the payload's own time: the median of the block's slices"}, Primary, []Metric{{SliceRate, BytesPerSecond, Higher, "bytes per second of the payload's own time: the median of the block's slices"}}},
		{Metric{CPUEach, Seconds, Lower, "CPU time of one iteration, as the payload's kernel counts it"}, Descriptive, nil},
		{Metric{Turnaround, Seconds, Lower, "from the turn to its answer, without the time of the counted work: the way into the target and back, and what is worked before that time begins"}, Descriptive, nil},
		{Metric{Stalled, Count, Lower, "slices of a block during which the payload did not run for long; they are kept"}, Descriptive, nil},
	}},
	{"What runs next to the instances of a level with a load.", []entry{
		{Metric{BesideRate, PerSecond, Higher, "iterations per second of all instances of the load, while others were measured"}, Descriptive, nil},
		{Metric{BesideCPUs, Count, Higher, "CPUs that the load's work used, on average, as its own kernel counts CPU time"}, Descriptive, nil},
	}},
	{"Three containers over minutes.", []entry{
		{Metric{LoadTask, Seconds, Lower, "mean time of one piece of package work, by the clock of the machine with the containers"}, Primary, nil},
		{Metric{LoadRunnable, Count, Lower, "mean number of processes of all three containers that run or wait for a CPU or a disk"}, Descriptive, nil},
		{Metric{DiskRead, BytesPerSecond, Lower, "mean bytes per second that the three containers read from block devices"}, Descriptive, nil},
		{Metric{DiskWritten, BytesPerSecond, Lower, "mean bytes per second that the three containers write to block devices"}, Descriptive, nil},
		{Metric{NetReceived, BytesPerSecond, Lower, "mean bytes per second that the three containers receive"}, Descriptive, nil},
		{Metric{NetSent, BytesPerSecond, Lower, "mean bytes per second that the three containers send"}, Descriptive, nil},
	}},
	{"Churn of kernel objects.", []entry{
		{Metric{ChurnDone, Count, Higher, "whole cycles of all tasks, by their own count: threads times each"}, Descriptive, nil},
	}},
	{"Who used the CPU and the memory.", []entry{
		{Metric{PayloadCPU, Seconds, Lower, "CPU time of the payload's processes, user and system"}, Descriptive, nil},
		{Metric{RuntimeCPU, Seconds, Lower, "CPU time of the instance's runtime, shim or VMM, user and system"}, Descriptive, nil},
		{Metric{ClientCPU, Seconds, Lower, "CPU time of the command-line client, user and system"}, Descriptive, nil},
		{Metric{DaemonCPU, Seconds, Lower, "CPU time of the engine that instances share, user and system, during the trial; part of no total"}, Descriptive, nil},
		{Metric{PeerCPU, Seconds, Lower, "CPU time of the other end of the payload's connection, user and system"}, Descriptive, nil},
		{Metric{RelayCPU, Seconds, Lower, "CPU time of the relay that copies between the two ends, user and system"}, Descriptive, nil},
		{Metric{PayloadPeak, Bytes, Lower, "largest memory use of the payload's cgroup at one moment"}, Descriptive, nil},
		{Metric{RuntimePeak, Bytes, Lower, "largest memory use of the cgroup of the runtime, shim or VMM at one moment"}, Descriptive, nil},
		{Metric{TareCPU, Seconds, Lower, "CPU time of tare itself during the trial"}, Descriptive, nil},
	}},
	{"What disturbs a trial.", []entry{
		{Metric{Steal, Seconds, Lower, "CPU time that the hypervisor gave to others during the trial, over all CPUs (steps of 10 ms)"}, Descriptive, nil},
		{Metric{CPUPressure, Seconds, Lower, "time during the trial in which some task of the machine waited for a CPU"}, Descriptive, nil},
		{Metric{IOPressure, Seconds, Lower, "time during the trial in which some task of the machine waited for I/O"}, Descriptive, nil},
		{Metric{MachineCPU, Seconds, Lower, "CPU time that all CPUs of the machine spent on anything but tare during the trial (steps of 10 ms)"}, Descriptive, nil},
		{Metric{SoftIRQ, Seconds, Lower, "time that all CPUs of the machine spent in soft interrupts during the trial (steps of 10 ms)"}, Descriptive, nil},
		{Metric{GroupCPUPressure, Seconds, Lower, "time in which some task of the instances waited for a CPU"}, Descriptive, nil},
		{Metric{GroupIOPressure, Seconds, Lower, "time in which some task of the instances waited for I/O"}, Descriptive, nil},
		{Metric{GroupMemoryPressure, Seconds, Lower, "time in which some task of the instances waited for memory"}, Descriptive, nil},
		{Metric{RunQueueWait, Seconds, Lower, "time that all tasks of the machine together waited on run queues"}, Descriptive, nil},
	}},
	{"Counters of the instances' tasks, by perf_event_open(2).", []entry{
		{Metric{TaskClock, Seconds, Lower, "time that the instances' tasks were on a CPU, by the kernel's perf counter"}, Descriptive, nil},
		{Metric{Switches, Count, Lower, "context switches of the instances' tasks, voluntary or not"}, Descriptive, nil},
		{Metric{Migrations, Count, Lower, "times that one of the instances' tasks moved to another CPU"}, Descriptive, nil},
		{Metric{PageFaults, Count, Lower, "page faults of the instances' tasks, with and without I/O"}, Descriptive, nil},
		{Metric{Cycles, Count, Lower, "CPU cycles of the instances' tasks, user and kernel"}, Primary, []Metric{{Cycles, PerSecond, Higher, "whole cycles of all tasks per second"}}},
		{Metric{Instructions, Count, Lower, "instructions of the instances' tasks, user and kernel"}, Descriptive, nil},
		{Metric{Branches, Count, Lower, "branches of the instances' tasks, user and kernel"}, Descriptive, nil},
		{Metric{BranchMisses, Count, Lower, "branches of the instances' tasks that the CPU predicted wrongly"}, Descriptive, nil},
		{Metric{Counted, Count, Higher, "share of the time in which the CPU had a register for perf's counters, the least of the instances' events; recorded where it is below 1, and the counts are scaled up by it"}, Descriptive, nil},
		{Metric{ClockCounted, PerSecond, Higher, "clock rate of the CPUs while the instances' tasks ran on them, by the cycle counter"}, Descriptive, nil},
		{Metric{ClockCPUFreq, PerSecond, Higher, "clock rate of the fastest CPU during the trial, read from cpufreq every 100 ms"}, Descriptive, nil},
	}},
	{"Memory of instances that are held.", []entry{
		{Metric{AvailableDrop, Bytes, Lower, "decrease of MemAvailable per held instance; includes what the kernel and tare keep for it"}, Descriptive, nil},
		{Metric{Mapped, Bytes, Lower, "address space of an instance's payload: the sum of its mappings, as in pmap -x"}, Descriptive, nil},
		{Metric{Dirty, Bytes, Lower, "memory of an instance's payload that was written to, shared or private, as in pmap -x"}, Descriptive, nil},
		{Metric{GuestResident, Bytes, Lower, "the part of a virtual machine's memory that the host has given it"}, Descriptive, nil},
		{Metric{VMMOverhead, Bytes, Lower, "resident memory of a VMM without its guest's memory"}, Descriptive, nil},
		{Metric{VMMThreads, Count, Lower, "threads of a VMM, those of the guest's CPUs among them"}, Descriptive, nil},
		{Metric{VMMFiltered, Count, Higher, "threads of a VMM whose system calls a seccomp filter limits"}, Descriptive, nil},
		{Metric{SavedSize, Bytes, Lower, "disk space of the files that virtual machines were restored from, each file once"}, Descriptive, nil},
		{Metric{PayloadPSS, Bytes, Lower, "memory of an instance's payload; pages shared with others count in proportion"}, Descriptive, nil},
		{Metric{PayloadRSS, Bytes, Lower, "resident memory of an instance's payload; shared pages count in full"}, Descriptive, nil},
		{Metric{PayloadCharge, Bytes, Lower, "memory charged to the cgroup of an instance's payload"}, Descriptive, nil},
		{Metric{RuntimePSS, Bytes, Lower, "memory of an instance's runtime, shim or VMM; pages shared with others count in proportion"}, Descriptive, nil},
		{Metric{RuntimeRSS, Bytes, Lower, "resident memory of an instance's runtime, shim or VMM; shared pages count in full"}, Descriptive, nil},
		{Metric{RuntimeCharge, Bytes, Lower, "memory charged to the cgroup of an instance's runtime, shim or VMM; includes tare's launcher"}, Descriptive, nil},
		{Metric{ClientPSS, Bytes, Lower, "memory of an instance's command-line client; pages shared with others count in proportion"}, Descriptive, nil},
		{Metric{ClientRSS, Bytes, Lower, "resident memory of an instance's command-line client; shared pages count in full"}, Descriptive, nil},
		{Metric{ClientCharge, Bytes, Lower, "memory charged to the clients' cgroup, per instance; includes tare's launchers"}, Descriptive, nil},
		{Metric{DaemonPSS, Bytes, Lower, "memory of the engine that all instances share, as a whole"}, Descriptive, nil},
		{Metric{DaemonRSS, Bytes, Lower, "resident memory of the engine that all instances share, as a whole"}, Descriptive, nil},
		{Metric{DaemonCharge, Bytes, Lower, "memory charged to the engine's cgroup, as a whole"}, Descriptive, nil},
	}},
	{"Waits in the kernel, by a probe that watches them.", []entry{
		{Metric{LockWait, Seconds, Lower, "time that the trial's threads waited for kernel locks, summed over threads"}, Primary, nil},
		{Metric{LockWaits, Count, Lower, "waits of the trial's threads for kernel locks"}, Descriptive, nil},
		{Metric{SleepWait, Seconds, Lower, "time that the trial's threads slept uninterruptibly for anything but a lock, summed over threads"}, Descriptive, nil},
		{Metric{KernelWait, Seconds, Lower, "time that the kernel's own threads waited for locks during the trial, for whomever they worked, summed over threads"}, Descriptive, nil},
		{Metric{SharedWait, Seconds, Lower, "time that threads of the user's own engine waited for locks during the trial, perhaps for others too, summed over threads"}, Descriptive, nil},
		{Metric{OnCPUTime, Seconds, Lower, "time that the trial's threads ran, summed over threads"}, Primary, nil},
		{Metric{AsleepTime, Seconds, Lower, "time that the trial's threads slept, for any reason, summed over threads"}, Descriptive, nil},
		{Metric{RunnableTime, Seconds, Lower, "time that the trial's threads waited for a CPU after one was taken from them, summed over threads"}, Descriptive, nil},
		{Metric{ProbeTime, Seconds, Lower, "CPU time of the probe's programs"}, Descriptive, nil},
	}},
}
