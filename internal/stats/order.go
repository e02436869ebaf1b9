package stats

import (
	"math"
	"math/rand/v2"
	"slices"
)

// JointMedians draws m blocks with replacement, the same for every level, and
// hands out the levels' medians, b times.
func JointMedians(values [][]float64, m, b int, rng *rand.Rand, use func(medians []float64)) {
	picks := make([]int, m)
	scratch, drawn := make([]float64, m), make([]float64, len(values))
	for range b {
		for k := range picks {
			picks[k] = rng.IntN(len(values[0]))
		}
		for i := range values {
			for k, block := range picks {
				scratch[k] = values[i][block]
			}
			drawn[i] = selectMedian(scratch)
		}
		use(drawn)
	}
}

// selectMedian is the median of unordered numbers; it reorders them.
func selectMedian(x []float64) float64 {
	middle := len(x) / 2
	selectRank(x, middle)
	if len(x)%2 == 1 {
		return x[middle]
	}
	return (slices.Max(x[:middle]) + x[middle]) / 2
}

// selectRank puts the k-th smallest number at x[k], smaller ones before it and
// larger ones after it (Hoare's FIND, CACM 4, 1961).
func selectRank(x []float64, k int) {
	low, high := 0, len(x)-1
	for low < high {
		pivot := x[k]
		i, j := low, high
		for i <= j {
			for x[i] < pivot {
				i++
			}
			for x[j] > pivot {
				j--
			}
			if i <= j {
				x[i], x[j] = x[j], x[i]
				i++
				j--
			}
		}
		if j < k {
			low = i
		}
		if k < i {
			high = j
		}
	}
}

// radixFrom is the length from which sorting by digits beats comparing.
const radixFrom = 2048

// Sorted returns an ascending copy of x, which holds no NaN.
func Sorted(x []float64) []float64 {
	y := slices.Clone(x)
	if len(y) < radixFrom {
		slices.Sort(y)
		return y
	}
	return radixSort(y)
}

// radixSort sorts by 16-bit digits of the numbers' bits, least significant
// first: four linear passes, which keeps a report of a million records short.
// It reorders x and returns it.
func radixSort(x []float64) []float64 {
	keys, other := make([]uint64, len(x)), make([]uint64, len(x))
	for i, v := range x {
		keys[i] = orderedBits(v)
	}
	count := make([]int32, 1<<16)
	for shift := 0; shift < 64; shift += 16 {
		clear(count)
		for _, k := range keys {
			count[k>>shift&0xffff]++
		}
		at := int32(0)
		for digit, n := range count {
			count[digit] = at
			at += n
		}
		for _, k := range keys {
			digit := k >> shift & 0xffff
			other[count[digit]] = k
			count[digit]++
		}
		keys, other = other, keys
	}
	for i, k := range keys {
		x[i] = floatOf(k)
	}
	return x
}

// orderedBits maps a float to an integer of the same order: a negative number's
// bits are inverted, a positive one's sign bit is set.
func orderedBits(v float64) uint64 {
	b := math.Float64bits(v)
	if b>>63 == 1 {
		return ^b
	}
	return b | 1<<63
}

func floatOf(k uint64) float64 {
	if k>>63 == 1 {
		return math.Float64frombits(k &^ (1 << 63))
	}
	return math.Float64frombits(^k)
}

// Median of ascending numbers; at least one.
func Median(x []float64) float64 {
	m := len(x) / 2
	if len(x)%2 == 1 {
		return x[m]
	}
	return x[m-1] + (x[m]-x[m-1])/2
}

// Quantile interpolates between ascending numbers (Hyndman and Fan 1996, type
// 7, the default of R and NumPy); p in 0..1, at least one number.
func Quantile(x []float64, p float64) float64 {
	h := p * float64(len(x)-1)
	i := min(max(int(h), 0), len(x)-1)
	if i+1 == len(x) {
		return x[i]
	}
	return x[i] + (h-float64(i))*(x[i+1]-x[i])
}

// Mean is the arithmetic mean, 0 of no numbers.
func Mean(x []float64) float64 {
	m := 0.0
	for i, v := range x {
		m += (v - m) / float64(i+1)
	}
	return m
}

// Deviation is the median absolute deviation from the median of ascending
// numbers, unscaled. The deviations below and above the centre are two sorted
// lists already, so a merge finds their median without another sort.
func Deviation(x []float64) float64 {
	centre := Median(x)
	down, _ := slices.BinarySearch(x, centre) // x[:down] lie below
	up := down
	down--
	var last, before float64
	for taken := 0; taken <= len(x)/2; taken++ {
		before = last
		if up == len(x) || down >= 0 && centre-x[down] < x[up]-centre {
			last = centre - x[down]
			down--
		} else {
			last = x[up] - centre
			up++
		}
	}
	if len(x)%2 == 1 {
		return last
	}
	return (before + last) / 2
}

// outlierScore is the modified z-score beyond which Iglewicz and Hoaglin (How
// to Detect and Handle Outliers, 1993) call a value a potential outlier;
// normalScale makes a MAD comparable to a standard deviation (1/1.4826).
const (
	outlierScore = 3.5
	normalScale  = 0.6745
)

// Outliers counts the ascending numbers whose modified z-score is beyond
// outlierScore. Where more than half of the numbers are equal the MAD is 0 and
// the score has no meaning: then it counts none.
func Outliers(x []float64, centre, mad float64) int {
	if mad == 0 {
		return 0
	}
	reach := outlierScore * mad / normalScale
	low, _ := slices.BinarySearch(x, centre-reach)
	high, _ := slices.BinarySearch(x, math.Nextafter(centre+reach, math.Inf(1)))
	return low + len(x) - high
}
