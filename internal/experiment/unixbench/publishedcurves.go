package unixbench

import (
	"fmt"
	"math"
	"slices"

	"github.com/tarelab/tare/internal/stats"
)

// publishedTables says which table of the publication an environment is.
func publishedTables() []struct{ environment, containers, platforms string } {
	return []struct{ environment, containers, platforms string }{
		{envOneCPU, oneCPU, ""},
		{envAllN, all4CPUs, platformN},
		{envAllOne, one4CPUs, platform1},
	}
}

// indexAsPublished is the name of the publication's own index, which holds
// scores that its tables do not list.
const indexAsPublished = "index as published"

// publishedClock is the clock that UnixBench 5.1.3 takes a test by.
func publishedClock(test string) clockKind {
	if test == "whetstone" {
		return cpuClock
	}
	return wallClock
}

// publishedCurves are the tables over containers as curves, and an index over
// the given tests recomputed beside the one that was published.
func publishedCurves(d *source, tests []string) []curve {
	var out []curve
	for _, t := range publishedTables() {
		table := d.Tables[t.containers]
		var listed []curve
		for _, test := range d.Tests {
			name, clock := test, publishedClock(test)
			if test == indexName {
				name, clock = indexAsPublished, cpuClock
			}
			c := curve{Target: table.Host, Environment: t.environment, Test: name, Clock: clock}
			for i, score := range table.Row(test) {
				c.Points = append(c.Points, point{N: d.Method.Containers[i], blocks: map[int]float64{0: score}})
			}
			c.finish()
			out = append(out, c)
			if slices.Contains(tests, test) {
				listed = append(listed, c)
			}
		}
		out = append(out, indexCurve(listed, cpuClock)...)
	}
	for i := range out {
		out[i].Law = fitLaw(out[i])
		withEight(&out[i], d)
	}
	return out
}

// withEight adds the one score in 8 containers that the publication's text gives,
// of whetstone: it stands beside the others, and in no fit.
func withEight(c *curve, d *source) {
	score := map[string]float64{envAllOne: d.EightContainers.WhetstoneOneCopy, envAllN: d.EightContainers.WhetstoneNCopies}[c.Environment]
	one, host := c.At(1), c.At(0)
	if c.Test != "whetstone" || score == 0 || one == nil || host == nil {
		return
	}
	toOne, toHost := stats.Exact(score/one.Data.Value), stats.Exact(score/host.Data.Value)
	c.Points = append(c.Points, point{N: 8, Data: stats.Exact(score), ToOne: &toOne, ToHost: &toHost})
}

// platforms are the publication's machines in one container, and this one
// unless it is emulated.
func platforms(u *description, d *source, emulated string) ([]platform, error) {
	var out []platform
	for _, t := range publishedTables() {
		if t.platforms == "" {
			continue
		}
		for _, host := range d.Tables[t.platforms].Hosts {
			scores, err := d.Scores(t.platforms, host)
			if err != nil {
				return nil, err
			}
			p := platform{Name: host, Environment: t.environment, Scores: map[string]stats.Estimate{}, Tests: u.Tests}
			total := 0.
			for _, test := range u.Tests {
				p.Scores[test] = stats.Exact(scores[test])
				total += math.Log(scores[test])
			}
			if len(u.Tests) > 0 {
				p.Scores[indexName] = stats.Exact(math.Exp(total / float64(len(u.Tests))))
			}
			out = append(out, p)
		}
		if emulated == "" {
			out = append(out, u.here(t.environment)...)
		}
	}
	return out, nil
}

// here is this machine in one container of the first container target, or on
// the host where there is none.
func (u *description) here(environment string) []platform {
	target := ""
	if all := u.containerTargets(); len(all) > 0 {
		target = all[0]
	} else if len(u.Curves) > 0 {
		target = u.Curves[0].Target
	}
	p := platform{Name: fmt.Sprintf("this machine (%s)", target), Environment: environment, Scores: map[string]stats.Estimate{}, Tests: u.Tests, Here: true, Refused: map[string]string{}}
	for _, test := range append(slices.Clone(u.Tests), indexName) {
		if c := u.comparable(target, environment, test); c != nil && c.At(1) != nil && len(c.At(1).Repetitions) > 0 {
			p.Scores[test] = c.At(1).Data
			if why := u.WhyRefused(*c); why != "" {
				p.Refused[test] = why
			}
		}
	}
	if len(p.Scores) == 0 {
		return nil
	}
	return []platform{p}
}
