package report_test

import (
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/tarelab/tare/internal/report/reporttest"
)

func TestPagePublishedBesideThisMachine(t *testing.T) {
	in := reporttest.Unix()
	b := open(t, in, desktop)
	b.shoot("unix-light")
	b.clean()
	claims := in.Claims.Unix
	for _, c := range []struct {
		what, selector string
		want           int
	}{
		{"pairs of figures: three environments, and the machines", "#docker-on-loongson .pair", 4},
		{"figures", "#docker-on-loongson .pair svg.plot", 8},
		{"rows of claims: one for each answer", "#docker-on-loongson .claims tbody tr", 9*2 + 6},
		{"claims not borne out by their own cells", "#docker-on-loongson .claims tbody tr > td:nth-of-type(2) .badge.cost", 4},
		{"machines drawn", "#docker-on-loongson .machines .m-machine", 10},
		{"lines of 1/n", "#docker-on-loongson .m-one-by-n path", 6},
	} {
		if got := b.count(c.selector); got != c.want {
			t.Errorf("%s: %d, want %d", c.what, got, c.want)
		}
	}
	if got := eval[string](b, `document.querySelector("#docker-on-loongson .findings").textContent`); !strings.Contains(got, "CPU time stands still") {
		t.Errorf("the findings lack the clocks: %q", got)
	}
	if got, want := b.count("header .findings li"), len(claims.Headline); got != want {
		t.Errorf("%d headline findings, want %d", got, want)
	}
	// Both sides of a pair have one scale: the same ticks at the same heights.
	bad := eval[[]string](b, `[...document.querySelectorAll("#docker-on-loongson .beside .pair")].flatMap((pair) => {
		const ticks = [...pair.querySelectorAll("svg.plot")].map((s) => [...s.querySelectorAll('[aria-label="y-axis tick label"] text')].map((x) => x.textContent).join(" ") + "|" + [...s.querySelectorAll('[aria-label="x-axis tick label"] text')].map((x) => x.textContent).join(" "));
		return ticks[0] === ticks[1] && ticks[0].length > 5 ? [] : [ticks.join(" / ")];
	})`)
	if len(bad) > 0 {
		t.Errorf("the two sides differ in scale: %q", bad)
	}
}

// The published index of nine tests on one CPU is drawn where its cells say.
func TestPageRedrawsThePublishedCells(t *testing.T) {
	b := open(t, reporttest.Unix(), desktop)
	label := eval[string](b, `[...document.querySelectorAll("#docker-on-loongson svg.plot")].map((s) => s.getAttribute("aria-label")).find((s) => s.startsWith("published, loongson-1way, One CPU"))`)
	// Geometric means of the nine rows of table 2, part 2, by their column of one container.
	if want := "index host: 1.00, 1: 1.00, 2: 0.55, 3: 0.42, 4: 0.32"; !strings.Contains(label, want) {
		t.Errorf("the published figure says %q, want %q", label, want)
	}
}

func TestPageChoosesTestAndTarget(t *testing.T) {
	b := open(t, reporttest.Unix(), desktop)
	bold := func() int { return b.count("#docker-on-loongson .m-bold path") }
	before := bold()
	pick := func(label string, index string) {
		b.run(evaluate(`{ const s = [...document.querySelectorAll("#docker-on-loongson label.pick")].find((l) => l.textContent.startsWith("` + label + `")).querySelector("select"); s.selectedIndex = ` + index + `; s.dispatchEvent(new Event("change")); }`))
	}
	pick("also", "1")
	if after := bold(); after != before+6 {
		t.Errorf("choosing a test turns %d bold lines into %d, want 6 more", before, after)
	}
	pick("target", "1")
	if got := eval[string](b, `document.querySelectorAll("#docker-on-loongson .pair figcaption")[1].textContent`); got != "this machine, crun" {
		t.Errorf("choosing a target shows %q", got)
	}
	b.clean()
}

func TestPageUnixFitsPhoneAndPaper(t *testing.T) {
	for _, v := range []view{{width: 320, height: 640}, {width: 360, height: 740, dark: true}, {width: 700, height: 1000}} {
		b := open(t, reporttest.Unix(), v)
		if v.width == 360 {
			b.shoot("unix-phone-dark")
		}
		if got := eval[int64](b, "document.documentElement.scrollWidth"); got > v.width {
			t.Errorf("the page is %d px wide on %d", got, v.width)
		}
		if got := eval[float64](b, `Math.min(...[...document.querySelectorAll("#docker-on-loongson .pair svg.plot")].map((s) => s.getBoundingClientRect().width))`); got < 200 {
			t.Errorf("at %d the narrowest figure is %.0f px wide", v.width, got)
		}
		b.clean()
	}
	b := open(t, reporttest.Unix(), view{width: 700, height: 1000})
	b.run(printed(), evaluate(`dispatchEvent(new Event("beforeprint"))`), settled())
	b.shoot("unix-print")
	if got := eval[int](b, "document.documentElement.scrollWidth"); got > 700 {
		t.Errorf("the page is %d px wide on paper of 700", got)
	}
	if got := eval[int](b, `[...document.querySelectorAll(".pick, .bulk")].filter((e) => e.offsetParent !== null).length`); got != 0 {
		t.Errorf("%d controls or folded parts are printed", got)
	}
	wide := eval[[]string](b, `[...document.querySelectorAll("#docker-on-loongson table")].filter((e) => e.offsetParent !== null && e.getBoundingClientRect().right > 701).map((e) => e.textContent.slice(0, 40))`)
	if len(wide) > 0 {
		t.Errorf("tables run off the paper: %q", wide)
	}
}

func TestPageUnixKeyboard(t *testing.T) {
	b := open(t, reporttest.Unix(), desktop)
	if got := eval[int](b, `[...document.querySelectorAll("#docker-on-loongson .scroll, #docker-on-loongson select, #docker-on-loongson summary")].filter((e) => e.tabIndex < 0).length`); got != 0 {
		t.Errorf("%d controls or scrolling parts cannot be reached by keyboard", got)
	}
	if got := eval[int](b, `[...document.querySelectorAll("#docker-on-loongson svg.plot")].filter((s) => !s.getAttribute("aria-label")).length`); got != 0 {
		t.Errorf("%d charts have no name", got)
	}
}

func evaluate(script string) chromedp.Action { return chromedp.Evaluate(script, nil) }

func printed() chromedp.Action { return emulation.SetEmulatedMedia().WithMedia("print") }

func settled() chromedp.Action { return chromedp.Sleep(150 * time.Millisecond) }
