package unixbench

import (
	"errors"
	"fmt"
	"github.com/tarelab/tare/internal/claim"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/tarelab/tare/internal/finding"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/stats"
)

func sideOf(t *testing.T, host string) side {
	t.Helper()
	s, err := publishedSide(loongson(t), host)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (m comparison) row(t *testing.T, environment, test string) machineRow {
	t.Helper()
	for _, table := range m.Tables {
		for _, r := range table.Rows {
			if table.Environment == environment && r.Test == test {
				return r
			}
		}
	}
	t.Fatalf("no row %s in %s", test, environment)
	return machineRow{}
}

func TestPublishedMachines(t *testing.T) {
	m, err := compareSides(sideOf(t, "loongson-2way"), sideOf(t, "ryzen5"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []struct {
		environment, test string
		percent           float64
	}{
		{envAllN, "dhrystone2", 63.6}, {envAllN, "whetstone", 44.8}, {envAllN, indexAsPublished, 39.4},
		{envAllOne, indexAsPublished, 39.9}, {envAllOne, "dhrystone2", 38.3},
	} {
		r := m.row(t, want.environment, want.test)
		if math.Abs(100*r.Ratio-want.percent) > 0.05 {
			t.Errorf("%s, %s: %.2f %%, want %.1f", want.environment, want.test, 100*r.Ratio, want.percent)
		}
		if r.Interval.Method != stats.MethodNone {
			t.Errorf("%s has an interval out of nothing: %+v", want.test, r.Interval)
		}
	}
	// Index over the nine listed tests, by hand.
	loongson, ryzen := m.A.Scores[envAllN], m.B.Scores[envAllN]
	product := 1.
	for _, test := range m.Tables[0].Tests {
		product *= loongson[test][0] / ryzen[test][0]
	}
	if len(m.Tables[0].Tests) != 9 {
		t.Errorf("the index holds %v", m.Tables[0].Tests)
	}
	if as := m.Tables[0].AsPublished; len(as) != 12 || !slices.Contains(as, "file-copy-4096") {
		t.Errorf("the index as published holds %v", as)
	}
	same(t, "index over nine tests", m.row(t, envAllN, "index").Ratio, math.Pow(product, 1./9))
	d := m.row(t, envAllN, "dhrystone2")
	same(t, "per core", d.PerCore, d.Ratio/2)
	same(t, "per thread", d.PerThread, d.Ratio)
	same(t, "per GHz", d.PerGHz, d.Ratio)
	if one := m.row(t, envAllOne, "dhrystone2"); one.PerCore != 0 || one.PerThread != 0 || one.PerGHz == 0 {
		t.Errorf("one copy is divided by cores: %+v", one)
	}
	if all := strings.Join(m.Warnings, "\n"); !strings.Contains(all, "differ in kernel") || !strings.Contains(all, "compiler") || strings.Contains(all, "CPU model") {
		t.Errorf("warnings:\n%s", all)
	}
}

func TestRunAgainstPublished(t *testing.T) {
	in := syntheticUnix(t, laws, []int{1, 2}, 3, 0.01, 0)
	if got := targetsOf(in); !slices.Equal(got, []string{"box", "host"}) {
		t.Errorf("targets %v", got)
	}
	here := side{Name: "here", Target: "box", Machine: cpus{Cores: 1, Threads: 2, GHz: 2.9}, ClockSource: "cycle counter", Scores: scoresOfTarget(in, "box")}
	m, err := compareSides(here, sideOf(t, "loongson-1way"))
	if err != nil {
		t.Fatal(err)
	}
	r := m.row(t, envAllN, "dhrystone2")
	if math.Abs(r.Ratio-2000/2929.2) > 0.02 || r.Interval.Method != stats.MethodWelch || r.Interval.Low >= r.Ratio || r.Interval.High <= r.Ratio {
		t.Errorf("%+v", r)
	}
	same(t, "per GHz", r.PerGHz, r.Ratio*1.5/2.9)
	same(t, "per core", r.PerCore, r.Ratio*4)
	same(t, "per core, low", r.PerCoreInterval.Low, r.Interval.Low*4)
	same(t, "per GHz, high", r.PerGHzInterval.High, r.Interval.High*1.5/2.9)
	if r.PerThreadInterval.Method != stats.MethodWelch {
		t.Errorf("per thread: %+v", r.PerThreadInterval)
	}
	// Published rows are compared with CPU time; the wall's has no partner there.
	if got := m.row(t, envAllN, "whetstone"); math.Abs(got.Ratio-900/908.1) > 0.02 {
		t.Errorf("whetstone: %+v", got)
	}
	if !strings.Contains(strings.Join(m.Warnings, "\n"), "the clocks are known in two ways") {
		t.Errorf("warnings: %q", m.Warnings)
	}
	older := here
	older.Machine.Cores, older.Machine.Threads = 0, 0
	undivided, err := compareSides(older, sideOf(t, "ryzen5"))
	if err != nil {
		t.Fatal(err)
	}
	if r := undivided.row(t, envAllN, "dhrystone2"); r.PerCore != 0 || r.PerThread != 0 || !strings.Contains(strings.Join(undivided.Warnings, "\n"), "not known which CPUs it might use") {
		t.Errorf("a run that does not say which CPUs it might use is divided by them: %+v, %q", r, undivided.Warnings)
	}
	short, long := here, here
	short.Window, long.Window, long.Name, long.Bare = "400ms", "10s", "long", true
	for _, pair := range []struct {
		a, b side
		want string
	}{
		{short, long, "windows of 400ms and long of 10s"},
		{sideOf(t, "ryzen5"), short, "here has windows of 400ms, UnixBench of 10 to 60 s"},
		{long, sideOf(t, "ryzen5"), "long ran on the host"},
	} {
		m, err := compareSides(pair.a, pair.b)
		if err != nil {
			t.Fatal(err)
		}
		if all := strings.Join(m.Warnings, "\n"); !strings.Contains(all, pair.want) {
			t.Errorf("no warning says %q:\n%s", pair.want, all)
		}
	}
	own := long
	own.OwnWindows, own.Whetstone = true, variantKept
	m, err = compareSides(own, sideOf(t, "ryzen5"))
	if all := strings.Join(m.Warnings, "\n"); err != nil || strings.Contains(all, "windows") || !strings.Contains(all, "long: whetstone is of the variant kept") {
		t.Errorf("UnixBench's own windows, the variant kept: %v\n%s", err, all)
	}
	both, err := compareSides(here, here)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "a machine by itself, by wall", both.row(t, envAllN, byWall("whetstone")).Ratio, 1)
}

// A run's single repetition gives no interval, and the note claims none.
func TestOneRepetitionHasNoInterval(t *testing.T) {
	of := func(repetitions int) side {
		return side{Name: "run", Target: "box", Scores: scoresOfTarget(syntheticUnix(t, laws, []int{1, 2}, repetitions, 0.01, 0), "box")}
	}
	for _, test := range []struct {
		name string
		a, b side
		note string
	}{
		{"against a publication", of(1), sideOf(t, "ryzen5"), "There is no interval: a run of one repetition says nothing of its scatter. Whetstone"},
		{"against three", of(3), of(1), "There is no interval"},
		{"three against a publication", of(3), sideOf(t, "ryzen5"), "Intervals are Welch's t at 95 % on the logarithms of the repetitions; the clocks count as exact; the published side comes without its scatter and counts as exact, so they are too narrow. "},
	} {
		m, err := compareSides(test.a, test.b)
		if err != nil {
			t.Fatal(err)
		}
		want := stats.MethodNone
		if strings.HasPrefix(test.note, "Intervals") {
			want = stats.MethodWelch
		}
		if got := m.row(t, envAllN, "dhrystone2").Interval.Method; got != want || !strings.HasPrefix(m.Note, test.note) {
			t.Errorf("%s: %s, %s", test.name, got, m.Note)
		}
	}
}

// The index of a machine is the report's, and its repetitions are those in which
// all tests have a score, whatever failed.
func TestIndexIsTheReports(t *testing.T) {
	in := syntheticUnix(t, laws, []int{1, 2}, 4, 0.05, 0)
	for i, r := range in.Records {
		if r.Block == 0 && r.Cell == "box/dhrystone2+"+envAllN+"+x1" {
			in.Records[i].Failure = &sample.Failure{Message: "died"}
		}
	}
	u, err := describe(in)
	if err != nil {
		t.Fatal(err)
	}
	index, scores := u.Curve("box", envAllN, indexName, cpuClock), scoresOfTarget(in, "box")[envAllN]
	want := index.At(1)
	same(t, "index", scores.typical(indexName, index.Tests), want.Data.Value)
	if got := inOrder(scores.index(index.Tests)); len(got) != 3 || math.Abs(got[0]/want.Repetitions[0]-1) > 1e-12 || math.Abs(got[2]/want.Repetitions[2]-1) > 1e-12 {
		t.Errorf("repetitions %v, the report's are %v", got, want.Repetitions)
	}
}

// One case of many that an interval of 95 % lies outside of the limits is chance
// more often than one of twenty.
func TestClaimsOfManyCases(t *testing.T) {
	outside := func(logs ...float64) stats.Estimate {
		return stats.Estimate{Value: math.Exp(stats.Mean(logs)), Interval: stats.StudentLog(math.Exp(stats.Mean(logs)), logs)}
	}
	good, bad := outside(-0.001, 0, 0.001), outside(0.04, 0.05, 0.06)
	u := &description{Repetitions: 3}
	for _, test := range []struct {
		cases []stats.Estimate
		want  finding.Verdict
	}{
		{[]stats.Estimate{good, good}, finding.BorneOut}, {[]stats.Estimate{bad}, finding.NotBorne},
		{append(slices.Repeat([]stats.Estimate{good}, 7), bad), finding.Open},
		{append(slices.Repeat([]stats.Estimate{good}, 7), outside(0.499, 0.5, 0.501)), finding.NotBorne},
	} {
		here, published, file := map[string]claim.Value{}, map[string]float64{}, "- {name: all, text: All, where: table 1, each: ["
		for i, e := range test.cases {
			name := fmt.Sprintf("x%d", i)
			here[name], published[name] = u.value(&curve{}, e), 1
			file += "{is: " + name + ", from: 0.98, to: 1.02}, "
		}
		all, err := claim.Read([]byte(file+"]}"), published)
		if err != nil {
			t.Fatal(err)
		}
		if got := all.Judge(nil, claim.Target{Name: "box", Cells: claim.Of(here)})[0].Here[0]; got.Verdict != test.want {
			t.Errorf("%d cases, the last %+v: %+v, want %s", len(test.cases), test.cases[len(test.cases)-1], got, test.want)
		}
	}
}

// Welch's interval by hand: equal variances of the logs, three against three.
func TestWelch(t *testing.T) {
	x := []float64{math.Exp(0.9), math.Exp(1), math.Exp(1.1)}
	y := []float64{math.Exp(-0.1), 1, math.Exp(0.1)}
	i := stats.Welch(math.E, x, y)
	half := 2.776445 * math.Sqrt(0.01/3+0.01/3) // t(4 degrees, 0.975)
	if math.Abs(math.Log(i.High)-1-half) > 1e-5 || math.Abs(1-math.Log(i.Low)-half) > 1e-5 {
		t.Errorf("%+v, want e^(1±%v)", i, half)
	}
	one := stats.Welch(math.E, x, y[:1])
	if want := 4.302653 * 0.1 / math.Sqrt(3); math.Abs(math.Log(one.High)-1-want) > 1e-5 {
		t.Errorf("one side exact: %+v, want e^(1±%v)", one, want)
	}
}

// The clock that was measured while the tests ran comes first, each environment
// with its own; what the machine told before the run is for the others.
func TestClockWhileTheTestsRan(t *testing.T) {
	in := syntheticUnix(t, laws, []int{1, 2}, 3, 0.01, 0)
	side := func(in input) side {
		s := side{Name: "here", Target: "box", Machine: cpus{GHz: 2.9}, ClockSource: "DMI", Scores: scoresOfTarget(in, "box")}
		s.MeasureClock(in)
		return s
	}
	if s := side(in); s.Clocks != nil || s.ClockSource != "DMI" || s.Machine.GHz != 2.9 {
		t.Errorf("no trial measured it: %+v from %s", s.Machine, s.ClockSource)
	}
	for i := range in.Records {
		r := &in.Records[i]
		of := func(cells string) bool { return strings.HasPrefix(r.Cell, cells) && strings.HasSuffix(r.Cell, "+x1") }
		switch {
		case of("box/dhrystone2+" + envAllN):
			r.Values["clock-cpufreq"] = []float64{2e9 + 1e8*float64(r.Block)}
		case of("box/dhrystone2+" + envAllOne), of("box/whetstone+" + envAllOne):
			r.Values["clock-cpufreq"] = []float64{3e9}
		case of("host/"), strings.HasSuffix(r.Cell, "+x2"):
			r.Values["clock-cpufreq"] = []float64{9e9} // another target's, and of two containers
		}
	}
	cpufreq := side(in)
	if cpufreq.ClockSource != "cpufreq, the fastest CPU, while dhrystone2, whetstone ran" || len(cpufreq.Clocks) != 2 {
		t.Errorf("%v from %s", cpufreq.Clocks, cpufreq.ClockSource)
	}
	same(t, "their mean", cpufreq.Machine.GHz, 2.55)
	m, err := compareSides(cpufreq, sideOf(t, "loongson-1way")) // of 1.5 GHz
	if err != nil {
		t.Fatal(err)
	}
	n, one := m.row(t, envAllN, "dhrystone2"), m.row(t, envAllOne, "whetstone")
	same(t, "n copies per GHz", n.PerGHz, n.Ratio*1.5/2.1)
	same(t, "one copy per GHz", one.PerGHz, one.Ratio*1.5/3)
	for i := range in.Records {
		if strings.HasPrefix(in.Records[i].Cell, "box/dhrystone2+"+envAllN) {
			in.Records[i].Values["clock-counted"] = []float64{2.5e9}
		}
	}
	counted := side(in)
	if counted.ClockSource != "cycle counter, while dhrystone2 ran" || counted.Clocks[envAllN] != 2.5 {
		t.Errorf("%v from %s", counted.Clocks, counted.ClockSource)
	}
	if m, err = compareSides(counted, sideOf(t, "loongson-1way")); err != nil || m.row(t, envAllOne, "whetstone").PerGHz != 0 {
		t.Errorf("an environment whose clock nobody measured is divided by another's: %v", err)
	}
}

func TestEmulatedIsNotCompared(t *testing.T) {
	a := sideOf(t, "ryzen5")
	a.Emulated = "QEMU TCG"
	var emulated *emulatedError
	for _, pair := range [][2]side{{a, sideOf(t, "ryzen5")}, {sideOf(t, "ryzen5"), a}} {
		if _, err := compareSides(pair[0], pair[1]); !errors.As(err, &emulated) || !strings.Contains(err.Error(), "QEMU TCG") {
			t.Errorf("compared: %v", err)
		}
	}
	in := syntheticUnix(t, laws, []int{1, 2}, 3, 0, 0)
	in.Emulated = "QEMU TCG"
	u := studied(t, in)
	if !strings.Contains(u.Findings[0], "emulated (QEMU TCG)") {
		t.Errorf("first finding: %s", u.Findings[0])
	}
	for _, p := range u.Platforms {
		if p.Here {
			t.Error("an emulated machine stands beside real ones")
		}
	}
}

func TestNothingInCommon(t *testing.T) {
	a := side{Name: "a", Scores: map[string]scoring{envAllN: {"syscall": {0: 1}}}}
	b := side{Name: "b", Scores: map[string]scoring{envAllN: {"execl": {0: 1}}}}
	if _, err := compareSides(a, b); err == nil || !strings.Contains(err.Error(), "syscall") {
		t.Errorf("%v", err)
	}
}
