package ebpf

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/features"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/rlimit"
	"golang.org/x/sys/unix"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/profile"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/sys"
)

// session is a set of programs that are attached.
type session struct {
	programs []*ebpf.Program
	links    []io.Closer
	objects  io.Closer
	counting io.Closer // the kernel's account of programs' time
	began    time.Time
	notes    []string
}

// A Recorder records what happens to a selection until stop is called. The error
// is a driver.CannotError where this machine or this user cannot.
type Recorder func(own Selection) (stop func() (profile.Profile, error), err error)

// Probe records what a Recorder sees during a trial, of the processes that the
// trial's watches name. It keeps the profile by Keep, and gives its values.
type Probe struct {
	Record Recorder
	Root   string // of the trial's programs' files; "" for the host's
	Keep   func(profile.Profile) error
}

// Begin arms the probe for the watched processes.
func (b Probe) Begin(_ context.Context, on []driver.Watch) (func() ([]sample.Value, error), error) {
	own, err := Select(on)
	if err != nil {
		return nil, fmt.Errorf("probe: %w", err)
	}
	own.Root = b.Root
	stop, err := b.Record(own)
	if err != nil {
		return nil, err
	}
	return func() ([]sample.Value, error) {
		p, err := stop()
		if err != nil {
			return nil, fmt.Errorf("probe: %w", err)
		}
		values := p.Values()
		for i := range values {
			values[i].Way = string(p.Way)
		}
		return values, b.Keep(p)
	}, nil
}

// cannot says in the user's words why the kernel took no program.
func cannot(err error) error {
	c := &driver.CannotError{Target: "the probe", Lacks: err.Error()}
	var refused *ebpf.VerifierError
	switch {
	case errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES):
		c.Lacks = "the right to load BPF programs (" + err.Error() + ")"
		c.Remedy = "run as root with CAP_BPF and CAP_PERFMON"
		if mode := lockdown("/sys/kernel/security/lockdown"); mode != "" {
			c.Lacks += ": this kernel is locked down (" + mode + ")"
			c.Remedy += ", on a kernel without lockdown="
		}
	case errors.Is(err, fs.ErrNotExist) && !hasBTF():
		return &lackingError{"this kernel shows no types in /sys/kernel/btf/vmlinux (CONFIG_DEBUG_INFO_BTF)"}
	case errors.As(err, &refused):
		if version, versionErr := features.LinuxVersionCode(); versionErr == nil && version < needsVersion {
			return &lackingError{"this kernel does not have all that the probe's programs call (Linux 5.11)"}
		}
		return fmt.Errorf("the kernel's verifier refuses the probe, which is a mistake of tare's: %w", err)
	case errors.Is(err, ebpf.ErrNotSupported) || errors.Is(err, unix.ENOSYS):
		return &lackingError{"this kernel does not take the probe's programs (Linux 5.11, CONFIG_BPF_SYSCALL): " + err.Error()}
	default:
		return err
	}
	return c
}

// needsVersion is the first kernel with bpf_get_current_task_btf: 5.11. Older ones that
// have it from their distribution are used as they are.
const needsVersion = 5<<16 | 11<<8

// lackingError is what a kernel lacks for the programs of this package, and perf events do
// not need.
type lackingError struct{ why string }

func (e *lackingError) Error() string { return e.why }

// lockdown is the mode that a kernel is locked down in, by its file, as
// "none [integrity] confidentiality"; "" where it is not, or does not tell.
func lockdown(file string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return "" // no such module, or securityfs is not mounted
	}
	_, rest, _ := strings.Cut(string(text), "[")
	mode, _, _ := strings.Cut(rest, "]")
	if mode == "none" {
		return ""
	}
	return mode
}

func hasBTF() bool {
	_, err := os.Stat("/sys/kernel/btf/vmlinux")
	return err == nil
}

// load loads programs into objects, a pointer to what bpf2go made.
func load(spec *ebpf.CollectionSpec, objects any, own Selection) error {
	if !sys.HasCall(sys.CallBPF) {
		return &lackingError{"this kernel does not have bpf(2) (Linux 3.18, CONFIG_BPF_SYSCALL)"}
	}
	// Before Linux 5.11 maps counted against RLIMIT_MEMLOCK.
	if err := rlimit.RemoveMemlock(); err != nil && !errors.Is(err, unix.EPERM) {
		return fmt.Errorf("locked memory: %w", err)
	}
	version, err := features.LinuxVersionCode()
	if err != nil {
		return fmt.Errorf("the kernel's version: %w", err)
	}
	preallocate(spec, version)
	if err := own.constants(spec); err != nil {
		return err
	}
	if err := spec.LoadAndAssign(objects, nil); err != nil {
		if !hasBTF() {
			err = errors.Join(err, fs.ErrNotExist)
		}
		return cannot(err)
	}
	return nil
}

// preallocate gives maps all of their memory at once where the kernel has none
// to give to a program that interrupts anything: before Linux 6.1. It is for the
// kernel of a version, as the kernel counts them.
func preallocate(spec *ebpf.CollectionSpec, version uint32) {
	if version >= 6<<16|1<<8 {
		return
	}
	for _, m := range spec.Maps {
		m.Flags &^= unix.BPF_F_NO_PREALLOC
	}
}

// attach attaches tracepoints' programs. On an error nothing stays attached.
func (s *session) attach(programs ...*ebpf.Program) error {
	// Without it the programs' cost is unknown, and everything else works.
	if counting, err := ebpf.EnableStats(uint32(unix.BPF_STATS_RUN_TIME)); err == nil {
		s.counting = counting
	} else {
		s.notes = append(s.notes, "the kernel does not count its programs' time: "+err.Error())
	}
	for _, p := range programs {
		l, err := link.AttachTracing(link.TracingOptions{Program: p, AttachType: ebpf.AttachTraceRawTp})
		if err != nil {
			return errors.Join(cannot(fmt.Errorf("attach %s: %w", p, err)), s.close())
		}
		s.links, s.programs = append(s.links, l), append(s.programs, p)
	}
	s.began = time.Now()
	return nil
}

// detach ends the recording and fills in what it cost.
func (s *session) detach(p *profile.Profile) error {
	p.Elapsed, p.Notes = time.Since(s.began), s.notes
	var errs []error
	for _, l := range s.links {
		errs = append(errs, l.Close())
	}
	s.links = nil
	for _, prog := range s.programs {
		stats, err := prog.Stats()
		if err != nil {
			errs = append(errs, fmt.Errorf("time of %s: %w", prog, err))
			continue
		}
		p.Cost += stats.Runtime
		lose(p, "events inside the probe itself", stats.RecursionMisses)
	}
	return errors.Join(errs...)
}

func lose(p *profile.Profile, what string, n uint64) {
	if n == 0 {
		return
	}
	if p.Lost == nil {
		p.Lost = map[string]uint64{}
	}
	p.Lost[what] += n
}

func (s *session) close() error {
	var errs []error
	for _, l := range s.links {
		errs = append(errs, l.Close())
	}
	if s.counting != nil {
		errs = append(errs, s.counting.Close())
	}
	return errors.Join(append(errs, s.objects.Close())...)
}
