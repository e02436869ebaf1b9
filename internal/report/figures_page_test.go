package report_test

import (
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/tarelab/tare/internal/finding"
	"github.com/tarelab/tare/internal/report"
	"github.com/tarelab/tare/internal/report/reporttest"
)

// figured is a report with a section of figures: two of lines and two of dots, each
// pair next to each other and of different heights.
func figured() report.Input {
	falling := func(title string, beside bool, most float64) finding.Figure {
		f := finding.Figure{Title: title, Beside: beside, X: finding.Axis{Label: "containers", Zero: true}, Y: finding.Axis{Label: "score by one container's", Zero: true}}
		for _, l := range []finding.Line{{Name: "execl", Look: finding.Pale}, {Name: "syscall", Look: finding.Pale}, {Name: "index", Look: finding.Measured}, {Name: "1/n", Look: finding.Fit}} {
			for n := 1.; n <= most; n++ {
				l.Points = append(l.Points, finding.Point{X: n, Y: most / n, Low: 0.9 * most / n, High: 1.1 * most / n, Tip: "more"})
			}
			f.Lines = append(f.Lines, l)
		}
		return f
	}
	machines := func(title string, beside bool, factor float64) finding.Figure {
		f := finding.Figure{Title: title, Beside: beside, X: finding.Axis{Label: "score", Log: true}}
		for _, d := range []finding.Dots{{Name: "theirs", Look: finding.Published}, {Name: "this machine", Look: finding.Measured}} {
			for _, row := range []string{"index", "execl", "syscall"} {
				d.At = append(d.At, finding.Dot{Row: row, Value: 100 * factor, Low: 90 * factor, High: 110 * factor})
				factor *= 2
			}
			f.Dots = append(f.Dots, d)
		}
		return f
	}
	in := reporttest.Survey()
	in.Sections = []finding.Section{{ID: "figures", Title: "Figures", Alone: true, Headline: []string{"There are figures."}, Findings: []string{"There are figures."},
		Figures: []finding.Figure{falling("published", false, 4), falling("here", true, 8), machines("one copy", false, 1), machines("a copy for each CPU", true, 3)}}}
	return in
}

func TestPageDrawsFigures(t *testing.T) {
	b := open(t, figured(), desktop)
	b.shoot("figures-light")
	b.clean()
	for _, c := range []struct {
		what, selector string
		want           int
	}{
		{"pairs", "#figures .pair", 2},
		{"figures", "#figures .pair svg.plot", 4},
		{"pale lines", "#figures .m-pale path", 4},
		{"keys of lines: the index, the law, the pale ones together", "#figures figure:first-child > .keys li:has(svg)", 3},
		{"dots", "#figures .m-dots path, #figures .m-dots circle", 12},
		{"charts without a name", "#figures svg.plot:not([aria-label])", 0},
	} {
		if got := b.count(c.selector); got != c.want {
			t.Errorf("%s: %d, want %d", c.what, got, c.want)
		}
	}
	// Both sides of a pair have one scale: lines the vertical one, dots the other.
	bad := eval[[]string](b, `[...document.querySelectorAll("#figures .pair")].flatMap((pair, i) => {
		const axis = i ? "x-axis tick label" : "y-axis tick label";
		const ticks = [...pair.querySelectorAll("svg.plot")].map((s) => [...s.querySelectorAll('[aria-label="' + axis + '"] text')].map((x) => x.textContent).join(" "));
		return ticks[0] === ticks[1] && ticks[0].length > 5 ? [] : [ticks.join(" / ")];
	})`)
	if len(bad) > 0 {
		t.Errorf("the two sides differ in scale: %q", bad)
	}
}

func TestPageFiguresFitPhoneAndPaper(t *testing.T) {
	for _, v := range []view{{width: 320, height: 640}, {width: 360, height: 740, dark: true}, {width: 700, height: 1000}} {
		b := open(t, figured(), v)
		if v.width == 360 {
			b.shoot("figures-phone-dark")
		}
		if got := eval[int64](b, "document.documentElement.scrollWidth"); got > v.width {
			t.Errorf("the page is %d px wide on %d", got, v.width)
		}
		if got := eval[float64](b, `Math.min(...[...document.querySelectorAll("#figures .pair svg.plot")].map((s) => s.getBoundingClientRect().width))`); got < 200 {
			t.Errorf("at %d the narrowest figure is %.0f px wide", v.width, got)
		}
		b.clean()
	}
	b := open(t, figured(), view{width: 700, height: 1000})
	b.run(emulation.SetEmulatedMedia().WithMedia("print"), chromedp.Evaluate(`dispatchEvent(new Event("beforeprint"))`, nil))
	if got := eval[int](b, "document.documentElement.scrollWidth"); got > 700 {
		t.Errorf("the page is %d px wide on paper of 700", got)
	}
}
