package lab

import (
	"slices"
	"testing"

	"github.com/tarelab/tare/internal/sample"
)

// The n-th start is the last one's, whatever the others took.
func TestReadyOfTheLast(t *testing.T) {
	values, _ := heldTogether(0, 1, map[string][]float64{sample.Ready: {0.3, 0.1, 0.2}})
	i := slices.IndexFunc(values, func(v sample.Value) bool { return v.Metric == sample.ReadyLast })
	if i < 0 || values[i].Value != 0.2 {
		t.Errorf("%+v", values)
	}
}
