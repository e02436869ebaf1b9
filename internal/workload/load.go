package workload

import (
	_ "embed" // the script
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tarelab/tare/internal/limit"
	"github.com/tarelab/tare/internal/sample"
)

// KindLoad is the workload of three containers over minutes.
const KindLoad = "container-load"

//go:embed load.sh
var loadScript string

// load is the published containers' load: package work, an agent, and one that
// starts late. It starts them itself, on the machine of the target's Docker.
type load struct{}

func (load) Kind() string { return KindLoad }
func (load) Help() string {
	return "three containers of Docker for minutes: package work from local files, an idle agent, and one that starts after a third of the time; what each uses, and how long the work takes"
}

func (load) Params() []Param {
	return []Param{{Name: "time", Type: Duration, Default: "10m", Help: "how long they are watched, in whole seconds",
		Min: int64(15 * time.Second), Max: int64(time.Hour), Step: int64(time.Second)}}
}

func (load) Metrics() []sample.Metric {
	all := sample.Describe(sample.LoadTask)
	for _, c := range sample.LoadContainers {
		all = append(all, sample.ContainerCPU(c))
	}
	all = append(all, sample.Describe(sample.LoadRunnable)...)
	for _, f := range loadFlows {
		all = append(all, sample.Describe(f.metric)...)
	}
	return all
}

// loadFlows are the rates that are sums over all containers.
var loadFlows = []struct {
	metric string
	of     func(LoadPoint) float64
}{
	{sample.DiskRead, func(p LoadPoint) float64 { return p.Read }},
	{sample.DiskWritten, func(p LoadPoint) float64 { return p.Written }},
	{sample.NetReceived, func(p LoadPoint) float64 { return p.Received }},
	{sample.NetSent, func(p LoadPoint) float64 { return p.Sent }},
}

func (load) Command(v Values, _ []string) (Command, error) {
	length := v.Duration("time")
	return Command{Args: []string{shellPath, "-c", loadScript, "load", strconv.Itoa(int(length.Seconds()))}, Length: length, Beside: true}, nil
}

// LoadPoint is what one container used during one interval, as tare watch says it.
// A number that the machine does not account is -1.
type LoadPoint struct {
	At       float64 `json:"at"` // seconds since the watch began
	ID       string  `json:"id"`
	CPU      float64 `json:"cpu"`      // CPUs
	Memory   float64 `json:"memory"`   // bytes
	Read     float64 `json:"read"`     // bytes a second, as the three below
	Written  float64 `json:"written"`  //
	Received float64 `json:"received"` //
	Sent     float64 `json:"sent"`     //
	Runnable float64 `json:"runnable"` // processes
}

// Load is the output of the workload.
type Load struct {
	Series map[string][]LoadPoint // by container
	Tasks  []float64              // seconds of each piece of package work
}

// ParseLoad reads the workload's output. What others on the machine used, which
// stands there too, is left out.
func ParseLoad(stdout []byte) (Load, error) {
	l := Load{Series: map[string][]LoadPoint{}}
	ids := map[string]string{}
	readings := 0
	for line := range strings.Lines(string(stdout)) {
		line = strings.TrimSuffix(line, "\n")
		words := strings.Fields(line)
		switch {
		case strings.HasPrefix(line, "{"):
			var p LoadPoint
			if err := json.Unmarshal([]byte(line), &p); err != nil {
				return l, fmt.Errorf("a reading of tare watch: %w", err)
			}
			for name, id := range ids {
				if strings.HasSuffix(p.ID, id) {
					readings++
					l.Series[name] = append(l.Series[name], p)
				}
			}
			if err := limit.RunSeries.CheckItems(readings); err != nil {
				return l, err
			}
		case len(words) == 3 && words[0] == "container" && slices.Contains(sample.LoadContainers, words[1]):
			ids[words[1]] = words[2]
		case len(words) == 3 && words[0] == "task":
			span, err := numbers(strings.Join(words[1:], " "), 2)
			if err != nil {
				return l, fmt.Errorf("a piece of package work: %w", err)
			}
			took := span[1] - span[0]
			if math.IsInf(took, 0) || !(took > 0) {
				return l, fmt.Errorf("a piece of package work ended at %s s and began at %s s", words[2], words[1])
			}
			l.Tasks = append(l.Tasks, took)
		default:
			return l, fmt.Errorf("%.80q is not what the workload prints", line)
		}
	}
	for _, name := range sample.LoadContainers {
		if len(l.Series[name]) == 0 {
			return l, fmt.Errorf("tare watch saw nothing of the container %q", name)
		}
	}
	if len(l.Tasks) == 0 {
		return l, errors.New("no package work ended in time: give it more (the parameter time)")
	}
	return l, nil
}

func (load) Parse(stdout []byte) ([]sample.Value, error) {
	l, err := ParseLoad(stdout)
	if err != nil {
		return nil, err
	}
	var work float64
	for _, t := range l.Tasks {
		work += t
	}
	values := []sample.Value{{Metric: sample.LoadTask, Value: work / float64(len(l.Tasks))}}
	add := func(metric string, containers []string, of func(LoadPoint) float64) {
		var sum float64
		known := false
		for _, name := range containers {
			mean, ok := meanOf(l.Series[name], of)
			// A container that starts late counts for the part of the time that it is there.
			sum += mean * float64(len(l.Series[name])) / float64(len(l.Series[containers[0]]))
			known = known || ok
		}
		if known {
			values = append(values, sample.Value{Metric: metric, Value: sum})
		}
	}
	for _, name := range sample.LoadContainers {
		add(sample.ContainerCPU(name).Name, []string{name}, func(p LoadPoint) float64 { return p.CPU })
	}
	add(sample.LoadRunnable, sample.LoadContainers, func(p LoadPoint) float64 { return p.Runnable })
	for _, f := range loadFlows {
		add(f.metric, sample.LoadContainers, f.of)
	}
	return checked(values)
}

// meanOf is the mean of those points that know the number; ok is false for none.
func meanOf(points []LoadPoint, of func(LoadPoint) float64) (mean float64, ok bool) {
	n := 0
	for _, p := range points {
		if v := of(p); v >= 0 {
			mean += v
			n++
		}
	}
	return mean / float64(max(n, 1)), n > 0
}
