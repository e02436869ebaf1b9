package bridgenetwork

import (
	"testing"

	"github.com/tarelab/tare/internal/experiment"
	"github.com/tarelab/tare/internal/experiment/experimenttest"
	"github.com/tarelab/tare/internal/store"
	"github.com/tarelab/tare/internal/study"
	"github.com/tarelab/tare/published"
)

// The recorded run is of ten blocks on a busy machine: 2 and 20 containers on a bridge
// and over VXLAN, both ends apart and on one CPU. Its records hold six metrics alone.
func TestReports(t *testing.T) {
	experimenttest.Reports(t, experiment.List{Experiment()})
}

func publication(t *testing.T) *source {
	t.Helper()
	d, err := published.Read(name, publishedFile, new(source))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// One number of each part, so that a part that is silently not read shows.
func TestNumbersArrive(t *testing.T) {
	d := publication(t)
	if d.Scaling.Loss.Percent != 0.004 || d.Throughput.CrossContainer != 39.16 || d.Host.MemoryGB != 8 || d.Scaling.Containers == "" {
		t.Errorf("%+v", d)
	}
}

// Both studies name the publication, and so may a user's.
func TestApplies(t *testing.T) {
	for _, id := range []string{name, ladder} {
		text, err := experiment.List{Experiment()}.StudyText(id)
		if err != nil {
			t.Fatal(err)
		}
		s, err := study.Parse(id+".yaml", text)
		if err != nil {
			t.Fatal(err)
		}
		s.ID = "copied"
		if !applies(store.Manifest{Study: s}) {
			t.Errorf("%s: not its own", id)
		}
	}
	if applies(store.Manifest{Study: study.Study{ID: name}}) {
		t.Error("a study that names no publication was read")
	}
}
