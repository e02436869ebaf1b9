package claim

import (
	"cmp"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math"
	"regexp"
	"slices"
	"strconv"

	"github.com/tarelab/tare/internal/stats"
)

// Value is what a cell, or an expression over cells, gives.
type Value struct {
	stats.Estimate
	Refused  bool     // nothing may be claimed of it: the run was disturbed
	Doubtful bool     // it bears out and refutes nothing, for instance because it was read in part
	Notes    []string // what it is of, and what limits it
	// Together is the interval that holds together with those of as many cases; nil
	// for one that grows as that of normal noise does.
	Together func(cases int) stats.Interval
}

// Cells gives a cell by its name; ok is false for one that nobody has. A quotient of
// two cells is asked for first, as "A / B": a run has it within blocks.
type Cells func(name string) (v Value, ok bool)

// exact is the method of an interval without a width.
const exact = "exact"

// Exactly is a number without an interval.
func Exactly(v float64) Value {
	return Value{Estimate: stats.Estimate{Value: v, Interval: stats.Interval{Low: v, High: v, Level: 1, Method: exact}}}
}

// Published are numbers without intervals.
func Published(numbers map[string]float64) Cells {
	return func(name string) (Value, bool) {
		v, ok := numbers[name]
		return Exactly(v), ok
	}
}

// Of are cells by name.
func Of(values map[string]Value) Cells {
	return func(name string) (Value, bool) {
		v, ok := values[name]
		return v, ok
	}
}

// together are the cells with the intervals that hold for as many cases together.
func (c Cells) together(cases int) Cells {
	return func(name string) (Value, bool) {
		v, ok := c(name)
		if v.Together != nil {
			v.Interval = v.Together(cases)
		} else {
			v.Interval = widened(v.Estimate, cases)
		}
		return v, ok
	}
}

// widened is the interval of an estimate at the level of one of several cases (Bonferroni),
// by the quantiles of the normal distribution: of logarithms, where it has those.
func widened(e stats.Estimate, cases int) stats.Interval {
	i := e.Interval
	level := 1 - 0.05/float64(max(1, cases))
	if !i.Decides() || i.Level >= level {
		return i
	}
	factor := math.Erfinv(level) / math.Erfinv(i.Level)
	if i.Low > 0 && e.Value > 0 {
		i.Low, i.High = e.Value*math.Pow(i.Low/e.Value, factor), e.Value*math.Pow(i.High/e.Value, factor)
	} else {
		i.Low, i.High = e.Value+factor*(i.Low-e.Value), e.Value+factor*(i.High-e.Value)
	}
	i.Level = level
	return i
}

// evaluate computes an expression: numbers, cells, + - * /, parentheses, and the
// functions min, max and median. A cell is a path, a.b["c-d"][4], whose name is a.b.c-d.4.
// Intervals are carried along by their limits, which is exact for one cell, and
// careful for several.
func evaluate(expression string, cells Cells) (Value, error) {
	e, err := parser.ParseExpr(expression)
	if err != nil {
		return Value{}, fmt.Errorf("expression %q: %w", expression, err)
	}
	v, err := cells.value(e)
	if err == nil && (math.IsNaN(v.Value) || math.IsInf(v.Value, 0)) {
		err = errors.New("gives no number")
	}
	if err != nil {
		return Value{}, fmt.Errorf("expression %q: %w", expression, err)
	}
	return v, nil
}

func (c Cells) value(e ast.Expr) (Value, error) {
	switch e := e.(type) {
	case *ast.ParenExpr:
		return c.value(e.X)
	case *ast.BasicLit:
		v, err := strconv.ParseFloat(e.Value, 64)
		return Exactly(v), err
	case *ast.UnaryExpr:
		x, err := c.value(e.X)
		if e.Op != token.SUB {
			return x, fmt.Errorf("%s is no sign", e.Op)
		}
		return combine(token.SUB, Exactly(0), x), err
	case *ast.BinaryExpr:
		return c.binary(e)
	case *ast.CallExpr:
		return c.call(e)
	}
	name, err := path(e)
	if err != nil {
		return Value{}, err
	}
	v, ok := c(name)
	if !ok {
		return v, fmt.Errorf("no cell has the name %q", name)
	}
	return v, nil
}

// path is the name of a cell.
func path(e ast.Expr) (string, error) {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name, nil
	case *ast.SelectorExpr:
		base, err := path(e.X)
		return base + "." + e.Sel.Name, err
	case *ast.IndexExpr:
		base, err := path(e.X)
		key, ok := e.Index.(*ast.BasicLit)
		if err != nil || !ok {
			return "", cmp.Or(err, fmt.Errorf("an index of %s is no number and no string", base))
		}
		if name, err := strconv.Unquote(key.Value); err == nil {
			return base + "." + name, nil
		}
		return base + "." + key.Value, nil
	}
	return "", fmt.Errorf("%T is no part of an expression", e)
}

func (c Cells) binary(e *ast.BinaryExpr) (Value, error) {
	if !slices.Contains([]token.Token{token.ADD, token.SUB, token.MUL, token.QUO}, e.Op) {
		return Value{}, fmt.Errorf("%s is none of + - * /", e.Op)
	}
	if v, ok := c.quotient(e); ok {
		return v, nil
	}
	x, err := c.value(e.X)
	if err != nil {
		return x, err
	}
	y, err := c.value(e.Y)
	return combine(e.Op, x, y), err
}

// quotient is that of two cells, as measured.
func (c Cells) quotient(e *ast.BinaryExpr) (Value, bool) {
	x, err1 := path(e.X)
	y, err2 := path(e.Y)
	if e.Op != token.QUO || err1 != nil || err2 != nil {
		return Value{}, false
	}
	return c(x + " / " + y)
}

// combine is one operation on two values: its interval spans what the limits give.
func combine(op token.Token, x, y Value) Value {
	f := map[token.Token]func(a, b float64) float64{
		token.ADD: func(a, b float64) float64 { return a + b }, token.SUB: func(a, b float64) float64 { return a - b },
		token.MUL: func(a, b float64) float64 { return a * b }, token.QUO: func(a, b float64) float64 { return a / b },
	}[op]
	i, j := x.Interval, y.Interval
	ends := []float64{f(i.Low, j.Low), f(i.Low, j.High), f(i.High, j.Low), f(i.High, j.High)}
	v := joined(f(x.Value, y.Value), slices.Min(ends), slices.Max(ends), x, y)
	if op == token.QUO && j.Low <= 0 && j.High >= 0 {
		v.Interval = stats.None(v.Value)
	}
	return v
}

// joined is a value with what limits those that it was made of.
func joined(value, low, high float64, of ...Value) Value {
	v := Value{Estimate: stats.Estimate{Value: value, Interval: stats.Interval{Low: low, High: high, Level: 1, Method: exact}}}
	for _, x := range of {
		i := &v.Interval
		if weaker(x.Interval, *i) {
			i.Method, i.Level = x.Interval.Method, x.Interval.Level
		}
		v.Refused, v.Doubtful, v.Notes = v.Refused || x.Refused, v.Doubtful || x.Doubtful, together(v.Notes, x.Notes)
	}
	return v
}

// together are texts, each once.
func together(a, b []string) []string {
	return append(slices.Clone(a), slices.DeleteFunc(slices.Clone(b), func(n string) bool { return slices.Contains(a, n) })...)
}

// weaker reports whether a says less of its value than b.
func weaker(a, b stats.Interval) bool {
	rank := func(i stats.Interval) int {
		switch {
		case i.Method == exact:
			return 0
		case i.Decides():
			return 1
		case i.Method == stats.MethodRange:
			return 2
		}
		return 3
	}
	return rank(a) > rank(b)
}

func (c Cells) call(e *ast.CallExpr) (Value, error) {
	name, err := path(e.Fun)
	f, known := map[string]func([]float64) float64{"min": slices.Min[[]float64], "max": slices.Max[[]float64], "median": median}[name]
	if err != nil || !known || len(e.Args) == 0 {
		return Value{}, fmt.Errorf("no function %q: there are min, max and median, of one number or more", name)
	}
	var of []Value
	var values, low, high []float64
	for _, a := range e.Args {
		v, err := c.value(a)
		if err != nil {
			return v, err
		}
		of, values, low, high = append(of, v), append(values, v.Value), append(low, v.Interval.Low), append(high, v.Interval.High)
	}
	return joined(f(values), f(low), f(high), of...), nil
}

// median is that of numbers in any order.
func median(x []float64) float64 { return stats.Median(stats.Sorted(x)) }

// field is {EXPRESSION FORMAT} in a text.
var field = regexp.MustCompile(`\{([^{}%]+) (%[^{}]*)\}`)

// fill writes the numbers of a text.
func fill(text string, cells Cells) (string, error) {
	var failed error
	filled := field.ReplaceAllStringFunc(text, func(f string) string {
		parts := field.FindStringSubmatch(f)
		v, err := evaluate(parts[1], cells)
		failed = cmp.Or(failed, err)
		return v.format(parts[2])
	})
	return filled, failed
}
