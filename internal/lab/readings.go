package lab

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/study"
	"github.com/tarelab/tare/internal/workload"
)

// withReadings has a command judged by the numbers that its output holds.
func withReadings(job workload.Job, readings []study.Reading) (workload.Job, error) {
	if job.Kind != workload.KindCommand {
		return job, fmt.Errorf("readings are for the kind %q: a workload of the kind %q reads its own output", workload.KindCommand, job.Kind)
	}
	var all []workload.Reading
	var metrics []sample.Metric
	for _, r := range readings {
		one, err := readingOf(r)
		if err == nil && slices.ContainsFunc(metrics, func(m sample.Metric) bool { return m.Name == r.Name }) {
			err = errors.New("a second reading has this name")
		}
		if err == nil && slices.ContainsFunc(job.Metrics, func(m sample.Metric) bool { return m.Name == r.Name }) {
			err = errors.New("every command has a metric of this name: choose another")
		}
		if err != nil {
			return job, fmt.Errorf("reading %q: %w", r.Name, err)
		}
		all, metrics = append(all, one), append(metrics, one.Metric)
	}
	job.Metrics = slices.Concat(metrics, job.Metrics)
	job.Parse = func(stdout []byte) ([]sample.Value, error) { return workload.Read(all, stdout) }
	return job, nil
}

// readingOf makes the metric of a reading. Unit and direction of a name of tare's own
// are known; those of another must be said.
func readingOf(r study.Reading) (workload.Reading, error) {
	m := sample.Metric{Name: r.Name, Better: sample.Better(r.Better), Help: "taken from the command's output"}
	printed := r.Unit
	if sample.Known(r.Name) {
		known := sample.Describe(r.Name)[0]
		printed = cmp.Or(printed, string(known.Unit))
		m.Better = cmp.Or(m.Better, known.Better)
	} else if r.Unit == "" && r.Better == "" {
		return workload.Reading{}, fmt.Errorf("no metric of tare has this name: say its unit and direction, as %s:ms:lower; units are %s", r.Name, sample.ReadUnits)
	}
	var factor float64
	var ok bool
	if m.Unit, factor, ok = sample.ReadUnit(printed); !ok {
		return workload.Reading{}, fmt.Errorf("its unit is %q: give one of %s", printed, sample.ReadUnits)
	}
	if m.Better != sample.Lower && m.Better != sample.Higher {
		return workload.Reading{}, fmt.Errorf("better is %q: say whether lower or higher is better", m.Better)
	}
	if err := sample.CheckDeclared(m); err != nil {
		return workload.Reading{}, err
	}
	switch {
	case (r.Match == "") == (r.JSON == ""):
		return workload.Reading{}, errors.New("give match or json, one of them")
	case r.JSON != "":
		return workload.Reading{Metric: m, Factor: factor, JSON: strings.Split(r.JSON, ".")}, nil
	}
	re, err := regexp.Compile(r.Match)
	if err != nil {
		return workload.Reading{}, err
	}
	if re.NumSubexp() != 1 {
		return workload.Reading{}, fmt.Errorf("%s has %d groups: put parentheses around the number, and (?: ) around others", r.Match, re.NumSubexp())
	}
	return workload.Reading{Metric: m, Factor: factor, Match: re}, nil
}
