package stats

import (
	"math"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// MethodWelch names Welch's t interval of a difference of means of logarithms
// (Welch, Biometrika 34, 1947). A side with one number counts as exact.
const MethodWelch = "Welch t on logarithms"

// MethodStudentLog names Student's t interval of a mean of logarithms. It
// assumes that the repetitions' logarithms are normal, which three repetitions
// cannot show; no interval without assumption exists below 6.
const MethodStudentLog = "Student t on logarithms"

// MethodStudent names Student's t interval of a mean.
const MethodStudent = "Student t"

// Welch is the interval of a ratio of means, from repetitions that are no pairs.
func Welch(ratio float64, x, y []float64) Interval {
	var variance, weight float64
	for _, side := range [][]float64{x, y} {
		n := float64(len(side))
		if n < 2 {
			continue
		}
		v := stat.Variance(Mapped(side, math.Log), nil) / n
		variance += v
		weight += v * v / (n - 1)
	}
	if len(x) < 2 && len(y) < 2 {
		return None(ratio)
	}
	half := 0.
	if variance > 0 {
		half = distuv.StudentsT{Sigma: 1, Nu: variance * variance / weight}.Quantile(0.975) * math.Sqrt(variance)
	}
	return Interval{Low: ratio * Ratio(-half), High: ratio * Ratio(half), Level: 0.95, Method: MethodWelch}
}

// Student is Student's 95 % interval about an estimate, from its repetitions.
func Student(at float64, values []float64) Interval {
	half, ok := studentHalf(values)
	if !ok {
		return None(at)
	}
	return Interval{Low: at - half, High: at + half, Level: 0.95, Method: MethodStudent}
}

// StudentLog is the same for an estimate above 0, from the logarithms.
func StudentLog(at float64, logs []float64) Interval {
	half, ok := studentHalf(logs)
	if !ok {
		return None(at)
	}
	return Interval{Low: at * Ratio(-half), High: at * Ratio(half), Level: 0.95, Method: MethodStudentLog}
}

func studentHalf(values []float64) (float64, bool) {
	n := float64(len(values))
	if n < 2 {
		return 0, false
	}
	return distuv.StudentsT{Sigma: 1, Nu: n - 1}.Quantile(0.975) * stat.StdDev(values, nil) / math.Sqrt(n), true
}

// Scaled multiplies both limits of an interval by a factor above 0.
func Scaled(i Interval, factor float64) Interval {
	i.Low, i.High = i.Low*factor, i.High*factor
	return i
}
