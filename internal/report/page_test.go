package report_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	cdpbrowser "github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/tarelab/tare/internal/report"
	"github.com/tarelab/tare/internal/report/reporttest"
)

var shots = flag.String("screenshots", "", "directory that the page tests write screenshots to")

// browser is one headless Chromium for all page tests.
var browser = sync.OnceValues(func() (context.Context, error) {
	dir, err := os.MkdirTemp("", "tare-chromium-")
	if err != nil {
		return nil, err
	}
	options := append([]chromedp.ExecAllocatorOption{}, chromedp.DefaultExecAllocatorOptions[:]...)
	options = append(options,
		chromedp.NoSandbox, chromedp.DisableGPU, chromedp.NoFirstRun, chromedp.UserDataDir(dir),
		chromedp.Flag("disable-background-networking", true), chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true),
	)
	alloc, stop := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, quit := chromedp.NewContext(alloc)
	closeBrowser = func() {
		_ = chromedp.Cancel(ctx) // waits until the browser has ended, so that its directory can go
		quit()
		stop()
		_ = os.RemoveAll(dir) // a temporary directory: what stays is the system's to sweep
	}
	return ctx, chromedp.Run(ctx)
})

var closeBrowser = func() {}

func TestMain(m *testing.M) {
	code := m.Run()
	closeBrowser()
	os.Exit(code)
}

// tab is one open report, with all that the page asked for or complained of.
type tab struct {
	t        *testing.T
	ctx      context.Context
	mu       sync.Mutex
	requests []string
	problems []string
}

type view struct {
	width, height int64
	dark          bool
}

var desktop = view{width: 1280, height: 900}

// open writes the report to a file, opens it, and waits until it is drawn.
func open(t *testing.T, in report.Input, v view) *tab {
	t.Helper()
	root, err := browser()
	if err != nil {
		t.Fatalf("start Chromium (apt-get install chromium): %v", err)
	}
	path := filepath.Join(t.TempDir(), "report.html")
	if err := os.WriteFile(path, render(t, in), 0o644); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := chromedp.NewContext(root)
	t.Cleanup(cancel)
	ctx, stop := context.WithTimeout(ctx, 2*time.Minute)
	t.Cleanup(stop)
	b := &tab{t: t, ctx: ctx}
	chromedp.ListenTarget(ctx, b.listen)
	scheme := "light"
	if v.dark {
		scheme = "dark"
	}
	b.run(
		network.Enable(), log.Enable(),
		emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}),
		chromedp.EmulateViewport(v.width, v.height),
		chromedp.Navigate("file://"+path),
		chromedp.WaitReady(`html[data-ready="true"]`, chromedp.ByQuery),
		chromedp.Sleep(150*time.Millisecond), // one round of the resize observer
	)
	return b
}

func render(t testing.TB, in report.Input) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := report.HTML(&out, in); err != nil {
		t.Fatalf("%v (npm ci && npm run build in web/)", err)
	}
	return out.Bytes()
}

func (b *tab) listen(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		if !strings.HasPrefix(e.Request.URL, "data:") {
			b.requests = append(b.requests, e.Request.URL)
		}
	case *runtime.EventExceptionThrown:
		b.problems = append(b.problems, e.ExceptionDetails.Error())
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.APITypeError || e.Type == runtime.APITypeWarning {
			b.problems = append(b.problems, fmt.Sprintf("console.%s %v", e.Type, e.Args))
		}
	case *log.EventEntryAdded:
		if e.Entry.Level == log.LevelError {
			b.problems = append(b.problems, e.Entry.Text)
		}
	}
}

func (b *tab) run(actions ...chromedp.Action) {
	b.t.Helper()
	if err := chromedp.Run(b.ctx, actions...); err != nil {
		b.t.Fatal(err)
	}
}

// eval evaluates an expression in the page.
func eval[T any](b *tab, expression string) T {
	b.t.Helper()
	var out T
	b.run(chromedp.Evaluate(expression, &out))
	return out
}

func (b *tab) count(selector string) int {
	b.t.Helper()
	return eval[int](b, fmt.Sprintf("document.querySelectorAll(%q).length", selector))
}

// clean fails the test where the page complained or asked for anything but itself.
func (b *tab) clean() {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.problems) > 0 {
		b.t.Errorf("the page complains: %q", b.problems)
	}
	if len(b.requests) != 1 {
		b.t.Errorf("the page requests %q, want only itself", b.requests)
	}
}

// shoot writes screenshots of the whole page, in pieces of two screens, when the
// flag asks for them.
func (b *tab) shoot(name string) {
	b.t.Helper()
	if *shots == "" {
		return
	}
	const piece = 1500
	width, height := eval[float64](b, "innerWidth"), eval[float64](b, "document.documentElement.scrollHeight")
	for i := 0; float64(i*piece) < height; i++ {
		var png []byte
		b.run(chromedp.ActionFunc(func(ctx context.Context) (err error) {
			png, err = page.CaptureScreenshot().WithCaptureBeyondViewport(true).WithClip(&page.Viewport{
				Y: float64(i * piece), Width: width, Height: min(piece, height-float64(i*piece)), Scale: 1,
			}).Do(ctx)
			return err
		}))
		if err := os.WriteFile(filepath.Join(*shots, fmt.Sprintf("%s-%d.png", name, i)), png, 0o644); err != nil {
			b.t.Fatal(err)
		}
	}
}

func TestPageShowsEveryMark(t *testing.T) {
	in := reporttest.Survey()
	b := open(t, in, desktop)
	b.shoot("survey-light")
	b.clean()
	ratios, samples, rows, primary := 0, 0, 0, 0
	for _, table := range in.Claims.Tables {
		rows += len(table.Rows)
		if !table.Primary {
			continue
		}
		primary++
		for _, r := range table.Rows {
			samples += len(r.Samples)
			if r.Effect != nil {
				ratios++
			}
		}
	}
	for _, c := range []struct {
		what, selector string
		want           int
	}{
		{"price lists", "table.forest", primary},
		{"ratios in price lists", `.forest .m-ratio > *`, ratios},
		{"intervals in price lists", `.forest .m-interval path`, ratios},
		{"noise floors", `.forest .m-noise-floor rect`, primary},
		{"margins", `.forest .m-margin rect`, primary},
		{"samples", `.distribution .m-sample circle`, samples},
		{"rows of the table of all numbers", ".raw tbody tr", rows},
		{"warnings", ".warnings li", len(in.Claims.Warnings)},
		{"failed cells", ".failures > li", 2},
		{"cells that are not comparable", ".forest .badge.not-comparable", 1},
	} {
		if got := b.count(c.selector); got != c.want {
			t.Errorf("%s: %d, want %d", c.what, got, c.want)
		}
	}
}

func TestPageChartRowsStandBesideTableRows(t *testing.T) {
	b := open(t, reporttest.Survey(), desktop)
	// The dot of a row must lie inside that row's box.
	bad := eval[[]string](b, `[...document.querySelectorAll("table.forest")].flatMap((table) => {
		const rows = [...table.querySelectorAll("tbody tr:not(.axis)")].map((r) => r.getBoundingClientRect());
		const dots = [...table.querySelectorAll('.m-ratio > *')].map((p) => { const r = p.getBoundingClientRect(); return (r.top + r.bottom) / 2; });
		return dots.filter((y) => !rows.some((r) => Math.abs((r.top + r.bottom) / 2 - y) < 4)).map((y) => table.caption.textContent + " " + y);
	})`)
	if len(bad) > 0 {
		t.Errorf("dots that stand beside no row: %q", bad)
	}
}

func TestPageLadder(t *testing.T) {
	in := reporttest.Ladder()
	b := open(t, in, desktop)
	b.shoot("ladder-light")
	b.clean()
	steps := len(in.Claims.Ladders[0].Steps)
	if steps != 14 {
		t.Fatalf("the synthetic ladder has %d steps, want 14", steps)
	}
	if got := b.count(`.ladder .m-step rect`); got != steps+1 {
		t.Errorf("%d bars, want %d", got, steps+1)
	}
	if got := b.count(`.ladder .m-interval path`); got != steps {
		t.Errorf("%d intervals, want %d", got, steps)
	}
	width := `document.querySelector('.ladder .m-step rect:nth-of-type(3)').getBoundingClientRect().width`
	log := eval[float64](b, width)
	b.run(chromedp.Click(`.choice label:nth-of-type(2) input`, chromedp.ByQuery))
	if linear := eval[float64](b, width); linear >= log/2 {
		t.Errorf("a small step is %.1f px wide on the linear axis and %.1f on the log axis: the choice does nothing", linear, log)
	}
}

func TestPageSortsAndFilters(t *testing.T) {
	b := open(t, reporttest.Survey(), desktop)
	column := func(name string) string {
		return fmt.Sprintf(`[...document.querySelectorAll(".raw th button")].find((b) => b.textContent === %q)`, name)
	}
	click := func(name string) { b.run(chromedp.Evaluate(column(name)+".click()", nil)) }
	ns := `[...document.querySelectorAll(".raw tbody tr")].map((r) => Number(r.cells[3].textContent))`
	click("n")
	up := eval[[]int](b, ns)
	click("n")
	down := eval[[]int](b, ns)
	for i := 1; i < len(up); i++ {
		if up[i] < up[i-1] || down[i] > down[i-1] {
			t.Fatalf("not sorted at %d: up %v, down %v", i, up, down)
		}
	}
	if up[0] == down[0] {
		t.Fatalf("both directions begin with %d", up[0])
	}
	if got := eval[string](b, column("n")+`.parentElement.getAttribute("aria-sort")`); got != "descending" {
		t.Errorf("aria-sort is %q", got)
	}
	b.run(chromedp.SendKeys(`.raw input[type=search]`, "runsc ready slower", chromedp.ByQuery))
	if got := b.count(".raw tbody tr"); got != 1 {
		t.Errorf("the filter leaves %d rows, want 1", got)
	}
}

func TestPageChoosesMetric(t *testing.T) {
	b := open(t, reporttest.Survey(), desktop)
	first := `document.querySelector(".distribution svg").getAttribute("aria-label")`
	before := eval[string](b, first)
	b.run(chromedp.Evaluate(`{ const s = document.querySelector(".distribution select"); s.selectedIndex = 4; s.dispatchEvent(new Event("change")); }`, nil))
	if after := eval[string](b, first); after == before || !strings.Contains(after, "peak-memory") {
		t.Errorf("choosing a metric turns %q into %q", before, after)
	}
	b.clean()
}

func TestPageDark(t *testing.T) {
	dark := desktop
	dark.dark = true
	b := open(t, reporttest.Survey(), dark)
	b.shoot("survey-dark")
	paper := `getComputedStyle(document.body).backgroundColor`
	if got := eval[string](b, paper); got != "rgb(20, 23, 27)" {
		t.Errorf("the dark page is %s", got)
	}
	b.run(chromedp.Click("button.theme", chromedp.ByQuery))
	if got := eval[string](b, paper); got != "rgb(255, 255, 255)" {
		t.Errorf("after the switch to light the page is %s", got)
	}
	b.clean()
}

func TestPageContrast(t *testing.T) {
	for _, dark := range []bool{false, true} {
		v := desktop
		v.dark = dark
		b := open(t, reporttest.Survey(), v)
		// WCAG 2.1, 1.4.3: at least 4.5 to 1 between text and paper.
		low := eval[[]string](b, `(() => {
			const light = (c) => { const [r, g, b] = c.match(/\d+/g).map((v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
			const probe = document.body.appendChild(document.createElement("i"));
			const resolve = (name) => { probe.style.color = "var(--" + name + ")"; return light(getComputedStyle(probe).color); };
			const papers = [resolve("paper"), resolve("panel")];
			return ["ink", "muted", "link", "cost", "gain", "differs", "equivalent", "inconclusive", "refused"].flatMap((name) =>
				papers.map((p) => { const c = resolve(name); return (Math.max(p, c) + 0.05) / (Math.min(p, c) + 0.05); }).filter((r) => r < 4.5).map((r) => name + " " + r.toFixed(2)));
		})()`)
		if len(low) > 0 {
			t.Errorf("dark=%t: too little contrast: %q", dark, low)
		}
	}
}

func TestPageFitsAPhone(t *testing.T) {
	phone := view{width: 360, height: 740}
	for name, in := range map[string]report.Input{"survey": reporttest.Survey(), "ladder": reporttest.Ladder(), "hostile": reporttest.Hostile()} {
		t.Run(name, func(t *testing.T) {
			b := open(t, in, phone)
			b.shoot(name + "-phone")
			if got := eval[int](b, "document.documentElement.scrollWidth"); got > 360 {
				t.Errorf("the page is %d px wide on a screen of 360", got)
			}
			if got := eval[float64](b, `Math.min(...[...document.querySelectorAll(".forest td.chart svg")].map((s) => s.getBoundingClientRect().width))`); got < 90 {
				t.Errorf("the narrowest chart is %.0f px wide", got)
			}
			b.clean()
		})
	}
}

func TestPageFitsEveryWidth(t *testing.T) {
	b := open(t, reporttest.Survey(), desktop)
	for _, width := range []int64{320, 360, 480, 640, 673, 700, 768, 961, 1024, 1600} {
		b.run(chromedp.EmulateViewport(width, 800), chromedp.Sleep(100*time.Millisecond))
		if got := eval[int64](b, "document.documentElement.scrollWidth"); got > width {
			t.Errorf("the page is %d px wide on a screen of %d", got, width)
		}
	}
	b.clean()
}

// wide is a survey of three times as many workloads, without what is only described.
func wide() report.Input {
	in := reporttest.Survey()
	in.Claims.Tables = nil
	for _, name := range []string{"", "-again", "-once-more"} {
		for _, t := range reporttest.Survey().Claims.Tables {
			if t.Group += name; t.Primary {
				in.Claims.Tables = append(in.Claims.Tables, t)
			}
		}
	}
	return in
}

// On a tree before this test, the price list of a dozen workloads was cut at the paper's
// edge.
func TestPagePrints(t *testing.T) {
	b := open(t, wide(), desktop)
	var pdf []byte
	b.run(chromedp.ActionFunc(func(ctx context.Context) error {
		data, _, err := page.PrintToPDF().WithPrintBackground(true).WithPaperWidth(8.27).WithPaperHeight(11.69).Do(ctx)
		pdf = data
		return err
	}))
	if !bytes.HasPrefix(pdf, []byte("%PDF")) {
		t.Fatalf("no PDF: %.20q", pdf)
	}
	if *shots != "" {
		if err := os.WriteFile(filepath.Join(*shots, "survey.pdf"), pdf, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if pages := len(regexp.MustCompile(`/Type\s*/Page\b`).FindAll(pdf, -1)); pages < 2 || pages > 6 {
		t.Errorf("a survey of a dozen workloads is printed on %d pages, want at most 6", pages)
	}
	if eval[bool](b, `document.documentElement.classList.contains("printing")`) {
		t.Error("the page stays as it was printed")
	}
	// A4 less the default margins is about 700 px wide: nothing may be cut off.
	b.run(chromedp.EmulateViewport(700, 1000), emulation.SetEmulatedMedia().WithMedia("print"),
		chromedp.Evaluate(`dispatchEvent(new Event("beforeprint"))`, nil), chromedp.Sleep(150*time.Millisecond))
	b.shoot("survey-print")
	if got := eval[[]string](b, `[...document.querySelectorAll("table.glance, table.costs, table.forest")].filter((e) => e.getBoundingClientRect().right > 700).map((e) => e.className)`); len(got) > 0 {
		t.Errorf("tables reach beyond the paper: %q", got)
	}
	if got := eval[int](b, "document.documentElement.scrollWidth"); got > 700 {
		t.Errorf("the page is %d px wide on paper of 700", got)
	}
	if got := eval[int](b, `[...document.querySelectorAll("nav, .controls, button.theme")].filter((e) => e.offsetParent !== null).length`); got != 0 {
		t.Errorf("%d controls are printed", got)
	}
	b.clean()
}

// A seed has 64 bits, more than a number of JavaScript holds: it was printed rounded.
// TestPageAddress: a filter, an order and a metric are in the address, which gives the same
// page to who opens it; a link within the page keeps them.
func TestPageAddress(t *testing.T) {
	b := open(t, reporttest.Survey(), desktop)
	b.run(chromedp.SendKeys(`.raw input[type=search]`, "runsc ready", chromedp.ByQuery),
		chromedp.Evaluate(`[...document.querySelectorAll(".raw th button")].find((b) => b.textContent === "n").click()`, nil),
		chromedp.Evaluate(`{ const s = document.querySelector(".distribution select"); s.selectedIndex = 4; s.dispatchEvent(new Event("change")); }`, nil),
		chromedp.Evaluate(`document.querySelector("nav a[href='#numbers']").click()`, nil), chromedp.Sleep(100*time.Millisecond))
	state := `JSON.stringify([document.querySelectorAll(".raw tbody tr").length, document.querySelector(".raw input").value,
		document.querySelector(".raw [aria-sort]")?.textContent, document.querySelector(".distribution select").value, location.hash])`
	left := eval[string](b, state)
	if !strings.Contains(left, "#numbers&") || !strings.Contains(left, "runsc ready") || !strings.Contains(left, "peak-memory") || !strings.Contains(left, `"n"`) {
		t.Fatalf("the address and the page are %s", left)
	}
	b.run(chromedp.Reload(), chromedp.WaitReady(`html[data-ready="true"]`, chromedp.ByQuery), chromedp.Sleep(150*time.Millisecond))
	if opened := eval[string](b, state); opened != left {
		t.Errorf("opened again it is %s, was %s", opened, left)
	}
	if top := eval[float64](b, `document.getElementById("numbers").getBoundingClientRect().top`); top < -5 || top > 800 { // the page ends below it
		t.Errorf("the address names a part that begins at %.0f px", top)
	}
	b.run(chromedp.Evaluate(`location.hash = "#numbers&filter=crun"`, nil), chromedp.Sleep(100*time.Millisecond))
	if got := eval[string](b, `document.querySelector(".raw input").value`); got != "crun" {
		t.Errorf("another address leaves the filter at %q", got)
	}
}

// TestPageExports takes each table as CSV and a chart as SVG and PNG, without a request.
func TestPageExports(t *testing.T) {
	in := reporttest.Survey()
	b := open(t, in, desktop)
	dir := t.TempDir()
	b.run(cdpbrowser.SetDownloadBehavior(cdpbrowser.SetDownloadBehaviorBehaviorAllow).WithDownloadPath(dir))
	if links := eval[[]string](b, `[...document.querySelectorAll(".tools a")].map((a) => a.getAttribute("href")).filter((href, i, all) => all.indexOf(href) !== i || !document.getElementById(href.slice(1)))`); len(links) > 0 {
		t.Errorf("links that are there twice or go nowhere: %q", links)
	}
	if got, want := b.count(`.tools button[aria-label^="CSV"]`), b.count("main table")-b.count("details table"); got < want {
		t.Errorf("%d tables have a CSV, want %d", got, want)
	}
	click := func(part, kind string) {
		b.run(chromedp.Evaluate(fmt.Sprintf(`[...document.querySelectorAll(%q)].find((e) => e.textContent === %q).click()`, part+" .tools button", kind), nil))
	}
	click("#numbers .raw", "CSV")
	click(".priced", "CSV")
	click(".priced", "SVG")
	click(".priced", "PNG")
	files := downloads(t, dir, 4)
	for name, c := range map[string]struct {
		begins string
		has    []string
	}{
		"all-numbers.csv": {"group,metric,target,n,", []string{"\r\nstart,ready,runc,", ",slower"}},
		"start-ready":     {"target,median ms,ratio,", []string{"runc,"}},
		".svg":            {"<svg", []string{`xmlns="http://www.w3.org/2000/svg"`, "rgb("}},
		".png":            {"\x89PNG", nil},
	} {
		var found []string
		for file, text := range files {
			if !strings.Contains(file, name) || name == "start-ready" && !strings.HasSuffix(file, ".csv") {
				continue
			}
			found = append(found, file)
			if !strings.HasPrefix(text, c.begins) || strings.Contains(text, "var(") {
				t.Errorf("%s begins with %.80q, want %q, and no variable of the page", file, text, c.begins)
			}
			for _, part := range c.has {
				if !strings.Contains(text, part) {
					t.Errorf("%s has no %q:\n%.600s", file, part, text)
				}
			}
		}
		if len(found) != 1 {
			t.Errorf("files with %s in their names: %q", name, found)
		}
	}
	if rows := strings.Count(files[fmt.Sprintf("tare-%s-all-numbers.csv", in.Manifest.ID)], "\r\n"); rows != b.count(".raw tbody tr")+1 {
		t.Errorf("%d lines of CSV for %d rows", rows, b.count(".raw tbody tr"))
	}
	b.clean()
}

// downloads waits for n whole files, and reads them.
func downloads(t *testing.T, dir string, n int) map[string]string {
	t.Helper()
	for range 100 {
		files := map[string]string{}
		names, err := filepath.Glob(filepath.Join(dir, "tare-*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			data, err := os.ReadFile(name)
			if err == nil && len(data) > 0 && !strings.HasSuffix(name, ".crdownload") {
				files[filepath.Base(name)] = string(data)
			}
		}
		if len(files) == n {
			return files
		}
		time.Sleep(100 * time.Millisecond)
	}
	names, _ := os.ReadDir(dir)
	t.Fatalf("after ten seconds the downloads are %v, want %d", names, n)
	return nil
}

func TestPageSeed(t *testing.T) {
	in := reporttest.Survey()
	in.Manifest.Seed = 12493459286626439675
	b := open(t, in, desktop)
	if got := eval[string](b, `document.getElementById("method").textContent`); !strings.Contains(got, "12493459286626439675") {
		t.Errorf("the method does not name the seed: %.300s", got)
	}
}

// What a mark says at the pointer is all there: lines are wrapped, not cut.
func TestPageTipsAreWhole(t *testing.T) {
	in := reporttest.Survey()
	why := strings.Repeat("a long reason, ", 12) + "whole"
	for i := range in.Claims.Tables[0].Rows {
		if e := in.Claims.Tables[0].Rows[i].Effect; e != nil {
			e.Why = why
		}
	}
	b := open(t, in, desktop)
	b.run(chromedp.ScrollIntoView(".forest .m-ratio > *", chromedp.ByQuery), chromedp.Evaluate(`(() => {
		const r = document.querySelectorAll(".forest")[0].querySelectorAll(".m-ratio > *")[1].getBoundingClientRect();
		const svg = document.querySelector(".forest svg.plot");
		const at = { clientX: (r.left + r.right) / 2, clientY: (r.top + r.bottom) / 2, bubbles: true, pointerType: "mouse" };
		svg.dispatchEvent(new PointerEvent("pointerenter", at));
		svg.dispatchEvent(new PointerEvent("pointermove", at));
	})()`, nil), chromedp.Sleep(150*time.Millisecond))
	tip := eval[string](b, `[...document.querySelectorAll('.forest svg [aria-label="tip"]')].map((e) => e.textContent).join(" ")`)
	if !strings.Contains(tip, "whole") {
		t.Errorf("the tip says %q", tip)
	}
}

// What a mark says is there without a pointer, too.
func TestPageTipsByKeyboard(t *testing.T) {
	b := open(t, reporttest.Survey(), desktop)
	charts := b.count("svg.plot")
	if got := eval[int](b, `[...document.querySelectorAll("svg.plot")].filter((s) => s.tabIndex === 0).length`); charts == 0 || got != charts {
		t.Fatalf("%d of %d charts take the focus", got, charts)
	}
	says := func(keys ...string) string {
		b.run(chromedp.Focus(".forest svg.plot", chromedp.ByQuery))
		for _, k := range keys {
			b.run(chromedp.KeyEvent(k))
		}
		b.run(chromedp.Sleep(150 * time.Millisecond))
		return eval[string](b, `[...document.querySelector(".forest svg.plot").querySelectorAll('[aria-label="tip"]')].map((e) => e.textContent).join("")`)
	}
	first, second := says(kb.Home), says(kb.ArrowDown)
	if first == "" || second == "" || first == second {
		t.Errorf("the first mark says %q, the second %q", first, second)
	}
	if got := says(kb.Escape); got != "" {
		t.Errorf("behind Escape the chart says %q", got)
	}
}

// visible is what the page makes of the characters that Hostile uses.
func visible(s string) string {
	return strings.NewReplacer("\u2028", `\u2028`, "\u202e", `\u202e`, "\x1b", `\u001b`, "\x00", `\u0000`).Replace(s)
}

func TestPageHostileTextsStayText(t *testing.T) {
	in := reporttest.Hostile()
	html := render(t, in)
	data := html[bytes.Index(html, []byte(`id="tare-data">`))+len(`id="tare-data">`):]
	data = data[:bytes.Index(data, []byte("</script>"))]
	for _, bad := range []string{"<", ">", "\u2028"} {
		if bytes.Contains(data, []byte(bad)) {
			t.Errorf("the data holds a raw %q", bad)
		}
	}
	b := open(t, in, desktop)
	b.shoot("hostile-light")
	b.clean()
	if got := eval[string](b, `String(window.hacked)`); got != "undefined" {
		t.Errorf("a hostile text ran: window.hacked = %s", got)
	}
	if got := b.count("main script, main img"); got != 0 {
		t.Errorf("%d elements came out of texts", got)
	}
	if got := eval[string](b, `document.querySelector("h1").textContent`); got != visible(in.Manifest.Study.Title) {
		t.Errorf("the title reads %q, want %q", got, visible(in.Manifest.Study.Title))
	}
	// The policy itself: a script that is added later must not run either.
	b.run(chromedp.Evaluate(`{ const s = document.createElement("script"); s.textContent = "window.hacked = 3"; document.body.append(s); }`, nil))
	if got := eval[string](b, `String(window.hacked)`); got != "undefined" {
		t.Errorf("the content security policy lets a script in: window.hacked = %s", got)
	}
}

func TestPageLargeRun(t *testing.T) {
	in := reporttest.Large(100_000)
	b := open(t, in, desktop)
	b.shoot("large-light")
	b.clean()
	if got := b.count(`.distribution .m-density path`); got != 7 {
		t.Errorf("%d densities, want 7", got)
	}
	if note := eval[string](b, `document.querySelector(".distribution .note").textContent`); !strings.Contains(note, "too many") {
		t.Errorf("the page does not say that it shows densities: %q", note)
	}
}

func TestPageComparesRuns(t *testing.T) {
	b := open(t, compared(), desktop)
	b.clean()
	if got := b.count("#compared tbody tr"); got != 1 {
		t.Errorf("%d rows compare the runs, want 1", got)
	}
	b = open(t, reporttest.Compared(), desktop)
	b.clean()
	text := eval[string](b, `[...document.querySelectorAll("#left-out, #machine")].map((e) => e.innerText.replace(/\s+/g, " ")).join(" ")`)
	for _, want := range []string{"B: sysbox sysbox-runc is not installed", "runc A 1.1.5", "runc B 1.3.0", "crun all 1.8.1"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page does not say %q:\n%s", want, text)
		}
	}
	if got := eval[string](b, `document.querySelector("#machine details").textContent.replace(/\s+/g, " ")`); !strings.Contains(got, "A: meltdownNot affectedB: meltdownMitigation: PTIspectre_v2") {
		t.Errorf("mitigations: %q", got)
	}
}

func TestPageKeyboard(t *testing.T) {
	b := open(t, reporttest.Survey(), desktop)
	unreachable := eval[int](b, `[...document.querySelectorAll(".scroll, .raw th button, select, input, a")].filter((e) => e.tabIndex < 0).length`)
	if unreachable != 0 {
		t.Errorf("%d controls or scrolling parts cannot be reached by keyboard", unreachable)
	}
	unnamed := eval[int](b, `[...document.querySelectorAll("svg.plot")].filter((s) => !s.getAttribute("aria-label")).length`)
	if unnamed != 0 {
		t.Errorf("%d charts have no name", unnamed)
	}
}
