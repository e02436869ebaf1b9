package store

import (
	"maps"
	"slices"
	"strings"
)

// hiddenValue stands in a manifest for the value of an environment variable, which may
// be a password.
const hiddenValue = "(kept in " + environmentFile + ")"

// hideEnvironment is the manifest without the values of its workloads' variables, also
// in tare's own command line, and these values by workload and name.
func (m Manifest) hideEnvironment() (Manifest, map[string]map[string]string) {
	values := map[string]map[string]string{}
	m.Study.Workloads = slices.Clone(m.Study.Workloads)
	for i, w := range m.Study.Workloads {
		if len(w.Env) == 0 {
			continue
		}
		values[w.Name] = w.Env
		hidden := map[string]string{}
		for name := range w.Env {
			hidden[name] = hiddenValue
		}
		m.Study.Workloads[i].Env = hidden
	}
	m.Command = hideFlags(m.Command)
	return m, values
}

// withEnvironment puts the values back.
func (m Manifest) withEnvironment(values map[string]map[string]string) Manifest {
	m.Study.Workloads = slices.Clone(m.Study.Workloads)
	for i, w := range m.Study.Workloads {
		if known, ok := values[w.Name]; ok {
			m.Study.Workloads[i].Env = maps.Clone(known)
		}
	}
	return m
}

// hideFlags is a command line without the values of the variables that --env sets.
// What follows "--" is the payload's own.
func hideFlags(argv []string) []string {
	hidden := slices.Clone(argv)
	for i := 0; i < len(hidden) && hidden[i] != "--"; i++ {
		var flag, pair string
		switch {
		case hidden[i] == "--env" && i+1 < len(hidden):
			i++
			pair = hidden[i]
		case strings.HasPrefix(hidden[i], "--env="):
			flag, pair = "--env=", strings.TrimPrefix(hidden[i], "--env=")
		default:
			continue
		}
		name, _, _ := strings.Cut(pair, "=")
		hidden[i] = flag + name + "=..."
	}
	return hidden
}
