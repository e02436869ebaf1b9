package finding

import (
	"github.com/tarelab/tare/internal/quantity"
	"github.com/tarelab/tare/internal/stats"
)

// Figure is a chart of one kind: lines over a number, bars over names, dots over
// names, a flame graph, chains of boxes, a timeline, or a forest. Only the page draws it.
type Figure struct {
	Title string `json:"title"`
	// Beside puts the figure to the right of the one before it, where there is
	// room; both then have one vertical scale.
	Beside bool   `json:"beside,omitempty"`
	X      Axis   `json:"x"`
	Y      Axis   `json:"y"`
	Lines  []Line `json:"lines,omitempty"`
	Bars   []Bar  `json:"bars,omitempty"`  // instead of lines; Y is then their length, X is not used
	Dots   []Dots `json:"dots,omitempty"`  // instead of both; X is then their scale, Y is not used
	Flame  *Flame `json:"flame,omitempty"` // instead of all three; X and Y are not used
	// Chains stand instead of all four; X and Y are not used.
	Chains []Chain `json:"chains,omitempty"`
	// Timeline stands instead of all of these; X and Y are not used.
	Timeline *Timeline `json:"timeline,omitempty"`
	// Forest stands instead of all of these; Y is not used.
	Forest *Forest `json:"forest,omitempty"`
}

// Axis says what is drawn along it. Values are in the unit that Label names.
type Axis struct {
	Label string `json:"label"`         // "containers", "elapsed, s"
	Log   bool   `json:"log,omitempty"` // logarithmic; all values are positive
	Zero  bool   `json:"zero,omitempty"`
	// To is where the axis of lines ends: what lies beyond is drawn at its edge. 0:
	// with the values.
	To float64 `json:"to,omitempty"`
}

// Look is how a line is drawn: with its points and intervals, or pale or thin.
type Look string

// The looks.
const (
	Measured  Look = "measured"  // solid, with points and intervals
	Published Look = "published" // dashed, hollow points
	Fit       Look = "fit"       // thin, without points: a law
	Series    Look = "series"    // solid, without points: readings over time
	Pale      Look = "pale"      // thin and pale, without points: lines that the others stand out from
)

// Line is one curve of a figure.
type Line struct {
	Name   string  `json:"name"`
	Look   Look    `json:"look"`
	Points []Point `json:"points"` // by rising X
}

// Point is one place on a line. Low and High bound its interval; both are equal
// to Y where there is none.
type Point struct {
	X    float64 `json:"x"`
	Y    float64 `json:"y"`
	Low  float64 `json:"low"`
	High float64 `json:"high"`
	Tip  string  `json:"tip,omitempty"` // more than the numbers, for a pointer
}

// Exactly is a point without an interval.
func Exactly(x, y float64) Point { return Point{X: x, Y: y, Low: y, High: y} }

// Estimated is a point with its interval, where that is known.
func Estimated(x float64, e stats.Estimate) Point {
	low, high := ends(e)
	return Point{X: x, Y: e.Value, Low: low, High: high}
}

// ends are the limits of an estimate's interval, both its value where that is not known.
func ends(e stats.Estimate) (low, high float64) {
	if !quantity.Known(e.Interval) {
		return e.Value, e.Value
	}
	return e.Interval.Low, e.Interval.High
}

// Bar is one name with a length, or with several parts one after another.
type Bar struct {
	Name  string `json:"name"`
	Look  Look   `json:"look"` // Measured or Published
	Parts []Part `json:"parts"`
	// Low and High bound the interval of the whole; both 0 where there is none.
	Low  float64 `json:"low,omitempty"`
	High float64 `json:"high,omitempty"`
}

// Dots are the values of one name in several rows. All dots of a figure have one
// scale, and the rows are in the order of their first appearance.
type Dots struct {
	Name string `json:"name"`
	Look Look   `json:"look"` // Measured or Published
	At   []Dot  `json:"at"`
}

// Dot is a value in a row. Low and High bound its interval; both are equal to Value
// where there is none.
type Dot struct {
	Row   string  `json:"row"`
	Value float64 `json:"value"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
}

// DotOf is an estimate in a row, with its interval where that is known.
func DotOf(row string, e stats.Estimate) Dot {
	low, high := ends(e)
	return Dot{Row: row, Value: e.Value, Low: low, High: high}
}

// Forest is ratios, one in a row, about 1.
type Forest struct {
	Band float64     `json:"band"` // the margin, as a ratio minus 1: drawn to either side of 1
	Rows []ForestRow `json:"rows"`
}

// Shape is how a row of a forest is drawn.
type Shape string

// The shapes.
const (
	Measure Shape = "dot"     // one measurement with its interval
	Hollow  Shape = "hollow"  // one that does not count
	Diamond Shape = "diamond" // a mean, as wide as its interval
)

// ForestRow is one ratio. Low and High bound its interval; both are equal to Value
// where there is none.
type ForestRow struct {
	Name  string  `json:"name"`
	Shape Shape   `json:"shape"`
	Value float64 `json:"value"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
	// NextLow and NextHigh bound where one more value lies; both 0 where that is not known.
	NextLow  float64 `json:"nextLow,omitempty"`
	NextHigh float64 `json:"nextHigh,omitempty"`
	Tip      string  `json:"tip"` // for a pointer
}

// Part is a piece of a bar; pieces of one name have one colour.
type Part struct {
	Name  string  `json:"name,omitempty"`
	Value float64 `json:"value"`
}

// Flame is a flame graph: frames with the seconds that were spent in and below
// them.
type Flame struct {
	Of    string `json:"of"`             // the cell, for a screen reader
	Note  string `json:"note"`           // how to read it, one or two sentences
	Find  string `json:"find"`           // the placeholder of the search, such as "find a function"
	Unit  string `json:"unit,omitempty"` // what values count in place of nanoseconds, such as "cycles"; "" for time
	Frame Frame  `json:"frame"`
}

// Frame is one box of a flame graph. Its Value includes that of its Children.
type Frame struct {
	Name     string  `json:"name"`
	Value    float64 `json:"value"` // seconds
	Children []Frame `json:"children,omitempty"`
}

// Chain is a way from one end to the other: boxes in a row, joined by lines.
type Chain struct {
	Name  string `json:"name"`
	Boxes []Box  `json:"boxes"`
}

// Box is one thing on the way.
type Box struct {
	Name  string `json:"name"`
	Place bool   `json:"place,omitempty"` // something is inside; drawn filled, the others in outline
}

// Timeline is what happened when, in seconds: rows above one another on one axis, of
// which a reader chooses the part to see.
type Timeline struct {
	Rows []TimelineRow `json:"rows"`
}

// TimelineRow is one run of events, such as a boot.
type TimelineRow struct {
	Name  string  `json:"name"`
	End   float64 `json:"end"`
	Lanes []Lane  `json:"lanes"`
	Marks []Mark  `json:"marks,omitempty"` // moments over all lanes, by rising At
}

// Lane is a line of stretches of one subject.
type Lane struct {
	Name      string    `json:"name"`
	Minor     bool      `json:"minor,omitempty"` // its name is paler
	Stretches []Stretch `json:"stretches"`
}

// Stretch is a time in a lane.
type Stretch struct {
	From   float64 `json:"from"`
	To     float64 `json:"to"`
	Share  float64 `json:"share"`            // 0 to 1: the darker, the more
	Failed bool    `json:"failed,omitempty"` // an outline
	Tip    string  `json:"tip"`
}

// Mark is a moment with a name.
type Mark struct {
	Name string  `json:"name"`
	At   float64 `json:"at"`
}
