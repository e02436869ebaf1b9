package containervmtrim

import (
	"slices"
	"testing"

	"github.com/tarelab/tare/internal/finding"
	"github.com/tarelab/tare/internal/kerneltools/bootstudy"
)

// All boots have the same parts of the kernel in the same order; units and processes
// stand in the order of their start, and times count from the request.
func TestTimelines(t *testing.T) {
	steps := []bootstudy.Step{{At: 2, Took: 1.5, Line: "PCI: end", Part: "PCI"}, {At: 1, Took: 1, Line: "ACPI: end", Part: "ACPI"}}
	c := &description{Description: &bootstudy.Description{Profiles: []bootstudy.Profile{
		{Target: "a", Began: 1, End: 5, Steps: steps, Marks: []bootstudy.Mark{{Name: "agent", At: 9}},
			Units:     []bootstudy.Unit{{Name: "late", Start: 3, Active: 4}, {Name: "early", Start: 1, Active: 2, Failed: true}, {Name: "point", Start: 2, Active: 2}},
			Processes: []bootstudy.Process{{PID: 341, Parent: 1, Name: "dockerd", Start: 4, End: 8, CPU: 3}}},
		{Target: "b", End: 5, Steps: steps[:1]},
	}}}
	rows := timelines(c)[0].Timeline.Rows
	names := func(lanes []finding.Lane) (out []string) {
		for _, l := range lanes {
			out = append(out, l.Name)
		}
		return out
	}
	if got := names(rows[0].Lanes); !slices.Equal(got, []string{"PCI", "ACPI", "early", "late", "dockerd [341]"}) || rows[0].End != 9 {
		t.Errorf("lanes of a %q until %v", got, rows[0].End)
	}
	if got := names(rows[1].Lanes); !slices.Equal(got, []string{"PCI"}) || rows[1].End != 5 {
		t.Errorf("lanes of b %q until %v", got, rows[1].End)
	}
	if s := rows[0].Lanes[0].Stretches[0]; s.From != 1.5 || s.To != 3 {
		t.Errorf("%+v, want from 1.5 s to 3 s", s)
	}
	if early, docker := rows[0].Lanes[2].Stretches[0], rows[0].Lanes[4].Stretches[0]; !early.Failed || docker.Share != 0.75 {
		t.Errorf("%+v, %+v", early, docker)
	}
}

// Initcalls of one symbol share a frame; boots of one kernel share a graph.
func TestCosts(t *testing.T) {
	calls := []bootstudy.Call{{Name: "one", Part: "PCI", Symbol: "PCI_MSI", Own: 2}, {Name: "two", Part: "PCI", Symbol: "PCI_MSI", Own: 1}, {Name: "three", Part: "RTC", Own: 1}}
	c := &description{Description: &bootstudy.Description{Profiles: []bootstudy.Profile{{Target: "a", Calls: calls}, {Target: "b", Calls: calls}, {Target: "c"}}}}
	all := costFigures(c)
	if len(all) != 1 {
		t.Fatalf("%d flame graphs, want one", len(all))
	}
	f := all[0].Flame.Frame
	if f.Value != 4 || len(f.Children) != 2 || f.Children[0].Value != 3 || len(f.Children[0].Children[0].Children) != 2 || f.Children[1].Children[0].Name != "three" {
		t.Errorf("%+v", f)
	}
}
