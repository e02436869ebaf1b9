// Package fleet reads the runs of one study from many machines: what they have in common,
// in what they differ, and what the next machine would pay. The machine is the unit; runs
// of different machines are never averaged as if they were blocks.
package fleet

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/docker/go-units"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/store"
	"github.com/tarelab/tare/internal/study"
)

// Machine is one run of a fleet, with what a report needs of it.
type Machine struct {
	Name    string    `json:"name"` // the host's, or with more where two have one
	Run     string    `json:"run"`
	Created time.Time `json:"created"`
	Arch    string    `json:"arch"`
	Image   string    `json:"image"` // digest
	Trials  int       `json:"trials"`
	Planned int       `json:"planned"`
	Facts   []Fact    `json:"facts"`
	// Skipped are targets that the machine could not measure, with the reason.
	Skipped map[string]string `json:"skipped,omitempty"`
	key     string            // tells machines apart
	id      string            // of the machine, "" where the run has none
	values  []value
}

// Fact is something known of a machine, by name.
type Fact struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// value is what a machine says of a cell.
type value struct {
	cell    cellName
	metric  sample.Metric
	log     float64 // of the ratio to the machine's own control
	low     float64 // of its interval
	high    float64
	se      float64
	verdict analysis.Verdict
	refused string // why the fleet does not count it; "" where it does
}

// cellName tells cells apart.
type cellName struct{ group, target, metric string }

func (c cellName) String() string { return c.group + "/" + c.target }

// Of reads a run.
func Of(m store.Manifest, claims analysis.Claims) Machine {
	h := m.Host
	out := Machine{
		Name: short(h.Hostname), Run: m.ID, Created: m.Created, Arch: short(h.Arch), Image: short(m.Image), Trials: claims.Trials, Planned: claims.Planned,
		Facts: facts(m), Skipped: m.LeftOut, key: h.Machine + "\x00" + h.Hostname, id: h.Machine,
	}
	for _, t := range claims.Tables {
		for _, r := range t.Rows {
			if v, ok := valueOf(t, r); ok {
				out.values = append(out.values, v)
			}
		}
	}
	return out
}

// valueOf is a primary ratio; ok is false where the row has none.
func valueOf(t analysis.Table, r analysis.Row) (value, bool) {
	e := r.Effect
	if !t.Primary || r.AA || r.Control || e == nil || e.Difference != nil || !(e.Ratio > 0) || math.IsInf(e.Ratio, 0) {
		return value{}, false
	}
	v := value{cell: cellName{short(t.Group), short(r.Target), short(t.Metric.Name)}, metric: t.Metric, log: math.Log(e.Ratio), verdict: e.Verdict}
	v.low, v.high = v.log, v.log
	switch {
	case e.Verdict == analysis.NotComparable:
		v.refused = e.Why
	case !e.Interval.Decides() || !(e.Interval.Low > 0) || math.IsInf(e.Interval.High, 0):
		v.refused = fmt.Sprintf("%d blocks are too few for an interval", e.Blocks)
	}
	if i := e.Interval; i.Decides() && i.Low > 0 && !math.IsInf(i.High, 0) {
		v.low, v.high = math.Log(i.Low), math.Log(i.High)
		v.se = standardError(v.high-v.low, i.Level, e.Blocks)
	}
	return v, true
}

// standardError takes an interval of a given level as one of Student's t over blocks.
func standardError(width, level float64, blocks int) float64 {
	if blocks < 2 || !(level > 0 && level < 1) {
		return 0
	}
	return width / 2 / distuv.StudentsT{Sigma: 1, Nu: float64(blocks - 1)}.Quantile((1+level)/2)
}

// mostText bounds a text of a manifest: one may come from anybody.
const mostText = 120

func short(text string) string {
	if r := []rune(text); len(r) > mostText {
		return string(r[:mostText-1]) + "…"
	}
	return text
}

// facts are what may differ between machines, in the order of display.
func facts(m store.Manifest) []Fact {
	h := m.Host
	count := func(n int) string {
		if n == 0 {
			return ""
		}
		return strconv.Itoa(n)
	}
	size := ""
	if h.Memory > 0 {
		size = units.CustomSize("%.3g%s", float64(h.Memory), 1024, []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB"})
	}
	all := []Fact{
		{"arch", h.Arch}, {"cpu", h.CPU}, {"stepping", h.Stepping}, {"microcode", h.Microcode}, {"cpus", count(h.CPUs)}, {"usable-cpus", count(h.Usable)}, {"granted-cpus", count(h.Granted)}, {"cores", count(h.Cores)},
		{"smt", h.SMT}, {"numa-nodes", count(h.NUMANodes)}, {"memory", size}, {"product", h.Product}, {"bios", h.BIOS},
		{"kernel", h.Kernel}, {"kernel-build", h.KernelBuild}, {"command-line", h.CommandLine}, {"os", h.OS}, {"cgroup", h.Cgroup}, {"cgroup-depth", count(h.CgroupDepth)},
		{"virtualization", h.Virtualization}, {"place", h.Place}, {"governor", h.Governor}, {"clocksource", h.Clocksource}, {"huge-pages", h.HugePages},
		{"user", map[bool]string{true: "root", false: "not root"}[h.Root]}, {"tool", m.Tool}, {"compiler", m.Compiler}, {"image", m.Image},
	}
	for _, name := range slices.Sorted(maps.Keys(h.Mitigations)) {
		all = append(all, Fact{"mitigation " + name, h.Mitigations[name]})
	}
	for _, name := range slices.Sorted(maps.Keys(m.Targets)) {
		all = append(all, Fact{"version of " + name, m.Targets[name].Version})
	}
	for i := range all {
		all[i] = Fact{short(all[i].Name), short(all[i].Value)}
	}
	return all
}

// fact is the value of one, "" where the machine has none.
func (m Machine) fact(name string) string {
	for _, f := range m.Facts {
		if f.Name == name {
			return f.Value
		}
	}
	return ""
}

// whole reports whether the run has all of its trials.
func (m Machine) whole() bool { return m.Trials >= m.Planned && m.Planned > 0 }

// studyDigest is a digest of what a study measures. Runs of one fleet have one: what may
// differ is the number of blocks, and which targets a machine has.
func studyDigest(m store.Manifest) string {
	s := m.Study
	what := struct {
		ID, Control  string
		Params       map[string]string
		Workloads    []study.Workload
		Environments []study.Environment
		Margin       float64
	}{s.ID, s.Control, s.Params, slices.Clone(s.Workloads), s.Environments, s.Margin}
	for i := range what.Workloads {
		w := &what.Workloads[i]
		w.Blocks, w.Rounds, w.Runs, w.Within, w.Targets, w.Except = 0, nil, 0, 0, nil, nil
	}
	text, err := json.Marshal(what)
	if err != nil {
		panic(err) // strings and numbers that were read from JSON
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:6])
}

// chosen is a fleet's machines: one run of each, of one image per architecture.
type chosen struct {
	machines []Machine
	left     []LeftOut
	warnings []string
}

// LeftOut is a run that the analysis does not use.
type LeftOut struct {
	Run     string `json:"run"`
	Machine string `json:"machine"`
	Why     string `json:"why"`
}

// choose takes the last whole run of each machine, or where it has none the last one.
func choose(runs []Machine) chosen {
	var c chosen
	sorted := slices.Clone(runs)
	slices.SortStableFunc(sorted, func(a, b Machine) int {
		if a.whole() != b.whole() {
			return map[bool]int{true: -1, false: 1}[a.whole()]
		}
		return cmp.Or(b.Created.Compare(a.Created), strings.Compare(b.Run, a.Run))
	})
	taken := map[string]string{} // machine -> its run
	for _, m := range sorted {
		if run, ok := taken[m.key]; ok {
			c.left = append(c.left, LeftOut{m.Run, m.Name, "run " + run + " of this machine is used: attempts are not mixed"})
			continue
		}
		taken[m.key] = m.Run
		c.machines = append(c.machines, m)
	}
	c.oneImage()
	slices.SortStableFunc(c.machines, func(a, b Machine) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Run, b.Run))
	})
	c.tellApart()
	for _, m := range c.machines {
		if !m.whole() {
			c.warnings = append(c.warnings, fmt.Sprintf("%s: the run %s was cut off: %d of %d trials; it counts with the blocks that it has", m.Name, m.Run, m.Trials, m.Planned))
		}
	}
	return c
}

// oneImage leaves out the machines whose targets ran other bits than most of their
// architecture.
func (c *chosen) oneImage() {
	count, most := map[string]map[string]int{}, map[string]string{}
	for _, m := range c.machines {
		if count[m.Arch] == nil {
			count[m.Arch] = map[string]int{}
		}
		count[m.Arch][m.Image]++
	}
	for arch, images := range count {
		for _, image := range slices.Sorted(maps.Keys(images)) {
			if best, ok := most[arch]; !ok || images[image] > images[best] {
				most[arch] = image
			}
		}
	}
	c.machines = slices.DeleteFunc(c.machines, func(m Machine) bool {
		other := m.Image != most[m.Arch]
		if other {
			c.left = append(c.left, LeftOut{m.Run, m.Name, fmt.Sprintf("its image %.19s is not the %.19s of most %s machines: other bits are not the same work", m.Image, most[m.Arch], m.Arch)})
		}
		return other
	})
}

// tellApart gives machines names that differ, and warns of ids that several host names
// share.
func (c *chosen) tellApart() {
	names, ids := map[string]int{}, map[string][]string{}
	for _, m := range c.machines {
		names[m.Name]++
		if m.id != "" {
			ids[m.id] = append(ids[m.id], m.Name)
		}
	}
	for i, m := range c.machines {
		if names[m.Name] > 1 || m.Name == "" {
			sum := sha256.Sum256([]byte(m.key))
			c.machines[i].Name = m.Name + "#" + hex.EncodeToString(sum[:3])
		}
	}
	for _, id := range slices.Sorted(maps.Keys(ids)) {
		if shared := ids[id]; len(shared) > 1 {
			c.warnings = append(c.warnings, fmt.Sprintf("%s have one machine id and count as %d machines: they are clones, or containers of one machine, which would not be independent", listed(shared), len(shared)))
		}
	}
}

// mostNames is how many machines a sentence names.
const mostNames = 6

// listed names some things in a sentence.
func listed(names []string) string {
	if len(names) > mostNames {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:mostNames], ", "), len(names)-mostNames)
	}
	return strings.Join(names, ", ")
}
