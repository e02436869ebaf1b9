package lab

import (
	"fmt"
	"slices"
	"strings"

	"github.com/agext/levenshtein"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/store"
	"github.com/tarelab/tare/internal/study"
	"github.com/tarelab/tare/published"
)

// publishedPrefix begins the name of a machine that others have measured.
const publishedPrefix = "published:"

// IsPublished reports whether a side's name means a published machine and no run.
func IsPublished(name string) bool { return strings.HasPrefix(name, publishedPrefix) }

// PublishedMachine is the side that "published:ID/HOST" names. The error of an
// unknown id or host is an *InputError that names the nearest.
func PublishedMachine(name string) (analysis.MachineSide, error) {
	id, host, _ := strings.Cut(strings.TrimPrefix(name, publishedPrefix), "/")
	p, err := published.Load(id)
	if err != nil {
		return analysis.MachineSide{}, &InputError{err}
	}
	d, ok := p.(*published.DockerOnLoongson)
	if !ok {
		return analysis.MachineSide{}, &InputError{fmt.Errorf("the published measurements %s hold no Unix scores of machines; %s%s does", id, publishedPrefix, unixPublished)}
	}
	hosts := analysis.PublishedHosts(d)
	if host == "" {
		return analysis.MachineSide{}, &InputError{fmt.Errorf("%s%s names no machine: take one of its %s, as %s%s/%s", publishedPrefix, id, strings.Join(hosts, ", "), publishedPrefix, id, hosts[0])}
	}
	if !slices.Contains(hosts, host) {
		return analysis.MachineSide{}, &InputError{fmt.Errorf("%s has no machine %q: did you mean %s%s/%s? There are %s",
			id, host, publishedPrefix, id, nearest(host, hosts), strings.Join(hosts, ", "))}
	}
	return analysis.PublishedSide(d, host)
}

// nearest is the name that is spelled most alike.
func nearest(name string, names []string) string {
	return slices.MinFunc(names, func(a, b string) int {
		return levenshtein.Distance(name, a, nil) - levenshtein.Distance(name, b, nil)
	})
}

// Machine is a run's side of a comparison of machines.
type Machine struct {
	run  *store.Run
	name string
	in   analysis.UnixInput
}

// NewMachine reads a run's Unix scores; name is what the user calls it.
func NewMachine(run *store.Run, name string) (*Machine, error) {
	records, err := collect(run)
	if err != nil {
		return nil, err
	}
	in, err := input(run)
	if err != nil {
		return nil, err
	}
	m := run.Manifest()
	machine := &Machine{run, name, analysis.UnixInput{Cells: m.Cells, Records: records, Tables: analysis.Analyze(in).Tables, Emulated: m.Host.Emulated}}
	if len(machine.Targets()) == 0 {
		return nil, &InputError{fmt.Errorf("run %s (study %s) has no Unix score of one instance: compare runs of %s or of tare index; tare report compares two runs of any one study", m.ID, m.Study.ID, unixPublished)}
	}
	return machine, nil
}

// Targets are the targets that the machine can be compared by, containers first.
func (m *Machine) Targets() []string { return analysis.UnixTargets(m.in) }

// Side is the machine by one of its targets.
func (m *Machine) Side(target string) (analysis.MachineSide, error) {
	if !slices.Contains(m.Targets(), target) {
		return analysis.MachineSide{}, &InputError{fmt.Errorf("run %s has no Unix score in target %q: did you mean %q? There are %s",
			m.name, target, nearest(target, m.Targets()), strings.Join(m.Targets(), ", "))}
	}
	manifest := m.run.Manifest()
	h := manifest.Host
	p := provenance(manifest)
	p.OS = h.OS
	for _, facts := range []*map[string]string{&p.Targets, &p.Accels, &p.Guests} {
		*facts = map[string]string{target: (*facts)[target]}
	}
	refused := analysis.UnixRefusals(m.in)
	window, own := unixWindow(manifest.Study)
	usable := manifest.CPUs[levelOf(manifest.Study, analysis.UnixAllN)] // scores of one copy are divided by nothing
	side := analysis.MachineSide{
		Name: m.name, Target: target, Bare: target == study.DefaultControl, Window: window, OwnWindows: own, Whetstone: whetstoneOf(manifest.Study),
		Emulated: emulatedIn(manifest, target), Refused: refused.Run, RefusedTests: refused.Tests, Provenance: p,
		Machine: analysis.Machine{Cores: usable.Cores, Threads: usable.Threads, GHz: h.ClockGHz}, ClockSource: h.ClockSource,
		Scores: analysis.UnixScores(m.in, target),
	}
	side.MeasureClock(m.in)
	return side, nil
}

// levelOf is the name of the level that was measured for an environment: another
// one, where the two come to the same on the machine.
func levelOf(s study.Study, environment string) string {
	for _, l := range s.Limits {
		if slices.Contains(l.Same, environment) {
			return l.Name
		}
	}
	return environment
}

// CommonTarget is the target that two machines are compared by where the user
// names none: the first container target that both have, else a control that
// both have, else each its own first.
func CommonTarget(a, b *Machine) (inA, inB string) {
	for _, target := range a.Targets() {
		if slices.Contains(b.Targets(), target) {
			return target, target
		}
	}
	return a.Targets()[0], b.Targets()[0]
}

// CompareMachines sets one side against the other; an emulated one is refused
// with an *InputError.
func CompareMachines(a, b analysis.MachineSide) (analysis.MachineComparison, error) {
	m, err := analysis.CompareSides(a, b)
	if err != nil {
		return m, &InputError{err}
	}
	return m, nil
}
