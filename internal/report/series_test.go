package report_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/report"
)

// seriesReport is the JSON and the text of a run that watched containers.
func seriesReport(t *testing.T, c *analysis.SeriesClaims) (sections []struct {
	ID      string
	Figures []struct {
		Title  string
		Beside bool
		Lines  []struct{ Points []struct{ X, Y float64 } }
	}
}, text string) {
	t.Helper()
	in := report.Input{Claims: analysis.Claims{Series: c}}
	var page, words bytes.Buffer
	if err := report.HTML(&page, in); errors.Is(err, report.ErrNoPage) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	if err := report.Text(&words, in, report.Options{}); err != nil {
		t.Fatal(err)
	}
	_, data, _ := strings.Cut(page.String(), `"sections":`)
	if err := json.NewDecoder(strings.NewReader(data)).Decode(&sections); err != nil {
		t.Fatal(err)
	}
	return sections, words.String()
}

// Each number has a row of figures, one a target, without what nobody accounts.
func TestSeriesFigures(t *testing.T) {
	points := []analysis.Usage{{At: 1, CPU: 0.25, Memory: 1e6, Load: 1, Read: -1, Written: -1, Received: 2e3, Sent: 3e3}, {At: 2, CPU: -1, Read: -1, Written: -1, Received: 0, Sent: 0}}
	c := &analysis.SeriesClaims{}
	for _, target := range []string{"host", "vm/stock"} {
		for _, name := range []string{"package", "agent"} {
			c.Curves = append(c.Curves, analysis.SeriesCurve{Target: target, ID: name, Container: name, Points: points})
		}
	}
	c.Peaks = []analysis.SeriesPeaks{{Target: "host", ID: "package", Container: "package", Trials: 3, Mean: points[0], Peak: points[0]}}
	sections, text := seriesReport(t, c)
	if len(sections) != 1 || sections[0].ID != "series" {
		t.Fatalf("sections %+v", sections)
	}
	var titles []string
	for _, f := range sections[0].Figures {
		titles = append(titles, f.Title)
		if f.Beside != strings.HasSuffix(f.Title, "vm/stock") || len(f.Lines) != 2 {
			t.Errorf("%s: beside %v, %d lines", f.Title, f.Beside, len(f.Lines))
		}
	}
	if want := "CPU: host, CPU: vm/stock, Load: host, Load: vm/stock, Memory: host, Memory: vm/stock, Received: host, Received: vm/stock, Sent: host, Sent: vm/stock"; strings.Join(titles, ", ") != want {
		t.Errorf("figures %q", titles)
	}
	if cpu := sections[0].Figures[0].Lines[0].Points; len(cpu) != 1 || cpu[0].X != 1 || cpu[0].Y != 25 {
		t.Errorf("CPU %+v", cpu)
	}
	if !strings.Contains(text, "host: package") || !strings.Contains(text, "3 trials") {
		t.Errorf("the text has no row of the container: %s", text)
	}
}

func TestSeriesOfNothing(t *testing.T) {
	sections, text := seriesReport(t, &analysis.SeriesClaims{})
	if len(sections) != 1 || len(sections[0].Figures) != 0 || !strings.Contains(text, "No container was running") {
		t.Errorf("%+v %s", sections, text)
	}
}
