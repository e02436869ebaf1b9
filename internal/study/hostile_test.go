package study

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tarelab/tare/internal/limit"
)

// Thousands of problems in one long line take memory for the line's beginning alone.
func TestManyProblemsInOneLine(t *testing.T) {
	var b strings.Builder
	b.WriteString("id: demo\nworkloads: [{kind: start}]\nvariants: {quick: {blocks: 7}}\ntargets: [")
	for i := range 8000 {
		fmt.Fprintf(&b, "t%d,", i)
	}
	b.WriteString("]\n")
	s, err := Parse("demo.yaml", []byte(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	if over := limit.Study.CheckAlloc(func() { err = s.Validate(known) }); over != nil {
		t.Error(over)
	}
	if err == nil || !strings.Contains(err.Error(), "and 7980 more problems") {
		t.Errorf("%.300v", err)
	}
}
