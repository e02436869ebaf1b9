package workload

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/sample"
)

// netPath is the guest program of two ends that talk.
const netPath = "/.tare/net"

// everyAddress is a server's address to listen at. It is an argument, or the start of one
// before a colon, because package netpath narrows it on networks that others share.
const everyAddress = "0.0.0.0"

// anyAddress is where a server listens, peerAddress where its client finds it.
const (
	anyAddress  = everyAddress + ":" + driver.PeerPort
	peerAddress = driver.PeerAddress + ":" + driver.PeerPort
	localSocket = "unix:/tmp/tare-net"
)

// served is a command of the guest program with the server that it talks to.
func served(length time.Duration, place string, args ...string) Command {
	listen := anyAddress
	if place == localSocket {
		listen = localSocket
	}
	return Command{Args: append([]string{netPath}, args...), Peer: []string{netPath, "serve", listen}, Length: length}
}

// duration is how long a program of ours runs.
func duration() Param {
	return Param{Name: "time", Type: Duration, Default: "1s", Help: "how long it runs",
		Min: int64(time.Millisecond), Max: int64(time.Hour), Step: int64(time.Millisecond)}
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// keyed reads lines "KEY NUMBER", each key of those wanted exactly once and no
// other.
func keyed(stdout []byte, wanted ...string) (map[string]float64, error) {
	if !bytes.HasSuffix(stdout, []byte("\n")) {
		return nil, fmt.Errorf("the output ends in the middle of a line")
	}
	found := map[string]float64{}
	for line := range strings.Lines(string(stdout)) {
		key, text, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		n, err := strconv.ParseFloat(text, 64)
		if _, twice := found[key]; !ok || err != nil || twice {
			return nil, fmt.Errorf("unreadable line %q", line)
		}
		found[key] = n
	}
	for _, key := range wanted {
		if _, ok := found[key]; !ok {
			return nil, fmt.Errorf("the output has no %s", key)
		}
	}
	if len(found) != len(wanted) {
		return nil, fmt.Errorf("the output has %d numbers, not %d", len(found), len(wanted))
	}
	return found, nil
}

// rate is how many of something there were a second.
func rate(count, nanoseconds float64) (float64, error) {
	if nanoseconds <= 0 {
		return 0, fmt.Errorf("it took %v ns", nanoseconds)
	}
	return count / nanoseconds * 1e9, nil
}

// perGbit are what a Gbit (10^9 bits) that arrived took of the CPUs.
var perGbit = []struct{ metric, of string }{
	{sample.CPUPerGbit, sample.CPU},
	{sample.ClientPerGbit, sample.PayloadCPU},
	{sample.ServerPerGbit, sample.PeerCPU},
	{sample.RelayPerGbit, sample.RelayCPU},
	{sample.SoftIRQPerGbit, sample.SoftIRQ},
}

// costPerGbit is a part of workloads that know how much arrived: it divides what the
// probes read by that.
type costPerGbit struct{}

func (costPerGbit) Derived() []sample.Metric {
	var all []sample.Metric
	for _, p := range perGbit {
		all = append(all, sample.Describe(p.metric)...)
	}
	return all
}

func (costPerGbit) Together(_, _ float64, values map[string][]float64) ([]sample.Value, []sample.Warning) {
	gbit := sum(values[sample.Moved]) * 8 / 1e9
	if gbit == 0 {
		return nil, nil
	}
	var all []sample.Value
	for _, p := range perGbit {
		if used, ok := values[p.of]; ok {
			all = append(all, sample.Value{Metric: p.metric, Value: sum(used) / gbit})
		}
	}
	return all, nil
}

func sum(values []float64) float64 {
	total := 0.0
	for _, v := range values {
		total += v
	}
	return total
}
