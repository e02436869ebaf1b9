package report

import (
	"math"

	"github.com/tarelab/tare/internal/sample"
)

// Quantity shows one number of a unit by itself, as "1.23 ms", with as many
// digits as a number of unknown doubt deserves.
func Quantity(value float64, unit sample.Unit) string {
	s := scaleFor(unit, []float64{value})
	v := value / s.Factor
	return withUnit(number(v, decimals(v, math.NaN())), s.Unit)
}
