package quantity

import (
	"math"
	"testing"

	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/stats"
)

func interval(low, high float64) stats.Interval {
	return stats.Interval{Low: low, High: high, Level: 0.95, Method: "BCa"}
}

func TestShowCutsDigitsByDoubt(t *testing.T) {
	none := stats.Interval{Method: "none"}
	cases := []struct {
		unit   sample.Unit
		value  float64
		i      stats.Interval
		want   Shown
		suffix string
	}{
		{sample.Seconds, 0.0203, interval(0.0198, 0.0208), Shown{"20.30", "19.80", "20.80"}, "ms"},
		{sample.Seconds, 0.0203, interval(0.015, 0.025), Shown{"20.3", "15.0", "25.0"}, "ms"},
		{sample.Seconds, 123.456, interval(90, 150), Shown{"123", "90", "150"}, "s"},
		{sample.Seconds, 55.123e-6, interval(55.1e-6, 55.2e-6), Shown{"55.123", "55.100", "55.200"}, "µs"},
		{sample.Seconds, 0.0203, none, Shown{Value: "20.3"}, "ms"},
		{sample.Count, 12, interval(12, 12), Shown{"12", "12", "12"}, ""},
		{sample.Count, 12.5, interval(12.5, 12.5), Shown{"12.5", "12.5", "12.5"}, ""},
		{sample.Count, 99999, none, Shown{Value: "99999"}, ""},
		{sample.Bytes, 1 << 20, interval(1<<20, 1<<20), Shown{"1", "1", "1"}, "MiB"},
		{sample.Count, 0, interval(0, 0), Shown{"0", "0", "0"}, ""},
		{sample.Seconds, -0.00004, interval(-0.001, 0.0009), Shown{"-40", "-1000", "900"}, "µs"}, // a value keeps its first digit
		{sample.Seconds, math.NaN(), none, Shown{Value: Missing}, "ns"},
		{sample.Seconds, math.Inf(1), none, Shown{Value: Missing}, "ns"},
		{"furlong", 3, interval(2, 4), Shown{"3.0", "2.0", "4.0"}, "furlong"},
	}
	for _, c := range cases {
		s := ScaleFor(c.unit, []float64{c.value})
		if got := s.Show(c.value, c.i); got != c.want || s.Unit != c.suffix {
			t.Errorf("%v %v %v: got %+v %s, want %+v %s", c.unit, c.value, c.i, got, s.Unit, c.want, c.suffix)
		}
	}
}

func TestARatioIsNeverShownAsZero(t *testing.T) {
	for _, c := range []struct {
		value float64
		i     stats.Interval
		want  Shown
	}{
		{1.2, interval(0.4, 3.3), Shown{"1.2", "0.4", "3.3"}},
		{1.2, interval(0.97, 3.3), Shown{"1.2", "1.0", "3.3"}},
		{1.6, interval(1.07, 3.3), Shown{"1.6", "1.1", "3.3"}}, // no change is excluded, and is not printed
		{0.4, interval(0.17, 0.996), Shown{"0.40", "0.17", "0.996"}},
		{20, interval(3, 60), Shown{"20", "3", "60"}},
		{5, interval(0.807, 33.9), Shown{"5", "0.8", "34"}},
		{0.04, interval(0.0031, 0.09), Shown{"0.040", "0.003", "0.090"}},
		{1.02, interval(1.01, 1.03), Shown{"1.020", "1.010", "1.030"}},
		{1.2, stats.Interval{Method: "none"}, Shown{Value: "1.20"}},
		{0, interval(0, 0), Shown{"0", "0", "0"}}, // a cell whose values are all zero
	} {
		if got := Ratio(c.value, c.i); got != c.want {
			t.Errorf("%v in [%v, %v]: got %+v, want %+v", c.value, c.i.Low, c.i.High, got, c.want)
		}
	}
}

func TestScaleIsOneForAColumn(t *testing.T) {
	cases := []struct {
		unit   sample.Unit
		values []float64
		want   string
	}{
		{sample.Seconds, []float64{55e-6, 7e-3, 20e-3, 124e-3}, "ms"},
		{sample.Seconds, []float64{1e-6, 7e-3, 1}, "µs"}, // 0.001 ms would hide the smallest
		{sample.Seconds, []float64{0, 2e-3, math.NaN()}, "ms"},
		{sample.Seconds, nil, "ns"},
		{sample.BitsPerSecond, []float64{14e9, 18e9}, "Gbit/s"},
		{sample.BytesPerSecond, []float64{3 << 20}, "MiB/s"},
		{sample.PerSecond, []float64{2214}, "/s"},
		{sample.PerSecond, []float64{2.3e6}, "k/s"},
	}
	for _, c := range cases {
		if got := ScaleFor(c.unit, c.values).Unit; got != c.want {
			t.Errorf("%v of %v: got %q, want %q", c.unit, c.values, got, c.want)
		}
	}
}

func TestPercent(t *testing.T) {
	for v, want := range map[float64]string{0.02: "2 %", 0.0381: "3.8 %", 0.95: "95 %", 0.00123: "0.12 %", 1.5: "150 %", 0: "0 %"} {
		if got := Percent(v); got != want {
			t.Errorf("percent(%v) = %q, want %q", v, got, want)
		}
	}
}
