package hostinfo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/tarelab/tare/internal/probe/ebpf"
)

// Fact is one thing that the machine can do or cannot, found out by doing it.
type Fact struct {
	Name      string `json:"name"`
	OK        bool   `json:"ok"`
	Value     string `json:"value,omitempty"`     // what was seen
	Why       string `json:"why,omitempty"`       // where it cannot: what failed
	Remedy    string `json:"remedy,omitempty"`    // where it cannot: what to do
	NeedsRoot bool   `json:"needsRoot,omitempty"` // it cannot be told without root, or works only for root
}

// factTimeout bounds one proof; together they take as long as the slowest. On a machine with
// builds on all CPUs one took longer than 5 s.
const factTimeout = 20 * time.Second

// proof finds one fact out. The error says why the machine cannot do it.
type proof struct {
	name      string
	needsRoot bool
	remedy    string
	try       func(context.Context) (value string, err error)
}

func proofs() []proof {
	return []proof{
		{"kernel since 3.10", false, "a newer kernel; what is measured in another way is noted in each run (docs/old-kernels.md)", kernelCalls},
		{"cgroup controllers", false, "mount cgroup v2: mount -t cgroup2 cgroup2 /sys/fs/cgroup", controllers},
		{"cgroups writable", true, "", writableCgroups},
		{"start inside a cgroup", true, "a kernel with cgroup v2 mounted, 5.7 or later", cloneIntoCgroup},
		{"namespaces", true, "", namespaces},
		{"user namespaces", false, "sysctl kernel.unprivileged_userns_clone=1 or user.max_user_namespaces=10000; with AppArmor, kernel.apparmor_restrict_unprivileged_userns=0", userNamespace},
		{"overlayfs", false, "modprobe overlay; without root it takes user namespaces and Linux 5.11", overlay},
		{"seccomp filters", false, "a kernel with CONFIG_SECCOMP_FILTER", seccompFilter},
		{"perf hardware counters", false, "run on bare metal, or give the virtual machine a PMU; sysctl kernel.perf_event_paranoid=1", hardwareCounters},
		{"perf software counters", false, "sysctl kernel.perf_event_paranoid=1", softwareCounters},
		{"eBPF", true, "a kernel with CONFIG_BPF_SYSCALL", loadBPF},
		{"BTF", false, "a kernel with CONFIG_DEBUG_INFO_BTF", kernelTypes},
		{"tracepoints", true, "a kernel with CONFIG_FTRACE, 5.19 or later", tracepoints},
		{"stacks measured", true, "a newer kernel, with BTF; what is measured in this way is noted, and not compared with other ways (docs/locks.md)", measured(ebpf.RecordStacks)},
		{"lock waits measured", true, "a newer kernel, with BTF; what is measured in this way is noted, and not compared with other ways (docs/locks.md)", measured(ebpf.RecordLocks)},
		{"pressure (PSI)", false, "boot with psi=1", pressure},
		{"KVM", false, "where the device is missing: modprobe kvm_intel or kvm_amd, and nested virtualization inside a VM; where it is forbidden: join the group kvm; VMs run with accel=tcg without it", kvm},
	}
}

// Probe proves the machine's facts by use, at the same time, and puts
// everything back. It works as any user; what only root can do is marked so.
func Probe(ctx context.Context) []Fact {
	all := proofs()
	facts := make([]Fact, len(all))
	var group sync.WaitGroup
	for i, p := range all {
		group.Go(func() { facts[i] = p.fact(ctx) })
	}
	group.Wait()
	return facts
}

func (p proof) fact(ctx context.Context) Fact {
	ctx, cancel := context.WithTimeout(ctx, factTimeout)
	defer cancel()
	f := Fact{Name: p.name, NeedsRoot: p.needsRoot}
	value, err := p.try(ctx)
	if f.Value = value; err == nil {
		f.OK = true
		return f
	}
	f.Why = err.Error()
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		f.Why = fmt.Sprintf("no answer within %s", factTimeout)
	}
	f.Remedy = p.remedy
	if p.needsRoot && os.Geteuid() != 0 {
		f.Remedy = "run as root"
	}
	return f
}
