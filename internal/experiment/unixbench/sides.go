package unixbench

import (
	"fmt"
	"slices"
	"strings"

	"github.com/agext/levenshtein"

	"github.com/tarelab/tare/internal/lab"
	"github.com/tarelab/tare/internal/store"
	"github.com/tarelab/tare/internal/study"
)

// publishedPrefix begins the name of a machine that others have measured.
const publishedPrefix = "published:"

// isPublished reports whether a side's name means a published machine and no run.
func isPublished(side string) bool { return strings.HasPrefix(side, publishedPrefix) }

// publishedMachine is the side that "published:ID/HOST" names. The error of an
// unknown id or host is a *lab.InputError that names the nearest.
func publishedMachine(named string) (side, error) {
	id, host, _ := strings.Cut(strings.TrimPrefix(named, publishedPrefix), "/")
	if id != name {
		return side{}, &lab.InputError{Err: fmt.Errorf("published measurements %q hold no Unix scores of machines: did you mean %q?", id, name)}
	}
	d, err := publication()
	if err != nil {
		return side{}, err
	}
	hosts := publishedHosts(d)
	if host == "" {
		return side{}, &lab.InputError{Err: fmt.Errorf("%s%s names no machine: take one of its %s, as %s%s/%s", publishedPrefix, id, strings.Join(hosts, ", "), publishedPrefix, id, hosts[0])}
	}
	if !slices.Contains(hosts, host) {
		return side{}, &lab.InputError{Err: fmt.Errorf("%s has no machine %q: did you mean %s%s/%s? There are %s",
			id, host, publishedPrefix, id, nearest(host, hosts), strings.Join(hosts, ", "))}
	}
	return publishedSide(d, host)
}

// nearest is the name that is spelled most alike.
func nearest(name string, names []string) string {
	return slices.MinFunc(names, func(a, b string) int {
		return levenshtein.Distance(name, a, nil) - levenshtein.Distance(name, b, nil)
	})
}

// measured is a run as a side of a comparison.
type measured struct {
	manifest store.Manifest
	name     string // what the user calls it
	in       input
}

// newMeasured reads a run's scores.
func newMeasured(run *store.Run, named string) (*measured, error) {
	_, out, err := lab.Report(run)
	if err != nil {
		return nil, err
	}
	in, err := inputOf(run, out.Claims.Tables)
	if err != nil {
		return nil, err
	}
	m := &measured{run.Manifest(), named, in}
	if len(m.targets()) == 0 {
		return nil, &lab.InputError{Err: fmt.Errorf("run %s (study %s) has no Unix score of one instance: compare runs of %s or of tare index; tare report compares two runs of any one study", m.manifest.ID, m.manifest.Study.ID, name)}
	}
	return m, nil
}

// targets are those that the machine can be compared by, containers first.
func (m *measured) targets() []string { return targetsOf(m.in) }

// side is the machine by one of its targets.
func (m *measured) side(target string) (side, error) {
	if !slices.Contains(m.targets(), target) {
		return side{}, &lab.InputError{Err: fmt.Errorf("run %s has no Unix score in target %q: did you mean %q? There are %s",
			m.name, target, nearest(target, m.targets()), strings.Join(m.targets(), ", "))}
	}
	h := m.manifest.Host
	p := lab.Provenance(m.manifest)
	p.OS = h.OS
	for _, facts := range []*map[string]string{&p.Targets, &p.Accels, &p.Guests, &p.Systems} {
		*facts = map[string]string{target: (*facts)[target]}
	}
	refused := refusals(m.in)
	window, own := windowOf(m.manifest.Study)
	usable := m.manifest.CPUs[levelOf(m.manifest.Study, envAllN)] // scores of one copy are divided by nothing
	ran := programsOf(m.manifest)
	s := side{
		Name: m.name, Target: target, Bare: target == study.DefaultControl, Window: window, OwnWindows: own, Whetstone: whetstoneOf(m.manifest.Study), Build: ran.Build, Library: ran.Library, Digests: ran.Digests,
		Emulated: emulatedIn(m.manifest, target), Refused: refused.Run, RefusedTests: refused.Tests, Provenance: p,
		Machine: cpus{Cores: usable.Cores, Threads: usable.Threads, GHz: h.ClockGHz}, ClockSource: h.ClockSource,
		Scores: scoresOfTarget(m.in, target),
	}
	s.MeasureClock(m.in)
	return s, nil
}

// levelOf is the name of the level that was measured for an environment: another
// one, where the two come to the same on the machine.
func levelOf(s study.Study, environment string) string {
	for _, l := range s.Environments {
		if slices.Contains(l.Same, environment) {
			return l.Name
		}
	}
	return environment
}

// commonTarget is the target that machines are compared by where the user names none: the
// first container target that all runs have, else a control; "" where they have none in
// common. A nil run is a published machine.
func commonTarget(runs []*measured) string {
	runs = slices.DeleteFunc(slices.Clone(runs), func(m *measured) bool { return m == nil })
	if len(runs) == 0 {
		return ""
	}
	for _, target := range runs[0].targets() {
		if !slices.ContainsFunc(runs, func(m *measured) bool { return !slices.Contains(m.targets(), target) }) {
			return target
		}
	}
	return ""
}
