package sample

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
)

// Role says what a metric is for.
type Role string

// A primary metric can decide a verdict: it is what a workload is run for. A
// descriptive one is shown with it; it is judged only where a study names it.
const (
	Primary     Role = "primary"
	Descriptive Role = "descriptive"
)

// entries is the catalogue by name, without the families, which are made of it.
var entries = indexed()

func indexed() map[string]entry {
	all := map[string]entry{}
	for _, s := range sections {
		for _, e := range s.entries {
			all[e.Name] = e
		}
	}
	return all
}

// known are the metrics of the catalogue, families included.
var known = withFamilies()

func withFamilies() map[string]entry {
	all := maps.Clone(entries)
	for _, f := range families {
		for _, of := range f.members {
			m := f.metric(of)
			all[m.Name] = entry{Metric: m, role: Descriptive}
		}
	}
	return all
}

// Known reports whether the catalogue has a metric of this name.
func Known(name string) bool {
	_, ok := known[name]
	return ok
}

// Describe gives metrics of the catalogue by their names, in this order. A name
// that is not in the catalogue is an error of the program: it panics.
func Describe(names ...string) []Metric {
	all := make([]Metric, len(names))
	for i, name := range names {
		e, ok := known[name]
		if !ok {
			panic(fmt.Sprintf("metric %q is not in the catalogue", name))
		}
		all[i] = e.Metric
	}
	return all
}

// In gives a metric of the catalogue in the form that has this unit, for a name
// that workloads record in several. It panics as Describe does.
func In(name string, unit Unit) Metric {
	m := Describe(name)[0]
	i := slices.IndexFunc(known[name].forms, func(form Metric) bool { return form.Unit == unit })
	switch {
	case m.Unit == unit:
		return m
	case i < 0:
		panic(fmt.Sprintf("metric %q is not recorded in %q", name, unit))
	}
	return known[name].forms[i]
}

// nameForm is what a metric may be called.
var nameForm = regexp.MustCompile(`^[a-z][a-z0-9]*(-[a-z0-9]+)*$`)

// CheckDeclared reports why a run cannot declare a metric: its name is not in
// the form "lower-case-words", or it is one of the catalogue with another unit
// or direction.
func CheckDeclared(m Metric) error {
	if !nameForm.MatchString(m.Name) {
		return fmt.Errorf("metric name %q is not of lower-case words and dashes", m.Name)
	}
	e, ok := known[m.Name]
	if !ok {
		return nil
	}
	for _, form := range append([]Metric{e.Metric}, e.forms...) {
		if form.Unit == m.Unit && form.Better == m.Better {
			return nil
		}
	}
	return fmt.Errorf("metric %q is declared in %q (%s is better); the catalogue has it in %q (%s is better)", m.Name, m.Unit, m.Better, e.Unit, e.Better)
}
