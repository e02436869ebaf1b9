package report

import (
	"bytes"
	"encoding/csv"
	"testing"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/store"
)

// What was asked of virtual machines stands among the facts of a run, where something
// was.
func TestGuestsAreAFact(t *testing.T) {
	for want, guest := range map[string]*driver.Guest{"": nil, "none": {}, "asked of virtual machines: memory 1GiB, root as a disk": {Memory: 1 << 30, Disk: true}} {
		got := map[string]string{}
		for _, f := range facts(Input{Manifest: store.Manifest{Guest: guest}}) {
			got[f.Name] = f.Value
		}
		if asked, ok := got["guests"]; ok != (guest != nil && guest.Memory > 0) || ok && asked != want {
			t.Errorf("%v is told as %q", guest, asked)
		}
	}
}

// Each line of a virtual machine says in the CSV what ran its CPU.
func TestCSVTellsAcceleration(t *testing.T) {
	table := analysis.Table{Rows: []analysis.Row{{Cell: "host/boot"}, {Cell: "qemu/q35/boot", Accel: "tcg"}}}
	var out bytes.Buffer
	if err := CSV(&out, Input{Claims: analysis.Claims{Tables: []analysis.Table{table}}}); err != nil {
		t.Fatal(err)
	}
	lines, err := csv.NewReader(&out).ReadAll()
	if err != nil || len(lines) != 3 {
		t.Fatalf("%q: %v", lines, err)
	}
	for i, want := range []string{"accel", "", "tcg"} {
		if got := lines[i][len(lines[i])-1]; got != want {
			t.Errorf("line %d ends with %q, want %q", i, got, want)
		}
	}
}
