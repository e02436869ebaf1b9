package unixbench

import (
	"fmt"
	"slices"

	"github.com/tarelab/tare/published"
)

// source is published.yaml: UnixBench scores in 0 to 4 containers on a Loongson
// 3A3000, and of four machines, one of them an AMD Ryzen. All scores are index
// scores: 10 is a SPARCstation 20-61.
type source struct {
	published.Source `yaml:",inline"`
	Method           struct {
		Workload     string   `yaml:"workload"`
		Containers   []int    `yaml:"containers"` // 0 is the host without a container
		Repetitions  int      `yaml:"repetitions"`
		Value        string   `yaml:"value"` // the formula of a cell
		Environments []string `yaml:"environments"`
	} `yaml:"method"`
	Hosts  map[string]hostFacts  `yaml:"hosts"`  // by name: loongson-1way, ryzen5
	Tests  []string              `yaml:"tests"`  // the rows of every table, the index last
	Tables map[string]scoreTable `yaml:"tables"` // containers-... over 0..4 containers, platforms-... over hosts
	// EightContainers are two scores from the text, on 4 CPUs.
	EightContainers struct {
		WhetstoneOneCopy float64 `yaml:"whetstone_1copy"`
		WhetstoneNCopies float64 `yaml:"whetstone_ncopies"`
	} `yaml:"eight_containers"`
	// Text are two means of Dhrystone that the text names, and no table has.
	Text struct {
		Dhrystone2OneCopy float64 `yaml:"dhrystone2_1copy"`
		Dhrystone2NCopies float64 `yaml:"dhrystone2_ncopies"`
	} `yaml:"text"`
	Notes []string `yaml:"notes"`
}

// hostFacts is one of the machines.
type hostFacts struct {
	CPU       string  `yaml:"cpu"`
	CPUs      int     `yaml:"cpus"` // hardware threads; 0: as many as cores
	Cores     int     `yaml:"cores"`
	ClockGHz  float64 `yaml:"clock_ghz"`
	ClockNote string  `yaml:"clock_note"`
	Memory    string  `yaml:"memory"`
	OS        string  `yaml:"os"`
	Kernel    string  `yaml:"kernel"`
}

// Threads are the hardware threads of the machine.
func (h hostFacts) Threads() int { return max(h.CPUs, h.Cores) }

// scoreTable is one table: a row of scores per test. The columns are the
// numbers of containers on Host, or Hosts.
type scoreTable struct {
	Host              string    `yaml:"host"`
	Hosts             []string  `yaml:"hosts"`
	Dhrystone2        []float64 `yaml:"dhrystone2"`
	Whetstone         []float64 `yaml:"whetstone"`
	Execl             []float64 `yaml:"execl"`
	PipeThroughput    []float64 `yaml:"pipe-throughput"`
	PipeContextSwitch []float64 `yaml:"pipe-context-switch"`
	ProcessCreation   []float64 `yaml:"process-creation"`
	Shell1            []float64 `yaml:"shell-1"`
	Shell8            []float64 `yaml:"shell-8"`
	Syscall           []float64 `yaml:"syscall"`
	Index             []float64 `yaml:"index"`
}

// Row is a test's scores by the test's name, nil for an unknown one.
func (t scoreTable) Row(test string) []float64 {
	return map[string][]float64{
		"dhrystone2": t.Dhrystone2, "whetstone": t.Whetstone, "execl": t.Execl,
		"pipe-throughput": t.PipeThroughput, "pipe-context-switch": t.PipeContextSwitch,
		"process-creation": t.ProcessCreation, "shell-1": t.Shell1, "shell-8": t.Shell8,
		"syscall": t.Syscall, "index": t.Index,
	}[test]
}

// publication reads published.yaml.
func publication() (*source, error) {
	d, err := published.Read(name, publishedFile, new(source))
	if err != nil {
		return nil, err
	}
	if err := d.check(); err != nil {
		return nil, fmt.Errorf("published measurements %s: %w", name, err)
	}
	return d, nil
}

// Scores are one machine's scores by test, from a table over hosts.
func (d *source) Scores(table, host string) (map[string]float64, error) {
	t, ok := d.Tables[table]
	if !ok {
		return nil, fmt.Errorf("no table %q in %s", table, d.ID)
	}
	column := slices.Index(t.Hosts, host)
	if column < 0 {
		return nil, fmt.Errorf("no machine %q in table %s of %s (there are: %v)", host, table, d.ID, t.Hosts)
	}
	scores := map[string]float64{}
	for _, test := range d.Tests {
		scores[test] = t.Row(test)[column]
	}
	return scores, nil
}

// check finds cells that are missing: every row has a score per column.
func (d *source) check() error {
	for table, t := range d.Tables {
		columns := len(d.Method.Containers)
		machines := t.Hosts
		if t.Host != "" {
			machines = []string{t.Host}
		} else {
			columns = len(t.Hosts)
		}
		for _, m := range machines {
			if _, ok := d.Hosts[m]; !ok {
				return fmt.Errorf("table %s: machine %q is not described", table, m)
			}
		}
		for _, test := range d.Tests {
			if n := len(t.Row(test)); n != columns || columns == 0 {
				return fmt.Errorf("table %s, %s: %d scores for %d columns", table, test, n, columns)
			}
		}
	}
	return nil
}
