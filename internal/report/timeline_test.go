package report_test

import (
	"testing"

	"github.com/tarelab/tare/internal/finding"
	"github.com/tarelab/tare/internal/report/reporttest"
)

// A section's timeline and flame graph are drawn by their kind.
func TestPageTimeline(t *testing.T) {
	lanes := []finding.Lane{
		{Name: "PCI", Stretches: []finding.Stretch{{From: 0, To: 2, Share: 1, Tip: "PCI: end"}}},
		{Name: "dockerd [341]", Minor: true, Stretches: []finding.Stretch{{From: 4, To: 8, Share: 0.75, Tip: "3 s of CPU time"}}},
	}
	in := reporttest.Survey()
	in.Sections = []finding.Section{{ID: "boots", Title: "Boots", Figures: []finding.Figure{
		{Title: "One boot of each target", Timeline: &finding.Timeline{Rows: []finding.TimelineRow{
			{Name: "vm/stock", End: 9, Lanes: lanes, Marks: []finding.Mark{{Name: "agent", At: 9}}}, {Name: "vm/trimmed", End: 8, Lanes: lanes},
		}}},
		{Title: "Initcalls", Flame: &finding.Flame{Of: "vm/stock", Frame: finding.Frame{Name: "all", Value: 1, Children: []finding.Frame{{Name: "PCI", Value: 1}}}}},
	}}}
	b := open(t, in, desktop)
	b.shoot("timeline-light")
	b.clean()
	if n := b.count("#boots .timeline svg"); n != 2 {
		t.Errorf("%d rows are drawn, want 2", n)
	}
	if n := b.count("#boots .flame .frame"); n != 2 {
		t.Errorf("%d frames, want 2", n)
	}
	if n := b.count(`#boots .timeline rect[fill-opacity="0.7125"]`); n != 2 { // 0.15 + 0.75 of three quarters
		t.Errorf("the process is drawn %d times, want once a row", n)
	}
}
