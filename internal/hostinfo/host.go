// Package hostinfo gathers facts of the machine, each proven by use.
package hostinfo

// CPUs are those that a part of a run might use.
type CPUs struct {
	Threads int `json:"threads"` // hardware threads
	Cores   int `json:"cores"`   // physical cores that these belong to; 0 = unknown
}

// Host is the machine a run was made on, as far as it can change a result.
type Host struct {
	Hostname       string            `json:"hostname"`
	OS             string            `json:"os"`                    // PRETTY_NAME of /etc/os-release
	Kernel         string            `json:"kernel"`                // uname -r
	KernelBuild    string            `json:"kernelBuild"`           // uname -v
	Arch           string            `json:"arch"`                  // GOARCH
	CPU            string            `json:"cpu"`                   // model name; Loongson's cpuinfo keys are known
	CPUs           int               `json:"cpus"`                  // online
	Cores          int               `json:"cores"`                 // physical cores among them, 0 = unknown
	Usable         int               `json:"usableCPUs,omitempty"`  // CPUs that tare might use: of its cpuset and affinity; 0 = unknown, in older runs
	Granted        int               `json:"grantedCPUs,omitempty"` // CPUs that a batch scheduler gave to tare's job on this machine; 0 = none did, or it does not say
	ClockGHz       float64           `json:"clockGHz,omitempty"`    // of a busy CPU; 0 = unknown
	ClockSource    string            `json:"clockSource,omitempty"` // how ClockGHz is known: one of the Clock constants
	Emulated       string            `json:"emulated,omitempty"`    // why the CPU is an emulated one, so that no time means anything; "" = nothing says so
	Memory         int64             `json:"memory"`                // bytes
	Governor       string            `json:"governor"`              // of cpu0, "" = no cpufreq
	SchedExt       string            `json:"schedExt,omitempty"`    // the BPF scheduler that runs processes, "" = the kernel's own
	Mitigations    map[string]string `json:"mitigations,omitempty"` // /sys/devices/system/cpu/vulnerabilities
	Virtualization string            `json:"virtualization"`        // "none", or the hypervisor's name
	Cgroup         string            `json:"cgroup"`                // "v1", "hybrid" or "v2"
	Clocksource    string            `json:"clocksource"`
	TCPCongestion  string            `json:"tcpCongestion,omitempty"` // net.ipv4.tcp_congestion_control, which new network namespaces begin with
	BootID         string            `json:"bootID"`
	Root           bool              `json:"root"` // measured as root
	// Machine tells this machine from others without naming it: see machineID. This and
	// what follows are not in older runs, and empty where the machine does not tell.
	Machine     string `json:"machine,omitempty"`
	Product     string `json:"product,omitempty"`     // DMI's vendor and product
	BIOS        string `json:"bios,omitempty"`        // DMI's vendor, version and date
	Stepping    string `json:"stepping,omitempty"`    // of the first CPU
	Microcode   string `json:"microcode,omitempty"`   // of the first CPU
	CommandLine string `json:"commandLine,omitempty"` // the kernel's, without ids of machines and disks
	SMT         string `json:"smt,omitempty"`         // "on", "off", "forceoff", "notsupported"
	NUMANodes   int    `json:"numaNodes,omitempty"`
	HugePages   string `json:"hugePages,omitempty"`   // transparent ones: "always", "madvise" or "never"
	Place       string `json:"place,omitempty"`       // in what tare ran: one of the Place constants
	CgroupDepth int    `json:"cgroupDepth,omitempty"` // groups above tare, as its cgroup namespace shows
}
