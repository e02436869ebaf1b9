package report

import (
	"strings"
	"testing"

	"github.com/tarelab/tare/internal/analysis"
)

// The legend says which Whetstone is in the index, and how to run the other.
func TestIndexNamesTheWhetstone(t *testing.T) {
	for variant, want := range map[string]string{
		analysis.WhetstoneKept: "lets the compiler remove part of the work. To run that, copy a study",
		"as-compiled":          "Whetstone is of the variant as-compiled: as in UnixBench, the compiler may remove part of the work",
	} {
		if s := indexSection(&analysis.UnixIndexClaims{Whetstone: variant}); !strings.Contains(s.Note, want) {
			t.Errorf("%s: %s", variant, s.Note)
		}
	}
	if s := indexSection(&analysis.UnixIndexClaims{}); strings.Contains(s.Note, "variant") || s.Note != indexLegend {
		t.Errorf("without whetstone: %q", s.Note)
	}
}
