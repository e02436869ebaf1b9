package leanimage

import (
	"strings"
	"testing"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/store"
	"github.com/tarelab/tare/internal/study"
)

// Images are compared where the programs are the same bits, page caches within an image.
func TestImagesAndCaches(t *testing.T) {
	levels := []study.Environment{
		{Name: "slim", Image: study.ImageWorkbench}, {Name: "full", Image: study.ImageHost},
		{Name: "full-cold", Image: study.ImageHost, PageCache: study.PageCacheCold},
	}
	in := analysis.Input{Metrics: map[string][]sample.Metric{}, Blocks: 12, Seed: 7}
	took := map[string]float64{"slim": 0.001, "full": 0.0015, "full-cold": 0.004}
	for _, w := range []string{"start", "other"} {
		in.Metrics[w] = sample.Describe(sample.Ready)
		for _, l := range levels {
			group := w + "+" + l.Name
			in.Cells = append(in.Cells, study.Cell{ID: "host/" + group, Target: "host", Workload: w, Group: group, Environment: l.Name, Limits: l, Copies: 1, Control: true})
		}
	}
	in.Data = analysis.NewData(in.Cells, 0)
	for block := range 12 {
		for i, c := range in.Cells {
			in.Data.Add(&sample.Record{Block: block, Cell: c.ID, Values: map[string][]float64{sample.Ready: {took[c.Environment] * (1 + 0.001*float64((block*7+i*3)%5))}}})
		}
	}
	images := map[string]store.LevelImage{
		"slim": {Programs: map[string]string{"other": "sha256:a"}}, "full": {Programs: map[string]string{"other": "sha256:b"}}, "full-cold": {Programs: map[string]string{"other": "sha256:b"}},
	}
	d := describe(in, analysis.Analyze(in).Tables, levels, images)
	if d.Lean != "slim" || len(d.Images) != 1 || d.Images[0].Workload != "start" || d.Images[0].Verdict != analysis.Slower {
		t.Errorf("images: %+v", d.Images)
	}
	if len(d.Caches) != 2 || d.Caches[0].Base != "full" || d.Caches[0].Verdict != analysis.Slower {
		t.Errorf("page caches: %+v", d.Caches)
	}
	if all := strings.Join(section(d).Findings, " "); !strings.Contains(all, "Slower by the image: start in host") || !strings.Contains(all, "The program of other is not the same") {
		t.Errorf("%s", all)
	}
}
