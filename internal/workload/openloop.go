package workload

import (
	"fmt"
	"strconv"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/sample"
)

// openLoop asks a server at a rate that its answers do not shift (helpers/net/open.c):
// each request is due at its moment, and its time counts from there. What differs
// between the servers is data.
type openLoop struct {
	kind, help string
	protocol   string // of the client
	bytes      Param  // payload of one answer, or of one write
	writes     bool   // it can be asked for writes
	params     []Param
	rate       string // usual requests per second
	needs      []string
	user       driver.User
	server     func(v Values) []string
}

// openLoops are the kinds, in the order of help.
func openLoops() []Workload {
	return []Workload{
		openLoop{
			kind: "net-open", protocol: "echo", rate: "1000", bytes: payloadBytes("64", "bytes of a request and of its answer"),
			help:   "requests at a given rate to a server of tare that sends them back",
			server: func(Values) []string { return []string{netPath, "serve", anyAddress} },
		},
		redis(), nginx(), postgres(),
	}
}

func payloadBytes(usual, help string) Param {
	return Param{Name: "bytes", Type: Size, Default: usual, Help: help, Min: 1, Max: 1 << 20}
}

func (o openLoop) Kind() string { return o.kind }

func (o openLoop) Help() string {
	return o.help + "; open loop: a request's time counts from the moment when it was due"
}

func (o openLoop) Params() []Param {
	all := []Param{
		{Name: "rate", Type: Integer, Default: o.rate, Help: "requests per second that are due, whatever the answers do", Min: 1, Max: 1_000_000},
		duration(),
		{Name: "connections", Type: Integer, Default: "8", Help: "at most so many requests are under way; one that is due while all are busy waits", Min: 1, Max: 1000},
		{Name: "keep", Type: Choice, Default: "yes", Help: "keep the connections, or open one for each request", Choices: []string{"yes", "no"}},
		{Name: "arrivals", Type: Choice, Default: "poisson", Help: "at random moments, or at equal distances", Choices: []string{"poisson", "fixed"}},
		{Name: "seed", Type: Integer, Default: "1", Help: "of the random moments: they are the same on all targets", Min: 0, Max: 1<<31 - 1},
		o.bytes,
	}
	if o.writes {
		all = append(all, Param{Name: "operation", Type: Choice, Default: "read", Help: "what is asked for", Choices: []string{"read", "write"}})
	}
	return append(all, o.params...)
}

func (o openLoop) Metrics() []sample.Metric {
	return sample.Describe(sample.Response, sample.ResponseMean, sample.ResponseP90, sample.ResponseP99, sample.ResponseP999, sample.ResponseMax,
		sample.Answers, sample.RequestsDue, sample.RequestsFailed, sample.RequestsServed, sample.AnswerBytes, sample.RequestWindow, sample.ClientLate)
}

func (o openLoop) Command(v Values, _ []string) (Command, error) {
	operation, keep, length := "read", "keep", v.Duration("time")
	if o.writes {
		operation = v.Text("operation")
	}
	if v.Text("keep") == "no" {
		keep = "new"
	}
	number := func(name string) string { return strconv.FormatInt(v.Int(name), 10) }
	return Command{
		Args: []string{netPath, "open", o.protocol, peerAddress, operation, number("bytes"), number("rate"),
			v.Text("arrivals"), number("seed"), number("connections"), keep, milliseconds(length)},
		Peer: o.server(v), Length: length, Needs: o.needs, User: o.user,
	}, nil
}

// Parse checks that client and server counted the same work: every answer was counted
// by the server, and the server counted nothing that was not sent. The client itself
// has compared each answer with what it asked for.
func (o openLoop) Parse(stdout []byte) ([]sample.Value, error) {
	n, err := keyed(stdout, "due", "sent", "answered", "refused", "broken", "served", "bytes", "duration_ns", "elapsed_ns",
		"mean_ns", "p50_ns", "p90_ns", "p99_ns", "p999_ns", "most_ns", "late_p99_ns")
	if err != nil {
		return nil, err
	}
	switch {
	case n["answered"] < 1:
		return nil, fmt.Errorf("none of %v requests was answered: %v were refused, %v were lost with their connections", n["due"], n["refused"], n["broken"])
	case n["sent"] > n["due"] || n["served"] > n["sent"] || n["served"] < n["answered"]:
		return nil, fmt.Errorf("of %v requests %v were sent, the server counted %v, and %v were answered: both sides did not do the same work",
			n["due"], n["sent"], n["served"], n["answered"])
	case n["duration_ns"] <= 0:
		return nil, fmt.Errorf("the requests took %v ns", n["duration_ns"])
	}
	seconds := func(key string) float64 { return n[key] / 1e9 }
	window := max(seconds("duration_ns"), seconds("elapsed_ns"))
	values := []sample.Value{
		{Metric: sample.Response, Value: seconds("p50_ns")}, {Metric: sample.ResponseMean, Value: seconds("mean_ns")},
		{Metric: sample.ResponseMax, Value: seconds("most_ns")}, {Metric: sample.Answers, Value: n["answered"] / window},
		{Metric: sample.RequestsDue, Value: n["due"] / seconds("duration_ns")}, {Metric: sample.RequestsFailed, Value: n["due"] - n["answered"]},
		{Metric: sample.RequestsServed, Value: n["served"]}, {Metric: sample.AnswerBytes, Value: n["bytes"]},
		{Metric: sample.RequestWindow, Value: window}, {Metric: sample.ClientLate, Value: seconds("late_p99_ns")},
	}
	for _, tail := range []struct {
		metric, key string
		fewest      float64
	}{{sample.ResponseP90, "p90_ns", fewestForTail / 100}, {sample.ResponseP99, "p99_ns", fewestForTail / 10}, {sample.ResponseP999, "p999_ns", fewestForTail}} {
		if n["due"] >= tail.fewest {
			values = append(values, sample.Value{Metric: tail.metric, Value: seconds(tail.key)})
		}
	}
	return checked(values)
}

// Together compares the client's clock with the laboratory's.
func (o openLoop) Together(from, to float64, values map[string][]float64) ([]sample.Value, []sample.Warning) {
	for _, window := range values[sample.RequestWindow] {
		if window > to-from {
			text := fmt.Sprintf("the client's clock counted %.3f s for requests of a trial that took %.3f s on the host's clock: its times cannot be used", window, to-from)
			return nil, []sample.Warning{{Kind: sample.Note, Text: text}}
		}
	}
	return nil, nil
}

// Derived implements together: nothing is added.
func (o openLoop) Derived() []sample.Metric { return nil }

// nobody is whom a server runs as that refuses root.
var nobody = driver.User{UID: 65534, GID: 65534}
