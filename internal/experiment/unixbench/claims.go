package unixbench

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"

	"github.com/tarelab/tare/internal/finding"
)

// Names of the tables of docker-on-loongson.
const (
	all4CPUs  = "containers-4cpu-4copies"
	oneCPU    = "containers-1cpu-1copy"
	one4CPUs  = "containers-4cpu-1copy"
	platform1 = "platforms-1copy"
	platformN = "platforms-ncopies"
)

// publishedClaims recomputes what docker-on-loongson concludes. A table that is
// missing is an error.
func publishedClaims(d *source) ([]finding.Claim, error) {
	for _, name := range []string{all4CPUs, oneCPU, one4CPUs, platform1, platformN} {
		if _, ok := d.Tables[name]; !ok {
			return nil, fmt.Errorf("%s has no table %q", d.ID, name)
		}
	}
	claims := []finding.Claim{fallsAsOneByN(d), whetstoneStays(d), eightLikeFour(d), fivePercentAbove(d)}
	claims = append(claims, hostDifferences(d)...)
	machines, err := loongsonAgainstRyzen(d)
	if err != nil {
		return nil, err
	}
	return append(append(claims, machines...), tablesAgree(d), meansExist(d), aboveTwo(d)), nil
}

// fallsAsOneByN fits score = a/n^b for each test on one CPU.
func fallsAsOneByN(d *source) finding.Claim {
	const least, most = 0.75, 1.25
	low, high := math.Inf(1), math.Inf(-1)
	var lowTest, highTest string
	for _, test := range d.Tests {
		if test == "whetstone" || test == "index" {
			continue
		}
		b := decay(d.Tables[oneCPU].Row(test)[1:])
		if b < low {
			low, lowTest = b, test
		}
		if b > high {
			high, highTest = b, test
		}
	}
	return finding.Judged(low >= least && high <= most, "With n containers the indexes fall roughly as 1/n on one CPU.",
		"score ~ 1/n^b over 1 to 4 containers: b from %.2f (%s) to %.2f (%s); roughly 1/n is b from %.2f to %.2f",
		low, lowTest, high, highTest, least, most)
}

// decay is b of the least-squares fit of score = a/n^b to scores at n = 1, 2, ...
func decay(scores []float64) float64 {
	x, y := make([]float64, len(scores)), make([]float64, len(scores))
	for i, s := range scores {
		x[i], y[i] = math.Log(float64(i+1)), math.Log(s)
	}
	_, slope := stat.LinearRegression(x, y, nil, false)
	return -slope
}

func whetstoneStays(d *source) finding.Claim {
	row := d.Tables[all4CPUs].Row("whetstone")[1:]
	low, high := slices.Min(row), slices.Max(row)
	return finding.Judged(low >= 0.98*800 && high <= 1.02*800, "Whetstone does not fall at all: 800 at every n on four CPUs.",
		"%.1f to %.1f over 1 to 4 containers; within 2 %% of 800. Four containers of four copies on four CPUs can only give this when timed by CPU time", low, high)
}

func eightLikeFour(d *source) finding.Claim {
	one, n := d.Tables[one4CPUs].Row("whetstone")[4], d.Tables[all4CPUs].Row("whetstone")[4]
	a, b := d.EightContainers.WhetstoneOneCopy/one-1, d.EightContainers.WhetstoneNCopies/n-1
	return finding.Judged(math.Abs(a) <= 0.02 && math.Abs(b) <= 0.02, "With 8 containers Whetstone is what it is with 4.",
		"%s with 1 copy, %s with n copies, against 4 containers; the same is within 2 %%", signed(a), signed(b))
}

func signed(x float64) string { return fmt.Sprintf("%+.1f %%", 100*x) }

// oneByHost is a score in one container by that on the host, minus 1.
func oneByHost(d *source, table, test string) float64 {
	row := d.Tables[table].Row(test)
	return row[1]/row[0] - 1
}

func fivePercentAbove(d *source) finding.Claim {
	a, b, c := oneByHost(d, all4CPUs, "index"), oneByHost(d, oneCPU, "index"), oneByHost(d, one4CPUs, "index")
	near := func(x float64) bool { return x >= 0.025 && x <= 0.075 }
	return finding.Judged(near(a) && near(b) && near(c), "One container scores about 5 % above the host.",
		"index: %s (4 CPUs, 4 copies), %s (1 CPU), %s (4 CPUs, 1 copy); about 5 %% is 2.5 to 7.5 in each", signed(a), signed(b), signed(c))
}

func hostDifferences(d *source) []finding.Claim {
	var claims []finding.Claim
	for _, c := range []struct {
		table, test, where string
		percent            float64
	}{
		{all4CPUs, "whetstone", "4 copies on 4 CPUs", 11.7},
		{all4CPUs, "dhrystone2", "4 copies on 4 CPUs", 4.0},
		{all4CPUs, "index", "4 copies on 4 CPUs", -1.4},
		{all4CPUs, "process-creation", "4 copies on 4 CPUs", -5.1},
		{oneCPU, "process-creation", "1 CPU", -13.4},
	} {
		got := 100 * oneByHost(d, c.table, c.test)
		row := d.Tables[c.table].Row(c.test)
		claims = append(claims, finding.Judged(math.Abs(got-c.percent) < 0.06,
			fmt.Sprintf("One container against the host, %s: %s %+.1f %%.", c.where, c.test, c.percent),
			"%.1f / %.1f: %+.2f %%", row[1], row[0], got))
	}
	return claims
}

func loongsonAgainstRyzen(d *source) ([]finding.Claim, error) {
	loongson, err := d.Scores(platformN, "loongson-2way")
	if err != nil {
		return nil, err
	}
	ryzen, err := d.Scores(platformN, "ryzen5")
	if err != nil {
		return nil, err
	}
	single, err := d.Scores(platform1, "loongson-2way")
	if err != nil {
		return nil, err
	}
	singleRyzen, err := d.Scores(platform1, "ryzen5")
	if err != nil {
		return nil, err
	}
	exact := func(test string, claimed float64) finding.Claim {
		got := 100 * loongson[test] / ryzen[test]
		return finding.Judged(math.Abs(got-claimed) < 0.06, fmt.Sprintf("With n copies the 8-core Loongson reaches %.1f %% of the Ryzen's %s.", claimed, test),
			"%.1f / %.1f: %.1f %%", loongson[test], ryzen[test], got)
	}
	n, one := 100*loongson["index"]/ryzen["index"], 100*single["index"]/singleRyzen["index"]
	near := func(x float64) bool { return x >= 45 && x <= 55 }
	return []finding.Claim{
		exact("dhrystone2", 63.6), exact("whetstone", 44.8),
		finding.Judged(near(n) && near(one), "Over all tests it reaches about 50 %.",
			"index: %.1f %% with n copies, %.1f %% with one; about 50 is 45 to 55", n, one),
	}, nil
}

// tablesAgree compares the machine that stands in two tables: one container of
// four copies, against one copy per CPU in one container.
func tablesAgree(d *source) finding.Claim {
	column := slices.Index(d.Tables[platformN].Hosts, "loongson-1way")
	worst, worstTest := 1., ""
	for _, test := range d.Tests {
		if column < 0 {
			break
		}
		r := d.Tables[platformN].Row(test)[column] / d.Tables[all4CPUs].Row(test)[1]
		if math.Abs(math.Log(r)) > math.Abs(math.Log(worst)) {
			worst, worstTest = r, test
		}
	}
	return finding.Judged(column >= 0 && worst <= 1.2 && worst >= 1/1.2, "Two tables give the same scores for the same machine in one container.",
		"the largest difference is %s: a factor of %.2f; the same is within a factor of 1.2", worstTest, worst)
}

// meansExist looks for the two means that the text names among the means of
// Dhrystone's row over 1 to 4 and 0 to 4 containers, and among its cells.
func meansExist(d *source) finding.Claim {
	nearest := func(claimed float64, tables ...string) (best float64) {
		for _, name := range tables {
			row := d.Tables[name].Row("dhrystone2")
			for _, v := range append(slices.Clone(row), stat.Mean(row, nil), stat.Mean(row[1:], nil)) {
				if math.Abs(v-claimed) < math.Abs(best-claimed) {
					best = v
				}
			}
		}
		return best
	}
	one, n := nearest(473.0, oneCPU, one4CPUs), nearest(492.2, all4CPUs)
	claim := finding.Judged(math.Abs(one/473.0-1) < 0.005 && math.Abs(n/492.2-1) < 0.005, "The mean of Dhrystone is 473.0 with one copy and 492.2 with n copies.",
		"the nearest cells and means of rows are %.1f and %.1f; a match is within 0.5 %%", one, n)
	// The text has 16.6 % of one container for n copies: the scores of 8 containers fit,
	// which the tables do not have.
	if share := 492.2 / d.Tables[all4CPUs].Row("dhrystone2")[1]; claim.Verdict == finding.NotBorne && math.Abs(share-0.166) < 0.0005 {
		claim.Verdict = finding.Open
		claim.Computed += fmt.Sprintf("; most likely they are the scores of 8 containers: 492.2 is %.2f %% of one container's, and the text has 16.6 %%", 100*share)
	}
	return claim
}

// aboveTwo checks how far the text puts 473.0 above the score of two containers.
func aboveTwo(d *source) finding.Claim {
	two := d.Tables[oneCPU].Row("dhrystone2")[2]
	above := 473.0/two - 1
	return finding.Judged(math.Abs(above-0.147) < 0.0005, "Dhrystone's 473.0 is 14.7 % above the score of two containers on one CPU.",
		"473.0 by %.1f: %+.1f %%", two, 100*above)
}
