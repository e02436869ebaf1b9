package analysis

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Provenance is what two runs must share for their numbers to be compared. An
// empty field is not known and not compared.
type Provenance struct {
	Run         string // how the run is named in a warning
	Kernel      string // release and build
	OS          string // compared between machines only: a run's programs are the image's
	CPU         string // model
	CPUs        string // online
	Usable      string // CPUs that the run might use
	Memory      string
	Governor    string
	Clocksource string
	TCP         string // congestion control
	Host        string // name, or the hypervisor's where it is a guest
	User        string // "root" or "not root"
	Image       string // digest of the workbench
	Tool        string // tare's version
	Compiler    string // of the programs that run inside targets
	Mitigations map[string]string
	Targets     map[string]string // version by target
	Programs    map[string]string // digest of a target's program
	Accels      map[string]string // what ran a virtual machine's CPU, by target: "kvm" or "tcg"
	Guests      map[string]string // digest of a virtual machine's kernel, by target
	Systems     map[string]string // what tells a virtual machine's own root file system from another, by target
	Counters    string            // perf's where many are started at once: "counted" or "left out"
	Asked       string            // of virtual machines, beside a kernel, in words; "" without any, and where it is not known
}

// Unlike are the targets that a CPU ran in one run and an emulator in the other,
// each with a sentence: their numbers are of two things and no comparison's.
func Unlike(a, b Provenance) map[string]string {
	out := map[string]string{}
	for name, x := range a.Accels {
		if y := b.Accels[name]; x != "" && y != "" && x != y {
			out[name] = fmt.Sprintf("%s ran under %s in %s and under %s in %s, and the two are never compared: measure both with one acceleration",
				name, strings.ToUpper(x), a.Run, strings.ToUpper(y), b.Run)
		}
	}
	return out
}

// Surrounding is one fact in which the surroundings of two runs differ.
type Surrounding struct {
	RunA   string `json:"runA"`
	RunB   string `json:"runB"`
	What   string `json:"what"` // "kernel", "version of runc"
	A      string `json:"a"`
	B      string `json:"b"`
	Advice string `json:"advice"`
}

// String says it in a sentence.
func (s Surrounding) String() string {
	return fmt.Sprintf("%s and %s differ in %s: %s against %s; %s", s.RunA, s.RunB, s.What, s.A, s.B, s.Advice)
}

// Residue are Surroundings, one sentence each.
func Residue(a, b Provenance) []string {
	var out []string
	for _, s := range Surroundings(a, b) {
		out = append(out, s.String())
	}
	return out
}

// Surroundings lists what differs between the surroundings of two runs, with what to
// do. Such runs can be compared, but a difference may be that of their surroundings;
// they must never be averaged.
func Surroundings(a, b Provenance) []Surrounding {
	var out []Surrounding
	differ := func(what, x, y, advice string) {
		if x != "" && y != "" && x != y {
			out = append(out, Surrounding{a.Run, b.Run, what, x, y, advice})
		}
	}
	const machine = "a difference may be the machine's: measure both on one machine"
	differ("kernel", a.Kernel, b.Kernel, "a difference may be the kernel's: boot the same one, or ask about the kernel on purpose")
	differ("CPU model", a.CPU, b.CPU, machine)
	differ("number of CPUs", a.CPUs, b.CPUs, machine)
	differ("number of CPUs that may be used", a.Usable, b.Usable, "a difference may be theirs: start tare with the same affinity")
	differ("memory size", a.Memory, b.Memory, machine)
	differ("host", a.Host, b.Host, machine)
	differ("user", a.User, b.User, "starts are made in other ways without root: measure both as the same user")
	differ("frequency governor", a.Governor, b.Governor, "set the same governor for both")
	differ("TCP congestion control", a.TCP, b.TCP, "throughput between containers hangs on it: set net.ipv4.tcp_congestion_control alike")
	differ("clock source", a.Clocksource, b.Clocksource, "set the same clock source for both")
	differ("workbench image", a.Image, b.Image, "the same bits did not run: measure both with one image")
	differ("version of tare", a.Tool, b.Tool, "measure both with one version")
	differ("C compiler", a.Compiler, b.Compiler, "a difference may be the compiler's: measure both with tares that one compiler built")
	differ("perf's counters", a.Counters, b.Counters, "starts are some percent slower with them: measure both with --no-counters, or both without")
	differMaps("mitigation", a.Mitigations, b.Mitigations, "boot with the same mitigations", differ)
	differMaps("version of", both(a.Targets, b.Targets), both(b.Targets, a.Targets), "a difference may be the version's, which is fine if that is the question", differ)
	differMaps("program of", sameVersion(a, b), sameVersion(b, a), "a difference may be the program's, which calls itself the same version: say which one a run uses by its path, as in runc=./new/runc", differ)
	differMaps("guest kernel of", both(a.Guests, b.Guests), both(b.Guests, a.Guests), "a difference may be that kernel's: give both the same --kernel", differ)
	differMaps("root file system of", both(a.Systems, b.Systems), both(b.Systems, a.Systems), "a difference may be the system's: give both the same --guest-rootfs, unchanged", differ)
	differ("what virtual machines were asked to be", a.Asked, b.Asked, "a difference may be theirs: give both the same --guest-memory, --guest-append and --guest-disk")
	return out
}

// sameVersion keeps a's programs of the targets that report the same version in both
// runs. Of other targets, the versions are listed, and the programs differ anyway.
func sameVersion(a, b Provenance) map[string]string {
	out := both(a.Programs, b.Programs)
	maps.DeleteFunc(out, func(target, _ string) bool { return a.Targets[target] != b.Targets[target] })
	return out
}

// both are the facts of x that y has, too: what one run alone measured is not
// compared.
func both(x, y map[string]string) map[string]string {
	out := maps.Clone(x)
	maps.DeleteFunc(out, func(key, value string) bool { return value == "" || y[key] == "" })
	return out
}

// differMaps compares two maps of facts, and names what one of them lacks.
func differMaps(what string, x, y map[string]string, advice string, differ func(what, x, y, advice string)) {
	if len(x) == 0 || len(y) == 0 {
		return
	}
	either := maps.Clone(x)
	maps.Copy(either, y)
	for _, key := range slices.Sorted(maps.Keys(either)) {
		differ(what+" "+key, cmp.Or(x[key], "absent"), cmp.Or(y[key], "absent"), advice)
	}
}
