// Package quantity writes numbers as people read them: in a unit that suits
// them, with the digits that their interval allows. It is pure, and knows no
// report and no experiment: both use it.
package quantity

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/stats"
)

// Missing stands where there is no number.
const Missing = "–"

// Scale is a unit that people read: shown = value / Factor.
type Scale struct {
	Factor float64 `json:"factor"`
	Unit   string  `json:"unit"` // "ms"; "" for plain counts
}

// ladderOf lists a unit's scales, smallest first. Bytes go by powers of 1024,
// bits and counts by powers of 1000, as IEC 80000-13 and the SI name them.
func ladderOf(unit sample.Unit) []Scale {
	switch unit {
	case sample.Seconds:
		return []Scale{{1e-9, "ns"}, {1e-6, "µs"}, {1e-3, "ms"}, {1, "s"}}
	case sample.Bytes:
		return []Scale{{1, "B"}, {1 << 10, "KiB"}, {1 << 20, "MiB"}, {1 << 30, "GiB"}}
	case sample.Count:
		return []Scale{{1, ""}, {1e3, "k"}, {1e6, "M"}, {1e9, "G"}}
	case sample.PerSecond:
		return []Scale{{1, "/s"}, {1e3, "k/s"}, {1e6, "M/s"}, {1e9, "G/s"}}
	case sample.BytesPerSecond:
		return []Scale{{1, "B/s"}, {1 << 10, "KiB/s"}, {1 << 20, "MiB/s"}, {1 << 30, "GiB/s"}}
	case sample.BitsPerSecond:
		return []Scale{{1, "bit/s"}, {1e3, "kbit/s"}, {1e6, "Mbit/s"}, {1e9, "Gbit/s"}}
	}
	return []Scale{{1, string(unit)}}
}

// ScaleFor chooses one unit for a column: that in which the middle value is at
// least 1 (plain counts and rates stay whole up to 99,999), unless the smallest
// would fall below a hundredth.
func ScaleFor(unit sample.Unit, values []float64) Scale {
	steps := ladderOf(unit)
	sizes := Sizes(values)
	if len(sizes) == 0 {
		return steps[0]
	}
	least := 1.0
	if unit == sample.Count || unit == sample.PerSecond {
		least = 100
	}
	at := 0
	for i, s := range steps {
		if sizes[len(sizes)/2] >= least*s.Factor {
			at = i
		}
	}
	for at > 0 && sizes[0] < 0.01*steps[at].Factor {
		at--
	}
	return steps[at]
}

// Sizes gives the sorted magnitudes of the finite values that are not zero.
func Sizes(values []float64) []float64 {
	var sizes []float64
	for _, v := range values {
		if a := math.Abs(v); a > 0 && !math.IsInf(a, 1) && !math.IsNaN(a) {
			sizes = append(sizes, a)
		}
	}
	slices.Sort(sizes)
	return sizes
}

// The digits of a number that carries no interval, and the most that any gets.
const (
	digitsUnknown = 3
	digitsMost    = 5
)

// Decimals says where to cut a number so that it shows no digit that its doubt
// (the half-width of its interval) makes meaningless: it shows two digits of the
// doubt, and its own first digit always stays.
// Negative results cut before the point.
// A doubt of 0 is no doubt; NaN is an unknown one.
func Decimals(value, doubt float64) int {
	first := Decade(value)
	switch {
	case math.IsNaN(doubt):
		return digitsUnknown - 1 - first
	case doubt <= 0:
		return max(digitsMost-2-first, 0)
	}
	return max(min(1-Decade(doubt), digitsMost-1-first), -first)
}

// Decade is the power of ten of a number's first digit; 0 for 0.
func Decade(v float64) int {
	v = math.Abs(v)
	if v == 0 || math.IsInf(v, 0) || math.IsNaN(v) {
		return 0
	}
	return int(math.Floor(math.Log10(v) + 1e-12))
}

// Number prints v with the given decimals; negative ones round before the point.
func Number(v float64, decimals int) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return Missing
	}
	if decimals < 0 {
		p := math.Pow10(-decimals)
		v, decimals = math.Round(v/p)*p, 0
	}
	s := strconv.FormatFloat(v, 'f', decimals, 64)
	if strings.Trim(s, "-0.") == "" {
		return strings.TrimPrefix(s, "-")
	}
	return s
}

// Known reports whether an interval was computed at all.
func Known(i stats.Interval) bool {
	return i.Method != "" && i.Method != stats.MethodNone &&
		!math.IsNaN(i.Low) && !math.IsNaN(i.High) && !math.IsInf(i.Low, 0) && !math.IsInf(i.High, 0)
}

// Shown is a value and its interval as people read them.
type Shown struct {
	Value string `json:"value"`
	Low   string `json:"low,omitempty"` // empty where there is no interval
	High  string `json:"high,omitempty"`
}

// Show prints a value in a scale, cut by its interval.
func (s Scale) Show(value float64, i stats.Interval) Shown {
	v := value / s.Factor
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return Shown{Value: Missing}
	}
	if !Known(i) {
		return Shown{Value: Number(v, max(Decimals(v, math.NaN()), 0))}
	}
	low, high := i.Low/s.Factor, i.High/s.Factor
	d := Decimals(v, (high-low)/2)
	if high == low {
		d = trimmed(v, d)
	}
	n := Shown{Number(v, d), Number(low, d), Number(high, d)}
	// A number that is not its own bound is not printed as one.
	for more := 1; more <= 3 && (n.Value == n.Low && v != low || n.Value == n.High && v != high); more++ {
		n = Shown{Number(v, d+more), Number(low, d+more), Number(high, d+more)}
	}
	return n
}

// Ratio prints a ratio. Its lower bound always keeps a digit: a bound of 0
// would speak of a ratio that cannot be. An interval that excludes no change is not
// rounded to one that includes it, and one that holds less than 1 does not begin with "1".
func Ratio(value float64, i stats.Interval) Shown {
	n := Scale{1, ""}.Show(value, i)
	if n.Low != "" && i.Low > 0 && strings.Trim(n.Low, "0.") == "" {
		n.Low = Number(i.Low, -Decade(i.Low))
	}
	if i.Low > 1 || i.Low < 1 && n.Low == "1" {
		n.Low = besideOne(n.Low, i.Low)
	}
	if i.High < 1 {
		n.High = besideOne(n.High, i.High)
	}
	return n
}

// besideOne gives a bound that is printed as 1, and is not, the digits that tell.
func besideOne(text string, bound float64) string {
	const most = 3
	for d := 1; d <= most && isOne(text); d++ {
		text = Number(bound, d)
	}
	return text
}

// isOne says that a printed number is 1, 1.0, 1.00 ...
func isOne(text string) bool {
	return text == "1" || strings.HasPrefix(text, "1.") && strings.Trim(text[2:], "0") == ""
}

// trimmed drops decimals that are zeros: a count of 12 is "12", not "12.000".
func trimmed(v float64, d int) int {
	for d > 0 && Number(v, d) == Number(v, d-1)+zeroTail(d) {
		d--
	}
	return d
}

func zeroTail(d int) string {
	if d == 1 {
		return ".0"
	}
	return "0"
}

// Interval prints an interval as "[low, high]", or "" where there is none.
func (n Shown) Interval() string {
	if n.Low == "" {
		return ""
	}
	return "[" + n.Low + ", " + n.High + "]"
}

// Percent prints a fraction as a percentage with two significant digits.
func Percent(fraction float64) string {
	v := fraction * 100
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return Missing
	}
	s := Number(v, min(max(1-Decade(v), 0), 3))
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s + " %"
}

// WithUnit joins a number and a unit; plain counts have none.
func WithUnit(number, unit string) string {
	if unit == "" || number == Missing {
		return number
	}
	if strings.HasPrefix(unit, "/") {
		return number + unit
	}
	return number + " " + unit
}

// Of writes one value with its unit, as "1.23 ms", cut by its interval.
func Of(unit sample.Unit, v float64, i stats.Interval) string {
	s := ScaleFor(unit, []float64{v})
	return WithUnit(s.Show(v, i).Value, s.Unit)
}

// PlusMinus is half an interval in percent of its number, " ±2 %"; "" where there is
// none.
func PlusMinus(e stats.Estimate) string {
	if !Known(e.Interval) || e.Value <= 0 {
		return ""
	}
	half := 100 * (e.Interval.High - e.Interval.Low) / 2 / e.Value
	if half < 1 {
		return " ±" + Number(half, 1) + " %"
	}
	return " ±" + Number(half, 0) + " %"
}

// Span is an interval in brackets after a blank, each limit times factor and written
// by verb (" [1.2, 1.4]" by "%.1f"); "" where no verdict may rest on it.
func Span(e stats.Estimate, verb string, factor float64) string {
	if !e.Interval.Decides() || e.Interval.Level == 0 {
		return ""
	}
	return fmt.Sprintf(" ["+verb+", "+verb+"]", e.Interval.Low*factor, e.Interval.High*factor)
}

// Rounded writes one value without an interval with its unit, as "1.23 ms": three
// digits, also before the point ("1230 ms" of 1234 ms).
func Rounded(v float64, unit sample.Unit) string {
	s := ScaleFor(unit, []float64{v})
	v /= s.Factor
	return WithUnit(Number(v, Decimals(v, math.NaN())), s.Unit)
}

// Digits prints three significant digits and no unit; digits before the point all
// stay.
func Digits(v float64) string { return Number(v, max(0, Decimals(v, math.NaN()))) }

// Signed puts a plus before a value that is not negative.
func Signed(n Shown) Shown {
	if n.Value != Missing && !strings.HasPrefix(n.Value, "-") {
		n.Value = "+" + n.Value
	}
	return n
}

// String is the value, and its interval where it has one: "1.2 [1.1, 1.3]".
func (n Shown) String() string { return strings.TrimSpace(n.Value + " " + n.Interval()) }

// Clock is a clock rate and how it is known; "" where it is not.
func Clock(ghz float64, source string) string {
	if ghz <= 0 {
		return ""
	}
	return strconv.FormatFloat(ghz, 'f', 2, 64) + " GHz (" + source + ")"
}

// Count is a number of things: "1 trial", "3 trials".
func Count(n int, thing string) string { return strconv.Itoa(n) + " " + Plural(n, thing) }

// Plural is the word for n things.
func Plural(n int, thing string) string {
	if n == 1 {
		return thing
	}
	return thing + "s"
}
