package stats

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// MethodPrediction names Student's t interval of one more value.
const MethodPrediction = "Student t, next value"

// MethodVariance names the interval of a standard deviation between machines.
const MethodVariance = "chi-squared, less the variance within"

// MinimumMachines is the number of machines below which no mean is given: at three the
// mean's interval is already 2.5 standard deviations of a machine to either side.
const MinimumMachines = 3

// Machines is what the values of several machines tell of all machines like them. The
// machine is the unit: machines are not weighted, since weights that are estimated from a
// machine's few blocks cost more than they bring (docs/fleet.md has the simulation).
type Machines struct {
	K       int      `json:"machines"`
	Scatter float64  `json:"scatter"` // standard deviation of the values
	Mean    Estimate `json:"mean"`    // Student's t interval
	// Next is where the value of one more machine lies, at 95 %; Next90 at 90 %.
	Next   Interval `json:"next"`
	Next90 Interval `json:"next90"`
	// Median of the machines with its exact interval, from six machines on.
	Median *Estimate `json:"median,omitempty"`
	// Range is from the smallest to the largest value; its level is that of one more
	// machine within it, whatever the distribution.
	Range Interval `json:"range"`
	// Between is the scatter of machines beyond what their own intervals explain, as a
	// standard deviation; Within is the scatter of one machine's value about its truth.
	Between Estimate `json:"between"`
	Within  float64  `json:"within"`
}

// OverMachines analyses one value per machine, each with the standard error that its own
// run gives. Below MinimumMachines ok is false.
func OverMachines(values, errors []float64) (m Machines, ok bool) {
	k := len(values)
	if k < MinimumMachines {
		return Machines{K: k}, false
	}
	n := float64(k)
	mean, sd := stat.MeanStdDev(values, nil)
	student := distuv.StudentsT{Sigma: 1, Nu: n - 1}
	about := func(half, level float64, method string) Interval {
		return Interval{Low: mean - half, High: mean + half, Level: level, Method: method}
	}
	next := sd * math.Sqrt(1+1/n)
	m = Machines{
		K: k, Scatter: sd,
		Mean:   Estimate{Value: mean, Interval: about(student.Quantile(0.975)*sd/math.Sqrt(n), 0.95, MethodStudent)},
		Next:   about(student.Quantile(0.975)*next, 0.95, MethodPrediction),
		Next90: about(student.Quantile(0.95)*next, 0.90, MethodPrediction),
		Range:  Interval{Low: slices.Min(values), High: slices.Max(values), Level: (n - 1) / (n + 1), Method: MethodRange},
	}
	if k >= MinimumBlocks {
		ascending := Sorted(values)
		m.Median = &Estimate{Value: Median(ascending), Interval: orderInterval(ascending, 0.95)}
	}
	m.Between, m.Within = between(sd, n, errors)
	return m, true
}

// between takes the machines' own scatter out of that of their values. Its interval joins
// that of the values' variance (chi-squared) and that of the mean variance within, by how
// that varies over machines (Zou and Donner, Statistics in Medicine 27, 2008), and does not
// reach below 0.
func between(sd, n float64, errors []float64) (between Estimate, within float64) {
	squares := Mapped(errors, func(e float64) float64 { return e * e })
	own, spread := stat.MeanStdDev(squares, nil)
	doubt := 1.96 * spread / math.Sqrt(n)
	all, chi := sd*sd, distuv.ChiSquared{K: n - 1}
	low, high := (n-1)*all/chi.Quantile(0.975), (n-1)*all/chi.Quantile(0.025)
	root := func(v float64) float64 { return math.Sqrt(max(0, v)) }
	return Estimate{Value: root(all - own), Interval: Interval{
		Low: root(all - own - math.Hypot(all-low, doubt)), High: root(all - own + math.Hypot(high-all, doubt)), Level: 0.95, Method: MethodVariance,
	}}, math.Sqrt(own)
}

// Unlike are the machines that the others do not foresee.
type Unlike struct {
	Machine int     `json:"machine"` // by its place among the values
	P       float64 `json:"p"`       // after Holm
	Score   float64 `json:"score"`   // distance to the others' mean in standard deviations of a prediction
}

// LeaveOneOut predicts each machine by all others and gives every machine's score; p is
// corrected by Holm over the machines. It takes four machines. Where the others agree
// exactly, any other value is infinitely far; scores are bounded so that they stay JSON.
func LeaveOneOut(values []float64) []Unlike {
	k := len(values)
	if k < MinimumMachines+1 {
		return nil
	}
	n := float64(k - 1)
	student := distuv.StudentsT{Sigma: 1, Nu: n - 1}
	out := make([]Unlike, k)
	p := make([]float64, k)
	for i, v := range values {
		mean, sd := stat.MeanStdDev(slices.Delete(slices.Clone(values), i, i+1), nil)
		score := 0.
		if d := v - mean; d != 0 {
			score = min(max(d/(sd*math.Sqrt(1+1/n)), -farthest), farthest)
		}
		out[i] = Unlike{Machine: i, Score: score}
		p[i] = 2 * student.CDF(-math.Abs(score))
	}
	for i, v := range Holm(p) {
		out[i].P = v
	}
	return out
}

// farthest bounds a score.
const farthest = 1e6

// Groups is the difference of two groups of machines' means, with Welch's interval and p.
func Groups(a, b []float64) (difference Estimate, p float64) {
	ma, va := stat.MeanVariance(a, nil)
	mb, vb := stat.MeanVariance(b, nil)
	va, vb = va/float64(len(a)), vb/float64(len(b))
	difference = Estimate{Value: mb - ma, Interval: None(mb - ma)}
	if len(a) < 2 || len(b) < 2 {
		return difference, 1
	}
	se := math.Sqrt(va + vb)
	if se == 0 {
		difference.Interval = Interval{Low: mb - ma, High: mb - ma, Level: 0.95, Method: MethodWelch}
		return difference, map[bool]float64{true: 1}[ma == mb]
	}
	nu := (va + vb) * (va + vb) / (va*va/float64(len(a)-1) + vb*vb/float64(len(b)-1))
	student := distuv.StudentsT{Sigma: 1, Nu: nu}
	half := student.Quantile(0.975) * se
	difference.Interval = Interval{Low: difference.Value - half, High: difference.Value + half, Level: 0.95, Method: MethodWelch}
	return difference, 2 * student.CDF(-math.Abs(difference.Value)/se)
}

// MachinesFor is how many machines would make the mean's interval at most so wide to
// either side, given the scatter of those that are there; 0 where even 1,000 would not.
func MachinesFor(sd, half float64) int {
	for k := MinimumMachines; k <= 1000; k++ {
		if (distuv.StudentsT{Sigma: 1, Nu: float64(k - 1)}).Quantile(0.975)*sd/math.Sqrt(float64(k)) <= half {
			return k
		}
	}
	return 0
}
