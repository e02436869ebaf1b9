package report

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/stats"
)

// missing stands where there is no number.
const missing = "–"

// scale is a unit that people read: shown = value / Factor.
type scale struct {
	Factor float64 `json:"factor"`
	Unit   string  `json:"unit"` // "ms"; "" for plain counts
}

// ladderOf lists a unit's scales, smallest first. Bytes go by powers of 1024,
// bits and counts by powers of 1000, as IEC 80000-13 and the SI name them.
func ladderOf(unit sample.Unit) []scale {
	switch unit {
	case sample.Seconds:
		return []scale{{1e-9, "ns"}, {1e-6, "µs"}, {1e-3, "ms"}, {1, "s"}}
	case sample.Bytes:
		return []scale{{1, "B"}, {1 << 10, "KiB"}, {1 << 20, "MiB"}, {1 << 30, "GiB"}}
	case sample.Count:
		return []scale{{1, ""}, {1e3, "k"}, {1e6, "M"}, {1e9, "G"}}
	case sample.PerSecond:
		return []scale{{1, "/s"}, {1e3, "k/s"}, {1e6, "M/s"}, {1e9, "G/s"}}
	case sample.BytesPerSecond:
		return []scale{{1, "B/s"}, {1 << 10, "KiB/s"}, {1 << 20, "MiB/s"}, {1 << 30, "GiB/s"}}
	case sample.BitsPerSecond:
		return []scale{{1, "bit/s"}, {1e3, "kbit/s"}, {1e6, "Mbit/s"}, {1e9, "Gbit/s"}}
	}
	return []scale{{1, string(unit)}}
}

// scaleFor chooses one unit for a column: that in which the middle value is at
// least 1 (plain counts and rates stay whole up to 99,999), unless the smallest
// would fall below a hundredth.
func scaleFor(unit sample.Unit, values []float64) scale {
	steps := ladderOf(unit)
	sizes := sizesOf(values)
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

// sizesOf gives the sorted magnitudes of the finite values that are not zero.
func sizesOf(values []float64) []float64 {
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

// decimals says where to cut a number so that it shows no digit that its doubt
// (the half-width of its interval) makes meaningless: the last digit shown has
// the decade of the doubt's first digit, but its own first digit always stays.
// Negative results cut before the point.
// A doubt of 0 is no doubt; NaN is an unknown one.
func decimals(value, doubt float64) int {
	first := decade(value)
	switch {
	case math.IsNaN(doubt):
		return digitsUnknown - 1 - first
	case doubt <= 0:
		return max(digitsMost-2-first, 0)
	}
	return max(min(-decade(doubt), digitsMost-1-first), -first)
}

// decade is the power of ten of a number's first digit; 0 for 0.
func decade(v float64) int {
	v = math.Abs(v)
	if v == 0 || math.IsInf(v, 0) || math.IsNaN(v) {
		return 0
	}
	return int(math.Floor(math.Log10(v) + 1e-12))
}

// number prints v with the given decimals; negative ones round before the point.
func number(v float64, decimals int) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return missing
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

// known reports whether an interval was computed at all.
func known(i stats.Interval) bool {
	return i.Method != "" && i.Method != "none" &&
		!math.IsNaN(i.Low) && !math.IsNaN(i.High) && !math.IsInf(i.Low, 0) && !math.IsInf(i.High, 0)
}

// shownNumber is a value and its interval as people read them.
type shownNumber struct {
	Value string `json:"value"`
	Low   string `json:"low,omitempty"` // empty where there is no interval
	High  string `json:"high,omitempty"`
}

// show prints a value in a scale, cut by its interval.
func (s scale) show(value float64, i stats.Interval) shownNumber {
	v := value / s.Factor
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return shownNumber{Value: missing}
	}
	if !known(i) {
		return shownNumber{Value: number(v, max(decimals(v, math.NaN()), 0))}
	}
	low, high := i.Low/s.Factor, i.High/s.Factor
	d := decimals(v, (high-low)/2)
	if high == low {
		d = trimmed(v, d)
	}
	return shownNumber{number(v, d), number(low, d), number(high, d)}
}

// showRatio prints a ratio. Its lower bound always keeps a digit: a bound of 0
// would speak of a ratio that cannot be. An interval that excludes no change is not
// rounded to one that includes it.
func showRatio(value float64, i stats.Interval) shownNumber {
	n := scale{1, ""}.show(value, i)
	if n.Low != "" && i.Low > 0 && strings.Trim(n.Low, "0.") == "" {
		n.Low = number(i.Low, -decade(i.Low))
	}
	if i.Low > 1 {
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
		text = number(bound, d)
	}
	return text
}

// isOne says that a printed number is 1, 1.0, 1.00 ...
func isOne(text string) bool {
	return text == "1" || strings.HasPrefix(text, "1.") && strings.Trim(text[2:], "0") == ""
}

// trimmed drops decimals that are zeros: a count of 12 is "12", not "12.000".
func trimmed(v float64, d int) int {
	for d > 0 && number(v, d) == number(v, d-1)+zeroTail(d) {
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

// interval prints an interval as "[low, high]", or "" where there is none.
func (n shownNumber) interval() string {
	if n.Low == "" {
		return ""
	}
	return "[" + n.Low + ", " + n.High + "]"
}

// percent prints a fraction as a percentage with two significant digits.
func percent(fraction float64) string {
	v := fraction * 100
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return missing
	}
	s := number(v, min(max(1-decade(v), 0), 3))
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s + " %"
}

// withUnit joins a number and a unit; plain counts have none.
func withUnit(number, unit string) string {
	if unit == "" || number == missing {
		return number
	}
	if strings.HasPrefix(unit, "/") {
		return number + unit
	}
	return number + " " + unit
}
