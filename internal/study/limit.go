package study

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/tarelab/tare/internal/sample"
)

// Limit bounds a number of some cells: a study's promise, or a gate's. At least one
// of AtMost and AtLeast is set (parseBound).
type Limit struct {
	// Cell is WORKLOAD/TARGET or WORKLOAD/TARGET:METRIC. The workload may also be the
	// name of a group, as start+x4; the target may be *, which is every one but the
	// control. Without a metric it is the one that the price list shows.
	Cell    string `yaml:"cell" json:"cell"`
	AtMost  string `yaml:"at-most,omitempty" json:"atMost,omitempty"`
	AtLeast string `yaml:"at-least,omitempty" json:"atLeast,omitempty"`
	// Against is what a ratio is to; default the control, or the baseline where a gate
	// has one.
	Against Against `yaml:"against,omitempty" json:"against,omitempty"`
}

// Against is what the ratio of a limit is to.
type Against string

// What a ratio may be to.
const (
	AgainstControl  Against = "control"  // the control of the same run
	AgainstBaseline Against = "baseline" // the same cell in another run
)

// EveryTarget stands in a limit's cell for all targets but the control.
const EveryTarget = "*"

// CellName are the parts of a limit's cell. Metric is "" for the one that the price
// list shows.
type CellName struct{ Workload, Target, Metric string }

var cellName = regexp.MustCompile(`^([^/:\s\pC]+)/([^\s\pC]+?)(?::([a-z][a-z0-9]*(?:-[a-z0-9]+)*))?$`)

// Name takes the limit's cell apart.
func (l Limit) Name() (CellName, error) {
	m := cellName.FindStringSubmatch(l.Cell)
	if m == nil {
		return CellName{}, fmt.Errorf("cell %q: write WORKLOAD/TARGET or WORKLOAD/TARGET:METRIC, as start/runc:ready", l.Cell)
	}
	return CellName{m[1], m[2], m[3]}, nil
}

// Bounds are the two sides of a limit; a side that is not set is infinite. Unit is
// that of both, "" for a ratio.
type Bounds struct {
	Least, Most float64
	Unit        sample.Unit
}

// Bounds reads the limit's two sides.
func (l Limit) Bounds() (Bounds, error) {
	b := Bounds{math.Inf(-1), math.Inf(1), ""}
	if l.AtMost == "" && l.AtLeast == "" {
		return b, errors.New(`no bound: set at-most or at-least, as in "+10 %", 1.10 or 20 ms`)
	}
	var most, least sample.Unit
	var err error
	if l.AtMost != "" {
		if b.Most, most, err = parseBound(l.AtMost); err != nil {
			return b, fmt.Errorf("at-most: %w", err)
		}
		b.Unit = most
	}
	if l.AtLeast != "" {
		if b.Least, least, err = parseBound(l.AtLeast); err != nil {
			return b, fmt.Errorf("at-least: %w", err)
		}
		b.Unit = least
	}
	switch {
	case l.AtMost != "" && l.AtLeast != "" && most != least:
		return b, fmt.Errorf("at-least %s and at-most %s are not in the same unit", l.AtLeast, l.AtMost)
	case b.Least > b.Most:
		return b, fmt.Errorf("at-least %s is more than at-most %s: nothing lies between", l.AtLeast, l.AtMost)
	case b.Unit != "" && l.Against != "":
		return b, fmt.Errorf("against %s: only a ratio is against something", l.Against)
	}
	return b, nil
}

// boundUnits are the units of an absolute bound, besides those of sizes: in each of
// its base units.
var boundUnits = map[string]struct {
	unit   sample.Unit
	factor float64
}{
	"ns": {sample.Seconds, 1e-9}, "us": {sample.Seconds, 1e-6}, "µs": {sample.Seconds, 1e-6}, "ms": {sample.Seconds, 1e-3}, "s": {sample.Seconds, 1},
	"count": {sample.Count, 1},
	"/s":    {sample.PerSecond, 1}, "k/s": {sample.PerSecond, 1e3}, "M/s": {sample.PerSecond, 1e6}, "G/s": {sample.PerSecond, 1e9},
	"bit/s": {sample.BitsPerSecond, 1}, "kbit/s": {sample.BitsPerSecond, 1e3}, "Mbit/s": {sample.BitsPerSecond, 1e6}, "Gbit/s": {sample.BitsPerSecond, 1e9},
}

// parseBound reads one side of a limit. "+10 %", "110 %", "1.10" and "25 x" are ratios, with
// the unit "". "20 ms", "3 MiB" and "500 /s" are values, given in the base unit.
func parseBound(text string) (value float64, unit sample.Unit, err error) {
	text = strings.TrimSpace(text)
	m := quantity.FindStringSubmatch(text)
	if m == nil {
		return 0, "", fmt.Errorf("%q is not a bound: write +10 %%, 1.10, or a value with its unit, as 20 ms", text)
	}
	value, err = strconv.ParseFloat(m[1], 64)
	if err != nil {
		return 0, "", fmt.Errorf("%q is not a bound: %w", text, err)
	}
	switch signed := strings.ContainsAny(m[1][:1], "+-"); {
	case m[2] == "%" && signed:
		value = 1 + value/100
	case m[2] == "%":
		value /= 100
	case signed:
		return 0, "", fmt.Errorf("%q: a sign needs %%, as in +10 %%", text)
	case m[2] != "" && m[2] != "x":
		if value, unit, err = inBase(value, m[2], text); err != nil {
			return 0, "", err
		}
	}
	if unit == "" && value <= 0 {
		return 0, "", fmt.Errorf("%q: a ratio is above 0", text)
	}
	return value, unit, nil
}

// inBase is a value in the base unit of its unit.
func inBase(value float64, unit, text string) (float64, sample.Unit, error) {
	if u, ok := boundUnits[unit]; ok {
		return value * u.factor, u.unit, nil
	}
	if factor, ok := sizeUnits[unit]; ok {
		return value * factor, sample.Bytes, nil
	}
	if size, ok := strings.CutSuffix(unit, "/s"); ok && sizeUnits[size] > 0 {
		return value * sizeUnits[size], sample.BytesPerSecond, nil
	}
	return 0, "", fmt.Errorf("%q: %q is not a unit of a bound: use %%, ns, us, ms, s, B, KiB, MiB, /s, k/s, MiB/s, Mbit/s and their like, or count", text, unit)
}

// ParseLimits reads a document with the one key limits, as a study has it.
func ParseLimits(name string, data []byte) ([]Limit, error) {
	src, node, problems := document(name, data)
	if problems != nil {
		return nil, src.report(name, problems)
	}
	var file struct {
		Limits []Limit `yaml:"limits"`
	}
	d := &decoder{src: src}
	d.value("", node, reflect.ValueOf(&file).Elem(), "")
	c := &checker{src: src}
	c.limits(file.Limits)
	if len(file.Limits) == 0 {
		c.fail("limits", "no limit is named")
	}
	return file.Limits, src.report(name, append(d.problems, beside(d.problems, c.problems)...))
}

// ParseMax reads a limit as it stands on a command line: CELL[:METRIC]:BOUND.
func ParseMax(text string) (Limit, error) {
	cell, bound, err := cutBound(text)
	if err != nil {
		return Limit{}, err
	}
	return Limit{Cell: cell, AtMost: bound}.checked()
}

// ParseMin is ParseMax for what must not fall below.
func ParseMin(text string) (Limit, error) {
	cell, bound, err := cutBound(text)
	if err != nil {
		return Limit{}, err
	}
	return Limit{Cell: cell, AtLeast: bound}.checked()
}

func cutBound(text string) (cell, bound string, err error) {
	i := strings.LastIndexByte(text, ':')
	if i < 0 {
		return "", "", fmt.Errorf("%q is not a limit: write WORKLOAD/TARGET[:METRIC]:BOUND, as start/runc:ready:1.10", text)
	}
	return text[:i], text[i+1:], nil
}

// Renamed is the limit with what rename gives for its target. The error is rename's. A
// limit whose cell is none stays as it is.
func (l Limit) Renamed(rename func(string) (string, error)) (Limit, error) {
	name, err := l.Name()
	if err != nil {
		return l, nil
	}
	target, err := rename(name.Target)
	l.Cell = name.Workload + "/" + target
	if name.Metric != "" {
		l.Cell += ":" + name.Metric
	}
	return l, err
}

func (l Limit) checked() (Limit, error) {
	_, err := l.Name()
	if err == nil {
		_, err = l.Bounds()
	}
	return l, err
}

// limits checks limits in themselves.
func (c *checker) limits(limits []Limit) {
	for i, l := range limits {
		at := fmt.Sprintf("limits[%d]", i)
		if _, err := l.Name(); err != nil {
			c.fail(at+".cell", "%v", err)
		}
		if _, err := l.Bounds(); err != nil {
			c.fail(at, "%v", err)
		}
		if l.Against != "" {
			c.known(at+".against", "word", string(l.Against), []string{string(AgainstControl), string(AgainstBaseline)})
		}
	}
}

// limitCells checks that the cells of limits are the study's. Which groups the
// factors make is known after the run.
func (c *checker) limitCells(s Study, known Known) {
	names := s.workloadNames()
	for i, l := range s.Limits {
		cell, err := l.Name()
		if err != nil {
			continue // check has reported it
		}
		at := fmt.Sprintf("limits[%d].cell", i)
		if w, _, _ := strings.Cut(cell.Workload, "+"); !slices.Contains(names, w) {
			c.fail(at, "%s", unknown("workload of the study", w, names))
		}
		if problem := known.Problem(cell.Target); cell.Target != EveryTarget && problem != "" {
			c.fail(at, "%s", problem)
		}
		if l.Against == AgainstBaseline {
			c.fail(fmt.Sprintf("limits[%d].against", i), "a study has no baseline: tare gate --limits FILE --baseline RUN has")
		}
	}
}
