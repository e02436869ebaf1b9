package preflight

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/driver/fake"
	"github.com/tarelab/tare/internal/driver/netpath"
	"github.com/tarelab/tare/internal/net"
	"github.com/tarelab/tare/internal/study"
	"github.com/tarelab/tare/internal/workload"
)

// machine is a machine of four CPUs on which everything works, but for what is set.
type machine struct {
	cpus     []int
	groups   bool
	busy     bool // no group can be idle
	unbound  bool // no group can be bound to CPUs
	ksm      string
	huge     string
	inUse    string           // a range of addresses
	probes   map[string]error // that do not work
	capacity []Capacity
}

func (m machine) Arch() string                    { return "amd64" }
func (m machine) CPUs() ([]int, error)            { return m.cpus, nil }
func (m machine) Limits() bool                    { return m.groups }
func (m machine) Idles() bool                     { return !m.busy }
func (m machine) Binds() bool                     { return !m.unbound }
func (m machine) KSMLacks() string                { return m.ksm }
func (m machine) HugePagesLack() string           { return m.huge }
func (m machine) Watch(probe string) error        { return m.probes[probe] }
func (m machine) Capacities() ([]Capacity, error) { return m.capacity, nil }
func (m machine) UnusedRange(addresses string) error {
	if addresses == m.inUse {
		return errors.New("the address range is in use")
	}
	return nil
}

// good is a machine on which one cell of each target runs.
func good() machine {
	return machine{cpus: []int{0, 1, 2, 3}, groups: true, inUse: "10.0.0.0/8", capacity: []Capacity{
		{Of: Memory, Name: "the memory that is available", Value: 1 << 30},
		{Of: LabFiles, Name: "ulimit -n", Value: 1024, InUse: 300},
		{Of: DaemonFiles, Name: "ulimit -Hn", Value: 4096},
		{Of: Tasks, Name: "pid_max", Value: 32768, InUse: 300},
	}}
}

// unreporting is a virtual machine whose guest reports no free pages.
type unreporting struct{ driver.Driver }

func (u unreporting) Properties() driver.Properties {
	p := u.Driver.Properties()
	p.Machine = &driver.Machine{Takes: func(_ context.Context, _ driver.Limits, devices driver.Devices) error {
		if devices.PageReporting {
			return &driver.CannotError{Target: "qemu/microvm", Lacks: "the guest's kernel has no virtio_balloon"}
		}
		return nil
	}}
	return p
}

// docked is a target with a Docker that works, or fails with err.
type docked struct {
	driver.Driver
	err   error
	asked *int
}

func (d docked) CheckHost(context.Context) error {
	*d.asked++
	return d.err
}

// scene is a question with its machine, for a row of the table to change.
type scene struct {
	Question
	machine machine
	job     workload.Job
}

// newScene is one cell of each target, with a control, in which nothing is wrong.
func newScene() *scene {
	s := &scene{machine: good(), Question: Question{
		Study:   study.Study{ID: "s", Blocks: 20, Alpha: 0.05, Margin: 0.02, Targets: []string{"runc"}, Control: "host"},
		Targets: map[string]Target{},
	}}
	for _, name := range []string{"host", "runc"} {
		s.Targets[name] = Target{Driver: fake.New(name, nil)}
		s.Cells = append(s.Cells, study.Cell{ID: name + "/w", Target: name, Workload: "w", Group: "w", Copies: 1, Control: name == "host"})
	}
	s.Job = func(study.Cell) workload.Job { return s.job }
	return s
}

// on puts the second target on a path.
func (s *scene) on(path net.Path) {
	of := netpath.New(driver.Lab{}, fake.New("runc", nil), fake.New("host", nil), path)
	s.Targets["runc"] = Target{Driver: of}
	s.Wanted = append(s.Wanted, of)
}

// level gives the second cell a level; the study has it too.
func (s *scene) level(l study.Environment) {
	s.Cells[1].Limits, s.Cells[1].Environment = l, l.Name
	s.Study.Environments = append(s.Study.Environments, l)
}

// Each requirement refuses, skips or notes what it is there for, and nothing that is
// near to it.
func TestRequirements(t *testing.T) {
	cannotErr := &driver.CannotError{Target: "locks", Lacks: "BTF"}
	twenty := func(s *scene) { s.Cells[1].Copies = 20 }
	for name, c := range map[string]struct {
		change  func(*scene)
		by      string // the requirement that refuses
		words   string // of its reason
		cannot  bool   // the reason is a *driver.CannotError
		skipped string // a cell's ID or a probe's name
		note    string
		err     string // it cannot be found out
	}{
		"nothing is wrong": {},

		"limits without cgroups":    {change: func(s *scene) { s.level(study.Environment{Pids: 5}); s.machine.groups = false }, by: "cgroups", words: "cgroups that this user may make", cannot: true},
		"no limits without cgroups": {change: func(s *scene) { s.level(study.Environment{Name: "free"}); s.machine.groups = false }},

		"KSM":               {change: func(s *scene) { s.level(study.Environment{Name: "ksm", Guest: &study.Guest{KSM: true}}) }, by: "settings", words: "--allow-sysctl"},
		"KSM is allowed":    {change: func(s *scene) { s.level(study.Environment{Guest: &study.Guest{KSM: true}}); s.AllowSysctl = true }},
		"neighbours":        {change: func(s *scene) { s.level(study.Environment{Name: "full", Network: &study.Network{Limit: 7}}) }, by: "settings", words: "gc_thresh*) to 7"},
		"neighbours' table": {change: func(s *scene) { s.level(study.Environment{Network: &study.Network{Neighbours: "empty"}}) }},

		"addresses in use": {change: func(s *scene) {
			s.on(net.Bridge)
			s.level(study.Environment{Network: &study.Network{}})
			s.level(study.Environment{Network: &study.Network{Range: "10.0.0.0/8"}})
		}, by: "addresses", words: "in use, with --set range="},
		"default addresses in use":  {change: func(s *scene) { s.on(net.Bridge); s.machine.inUse = "" }, by: "addresses", words: "in use"},
		"a path without addresses":  {change: func(s *scene) { s.on(netpath.Loopback); s.machine.inUse = "" }},
		"targets without addresses": {change: func(s *scene) { s.machine.inUse = "" }},

		"a wait that nobody records": {change: func(s *scene) { s.Study.Interventions = []study.Intervention{{Name: "i", Wait: "patience"}} }, by: "waits", words: `no probe records the wait "patience"`},

		"a probe": {change: func(s *scene) {
			s.Study.Probes = []string{"locks"}
			s.machine.probes = map[string]error{"locks": cannotErr}
		}, by: "probes", words: "BTF", cannot: true},
		"a probe fails": {change: func(s *scene) {
			s.Study.Probes = []string{"locks"}
			s.machine.probes = map[string]error{"locks": errors.New("ring buffer")}
		}, err: "ring buffer"},
		"an optional probe": {change: func(s *scene) {
			s.Study.OptionalProbes = []string{"stacks", "locks"}
			s.machine.probes = map[string]error{"locks": errors.New("no BTF")}
		}, skipped: "locks", words: "the probe locks is skipped: no BTF"},

		"another architecture's": {change: func(s *scene) { s.Foreign = map[string][]string{"runc": {"arm64"}} }, by: "architecture", words: "it is for arm64, and this machine is amd64", cannot: true},
		"not required": {change: func(s *scene) {
			s.Foreign = map[string][]string{"qemu/virt": {"arm64"}}
			s.Study.Optional = []string{"qemu/virt"}
		}},

		"a parameter":      {change: func(s *scene) { s.Study.Params = map[string]string{"tmie": "1s"} }, by: "parameters", words: `study s: params: no workload has a parameter "tmie"; did you mean "time"?`},
		"of a level":       {change: func(s *scene) { s.level(study.Environment{Params: map[string]string{"zzzzzz": "1"}}) }, by: "parameters", words: "environments[0].params: no workload has a parameter"},
		"known parameters": {change: func(s *scene) { s.Study.Params = map[string]string{"time": "1s"} }},

		"CPUs":      {change: func(s *scene) { s.level(study.Environment{Name: "five", CPUSet: "first-5"}) }, by: "CPUs", words: "study s: environments[0] (five): cpuset first-5: --cpuset or the study asks for 5 CPUs"},
		"four CPUs": {change: func(s *scene) { s.level(study.Environment{CPUSet: "0-3"}) }},

		"a guest that cannot": {change: func(s *scene) {
			s.level(study.Environment{Guest: &study.Guest{PageReporting: true}})
			s.Targets["runc"] = Target{Driver: unreporting{fake.New("runc", nil)}}
		}, skipped: "runc/w", words: "virtio_balloon"},
		"no KSM": {change: func(s *scene) {
			s.level(study.Environment{Guest: &study.Guest{KSM: true}})
			s.AllowSysctl, s.machine.ksm = true, "CONFIG_KSM"
			s.Targets["runc"] = Target{Driver: unreporting{fake.New("runc", nil)}}
		}, skipped: "runc/w", words: "CONFIG_KSM"},
		"no huge pages": {change: func(s *scene) {
			s.level(study.Environment{Guest: &study.Guest{HugePages: true}})
			s.AllowSysctl, s.machine.huge = true, "nr_hugepages"
			s.Targets["runc"] = Target{Driver: unreporting{fake.New("runc", nil)}}
		}, skipped: "runc/w", words: "nr_hugepages"},
		"huge pages unasked": {change: func(s *scene) { s.level(study.Environment{Name: "huge", Guest: &study.Guest{HugePages: true}}) }, by: "settings", words: "the environment huge takes memory of the whole machine for its pool of huge pages"},
		"no user mode": {change: func(s *scene) {
			s.Targets["runc"] = Target{fake.New("runc", nil), driver.Facts{Notes: map[string]string{driver.NoteBootsTo: "init", driver.NoteNoKVM: "no user mode"}}}
			s.Cells = append(s.Cells, study.Cell{ID: "host/w", Target: "host", Workload: "w", Group: "w", Copies: 1, Control: true}, study.Cell{ID: "crun/w", Target: "crun", Workload: "w", Group: "w", Copies: 1})
			s.Targets["host"], s.Targets["crun"] = Target{Driver: fake.New("host", nil)}, Target{Driver: fake.New("crun", nil)}
		}, skipped: "runc/w", words: `target runc boots to "init" and runs no payload: no user mode`},
		"no guest": {change: func(s *scene) { s.level(study.Environment{Guest: &study.Guest{PageReporting: true}}) }},

		"a full bridge": {change: func(s *scene) {
			s.on(net.Bridge)
			s.level(study.Environment{Network: &study.Network{Containers: 1 << 20}})
		}, by: "network", words: "cell runc/w: "},
		"ends apart on one CPU": {change: func(s *scene) {
			s.on(net.Bridge)
			s.level(study.Environment{Name: "apart", CPUSet: "2", Network: &study.Network{Pin: netpath.Apart}})
			s.Cells = append(s.Cells, study.Cell{ID: "runc/v", Target: "runc", Workload: "v", Group: "v", Copies: 1})
		}, skipped: "runc/w", words: "the environment apart pins the two ends apart, and 1 CPU may be used"},
		"nothing is left to compare": {change: func(s *scene) {
			s.on(net.Bridge)
			s.level(study.Environment{Name: "apart", CPUSet: "2", Network: &study.Network{Pin: netpath.Apart}})
		}, by: "something to compare", words: "nothing is left to measure: the environment apart"},
		"no control": {change: func(s *scene) {
			s.Targets["host"] = Target{Driver: netpath.New(driver.Lab{}, fake.New("host", nil), fake.New("host", nil), net.Bridge)}
			s.Cells[0].Limits = study.Environment{CPUSet: "2", Network: &study.Network{Pin: netpath.Apart}}
		}, by: "control of each comparison", words: "cell runc/w: its control cannot be measured"},

		"an optional workload": {change: func(s *scene) {
			s.Study.Workloads = []study.Workload{{Name: "w", Kind: "start"}, {Name: "db", Kind: "postgres", Optional: true}}
			s.Lacks = func(w study.Workload) error {
				if w.Name != "db" {
					return errors.New("nobody asked for it")
				}
				return errors.New("postgres is not installed")
			}
		}, skipped: "db", words: "workload db is skipped: postgres is not installed"},
		"no workload": {change: func(s *scene) {
			s.Study.Workloads = []study.Workload{{Name: "db", Kind: "postgres", Optional: true}}
			s.Lacks = func(study.Workload) error { return errors.New("postgres is not installed") }
		}, by: "programs", words: "nothing is left to measure: workload db is skipped"},

		"the whole machine":  {change: func(s *scene) { s.job.OwnMachine = true }, by: "machine of its own", words: "target host runs on this one"},
		"a whole machine":    {change: func(s *scene) { s.job.OwnMachine = true; s.noted(driver.NoteAccel, "tcg") }},
		"no Docker":          {change: func(s *scene) { s.job.Beside = true }, by: "Docker host", words: "target host has no Docker of its own"},
		"Docker":             {change: func(s *scene) { s.job.Beside = true; s.dock(nil) }},
		"Docker in a limit":  {change: func(s *scene) { s.job.Beside = true; s.dock(nil); s.level(study.Environment{Pids: 7}) }, by: "Docker host", words: "remove the limits, and run one instance"},
		"Docker that is off": {change: func(s *scene) { s.job.Beside = true; s.dock(cannotErr) }, by: "Docker host", words: "target host: locks cannot run here", cannot: true},
		"Docker that fails":  {change: func(s *scene) { s.job.Beside = true; s.dock(errors.New("EOF")) }, err: "target host: EOF"},

		"memory": {change: func(s *scene) { s.Cells[1].Copies = math.MaxInt32 }, by: "capacity",
			words: "cell runc/w cannot run here: 2147483647 instances, 2147483647 under way at once, need about 34PiB of memory (2147483647 x 1MiB + 2147483647 under way x 16MiB), and the memory that is available is 1GiB; run fewer instances, or raise it"},
		"memory of the payload": {change: func(s *scene) { s.job.Memory = 1 << 30 }, by: "capacity", words: "1 x 1MiB + 1 alive x 1GiB + 1 under way x 16MiB"},
		"memory of many":        {change: func(s *scene) { s.Cells[1].Copies, s.Cells[1].Concurrency = 1e7, 100 }, by: "capacity", words: "10000000 x 1MiB + 100 under way x 16MiB"},
		"tare's files":          {change: func(s *scene) { twenty(s); s.takes(driver.Footprint{LabFiles: 64}) }, by: "capacity", words: "1740 descriptors (300 + 20 x 72), and ulimit -n is 1024"},
		"the daemon's files":    {change: func(s *scene) { twenty(s); s.takes(driver.Footprint{DaemonFiles: 500}) }, by: "capacity", words: "descriptors of its daemon (20 alive x 500), and ulimit -Hn is 4096"},
		"a user's own daemon": {change: func(s *scene) {
			twenty(s)
			s.takes(driver.Footprint{DaemonFiles: 500})
			s.noted(driver.NoteUnread, "all")
		}},
		"tasks":                {change: func(s *scene) { twenty(s); s.takes(driver.Footprint{Tasks: 4000}) }, by: "capacity", words: "need about 80660 processes and threads, 300 of them running now (300 + 20 x 2 + 20 alive x 4000 + 20 under way x 16), and pid_max is 32768"},
		"ports":                {change: func(s *scene) { twenty(s); s.props(driver.Properties{Ports: 10}) }, by: "capacity", words: "20 instances alive at once need a port each, and the network of runc has 10"},
		"ports of those alive": {change: func(s *scene) { twenty(s); s.Cells[1].Concurrency = 10; s.props(driver.Properties{Ports: 10}) }},
		"held": {change: func(s *scene) {
			s.job.Hold = true
			s.Cells = append(s.Cells, study.Cell{ID: "runc/w+x200", Target: "runc", Workload: "w", Group: "w+x200", Copies: 200, Concurrency: 1})
		}, skipped: "runc/w+x200", words: "need about 1.578GiB of memory (200 x 8MiB + 1 under way x 16MiB)"},
		"held, asked for":              {change: func(s *scene) { s.job.Hold, s.Exact, s.Cells[1].Copies = true, true, 200 }, by: "capacity", words: "200 instances"},
		"no level of a target is left": {change: func(s *scene) { s.job.Hold, s.Cells[1].Copies = true, 200 }, by: "required targets", words: "200 instances"},
		"no level of an optional one":  {change: func(s *scene) { s.job.Hold, s.Cells[1].Copies, s.Study.Optional = true, 200, []string{"runc"} }, skipped: "runc/w", words: "200 instances"},

		"rounds": {change: func(s *scene) {
			for i := range s.Cells {
				s.Cells[i].Set, s.Cells[i].Copies = "rounds-1", 8
			}
			s.job.Memory = 60 << 20
		}, by: "capacity", words: "16 instances of 2 targets are alive at once in rounds and need about 1.203GiB of memory, and the memory that is available is 1GiB"},
		"one after another": {change: func(s *scene) {
			for i := range s.Cells {
				s.Cells[i].Copies = 8
			}
			s.job.Memory = 60 << 20
		}},
		"workloads of one set share their instances": {change: func(s *scene) {
			for _, c := range s.Cells {
				c.ID, c.Workload, c.Group = c.Target+"/v", "v", "v"
				s.Cells = append(s.Cells, c)
			}
			for i := range s.Cells {
				s.Cells[i].Set, s.Cells[i].Copies = "rounds-1", 4
			}
			s.job.Memory = 60 << 20
		}},

		"limits of memory": {change: func(s *scene) { twenty(s); s.level(study.Environment{Memory: 1 << 29}) }, note: "cell runc/w: 20 instances may use 512MiB each, 10GiB in total, and 1GiB is available"},
		"the twin's":       {change: func(s *scene) { twenty(s); s.level(study.Environment{Memory: 1 << 29}); s.Cells[1].AA = true }},

		"an optional level does not fit": {change: func(s *scene) {
			s.Study.OptionalEnvironments = []study.Environment{{Name: "eight", CPUSet: "first-8"}, {Name: "two", CPUSet: "first-2"}}
			s.Study.Environments = []study.Environment{{Name: "one", CPUSet: "first"}}
		}, skipped: "eight", words: "environments of more CPUs than the 4 that may be used here (0-3)"},
		"no optional level fits": {change: func(s *scene) {
			s.Study.OptionalEnvironments = []study.Environment{{Name: "eight", CPUSet: "first-8"}}
		}, by: "optional environments", words: "no environment is left: environment eight"},
		"an optional level cannot be bound": {change: func(s *scene) {
			s.machine.unbound = true
			s.Study.OptionalEnvironments = []study.Environment{{Name: "two", CPUSet: "first-2", Extra: true}}
			s.Study.Environments = []study.Environment{{}}
		}, skipped: "two", words: "cannot run here: cgroups with cpuset that this user may make"},
		"no group can be idle": {change: func(s *scene) {
			s.machine.busy = true
			s.Study.Environments = []study.Environment{{Name: "idle", Load: &study.Load{Kind: "unix-syscall", Idle: true}}}
		}, by: "cgroups", cannot: true, words: "cpu.idle"},
		"the load has too many CPUs": {change: func(s *scene) {
			s.Study.Environments = []study.Environment{{Name: "busy", Load: &study.Load{Kind: "unix-syscall", CPUSet: "0-9"}}}
		}, by: "CPUs", words: "environments[0] (busy): load: cpuset 0-9: CPU 4-9 may not be used here"},
		"the load has no target": {change: func(s *scene) {
			s.level(study.Environment{Name: "busy", Load: &study.Load{Kind: "unix-syscall", Target: "docker"}})
			s.Cells = append(s.Cells, study.Cell{ID: "runc/v", Target: "runc", Workload: "v", Group: "v", Copies: 1})
		}, skipped: "runc/w", words: "runs on the target docker, which does not work here"},
		"a cold page cache in rounds": {change: func(s *scene) {
			s.level(study.Environment{Name: "cold", PageCache: "cold"})
			for i := range s.Cells {
				s.Cells[i].Set = "rounds-1"
			}
		}, by: "image", words: "page-cache: cold, which is for starts"},

		"few blocks": {change: func(s *scene) { s.Study.Blocks = 2 }, note: "2 blocks"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene()
			if c.change != nil {
				c.change(s)
			}
			s.Machine = s.machine
			var skipped, notes []string
			a, err := Check(t.Context(), BeforeTargets, s.Question)
			for of, why := range a.Skipped {
				skipped = append(skipped, of+": "+why)
			}
			if err == nil {
				a, err = Check(t.Context(), BeforeTrials, s.Question)
				notes = a.Notes
				for of, why := range a.Skipped {
					skipped = append(skipped, of+": "+why)
				}
			}
			var refused *RefusedError
			switch {
			case c.by != "":
				if !errors.As(err, &refused) || refused.Requirement != c.by || !strings.Contains(err.Error(), c.words) || errors.As(err, new(*driver.CannotError)) != c.cannot {
					t.Fatalf("%v (%T), want %s: %q", err, err, c.by, c.words)
				}
				return
			case c.err != "":
				if err == nil || errors.As(err, &refused) || !strings.Contains(err.Error(), c.err) {
					t.Fatalf("%v, want the error %q and no refusal", err, c.err)
				}
				return
			case err != nil:
				t.Fatal(err)
			}
			if want := min(len(c.skipped), 1); len(skipped) != want || want == 1 && (!strings.HasPrefix(skipped[0], c.skipped+": ") || !strings.Contains(skipped[0], c.words)) {
				t.Errorf("skipped %q, want %q: %q", skipped, c.skipped, c.words)
			}
			if slices.ContainsFunc(a.Cells, func(cell study.Cell) bool { return cell.ID == c.skipped }) {
				t.Errorf("%s is left to measure", c.skipped)
			}
			if want := min(len(c.note), 1); len(notes) != want || want == 1 && !strings.Contains(notes[0], c.note) {
				t.Errorf("notes %q, want %q", notes, c.note)
			}
		})
	}
}

// noted gives both targets a note.
func (s *scene) noted(key, value string) {
	for name, of := range s.Targets {
		of.Facts.Notes = map[string]string{key: value}
		s.Targets[name] = of
	}
}

// props gives the second target properties.
func (s *scene) props(p driver.Properties) {
	d := fake.New("runc", nil)
	d.Props = p
	s.Targets["runc"] = Target{Driver: d}
}

func (s *scene) takes(f driver.Footprint) { s.props(driver.Properties{Footprint: f}) }

// dock gives both targets a Docker.
func (s *scene) dock(err error) {
	for name, of := range s.Targets {
		s.Targets[name] = Target{Driver: docked{of.Driver, err, new(int)}}
	}
}

// A target's Docker is proven once, however many cells it has.
func TestDockerIsProvenOnce(t *testing.T) {
	s, asked := newScene(), 0
	s.job.Beside, s.Machine = true, s.machine
	s.Targets["host"] = Target{Driver: docked{fake.New("host", nil), nil, &asked}}
	s.Cells[1].Target = "host"
	if _, err := Check(t.Context(), BeforeTrials, s.Question); err != nil || asked != 1 {
		t.Errorf("asked %d times: %v", asked, err)
	}
}

// An optional probe that works is left, and one that the study requires too is
// proven once.
func TestOptionalProbes(t *testing.T) {
	s := newScene()
	s.Machine = s.machine
	s.Study.Probes, s.Study.OptionalProbes = []string{"stacks"}, []string{"locks", "stacks"}
	a, err := Check(t.Context(), BeforeTargets, s.Question)
	if err != nil || !slices.Equal(a.Probes, []string{"locks", "stacks"}) || len(a.Skipped) > 0 || !slices.Equal(s.Study.OptionalProbes, []string{"locks", "stacks"}) {
		t.Errorf("%+v, %v; the study has %q", a, err, s.Study.OptionalProbes)
	}
}

// An engine's containers that are alive cost a shim each and the daemon's
// descriptors: in a held trial all of them, else those under way.
func TestNeedOfManyInAnEngine(t *testing.T) {
	of := driver.Footprint{Tasks: 12, DaemonFiles: 7, Memory: 3 << 20, LabFiles: 4}
	for name, c := range map[string]struct {
		of   Capacity
		adds driver.Footprint
		hold bool // of 500, 100 under way
		need int64
		sum  string
	}{
		"held, tasks":               {Capacity{Of: Tasks, InUse: 300}, of, true, 300 + 1000 + 6000 + 1600, "300 + 500 x 2 + 500 alive x 12 + 100 under way x 16"},
		"started, tasks":            {Capacity{Of: Tasks, InUse: 300}, of, false, 300 + 1000 + 1200 + 1600, "300 + 500 x 2 + 100 alive x 12 + 100 under way x 16"},
		"held in a runtime, tasks":  {Capacity{Of: Tasks, InUse: 300}, driver.Footprint{}, true, 300 + 1000 + 1600, "300 + 500 x 2 + 100 under way x 16"},
		"held, daemon's files":      {Capacity{Of: DaemonFiles}, of, true, 3500, "500 alive x 7"},
		"held in a runtime, daemon": {Capacity{Of: DaemonFiles}, driver.Footprint{}, true, 0, ""},
		"held, tare's files":        {Capacity{Of: LabFiles, InUse: 256}, of, true, 256 + 6000, "256 + 500 x 12"},
		"held, memory":              {Capacity{Of: Memory}, of, true, (4000 + 1500 + 1600) << 20, "500 x 8MiB + 500 alive x 3MiB + 100 under way x 16MiB"},
		"started, memory":           {Capacity{Of: Memory}, of, false, (500 + 300 + 1600) << 20, "500 x 1MiB + 100 alive x 3MiB + 100 under way x 16MiB"},
	} {
		l := load{instances: 500, starting: 100, alive: 100, hold: c.hold, footprint: c.adds}
		if c.hold {
			l.alive = 500
		}
		if need, sum := l.need(c.of); need != c.need || sum != c.sum {
			t.Errorf("%s: %d = %s, want %d = %s", name, need, sum, c.need, c.sum)
		}
	}
}

// Names are unique, since requirements look back by them, and this machine has some
// of each capacity.
func TestHere(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range requirements() {
		if seen[r.Name] || r.Name == "" || r.Look == nil {
			t.Errorf("%q is there twice, or has no name or nothing to look at", r.Name)
		}
		seen[r.Name] = true
	}
	all, err := Here{}.Capacities()
	if err != nil {
		t.Fatal(err)
	}
	has := map[Resource]bool{}
	for _, c := range all {
		has[c.Of] = true
		if c.Name == "" || c.Value <= c.InUse {
			t.Errorf("%+v", c)
		}
	}
	if len(has) != len(costs) {
		t.Errorf("capacities %v for %d resources", fmt.Sprint(all), len(costs))
	}
}
