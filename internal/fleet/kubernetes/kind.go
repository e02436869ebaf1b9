package kubernetes

import (
	"fmt"

	"github.com/spf13/pflag"

	"github.com/tarelab/tare/internal/fleet/engine"
	"github.com/tarelab/tare/internal/limit"
	"github.com/tarelab/tare/internal/sys"
)

// Kind is Kubernetes for internal/fleet/all.
func Kind() engine.Kind {
	return engine.Kind{Name: "kubernetes", Options: func(flags *pflag.FlagSet) func(engine.Site) (engine.Engine, error) {
		var o Options
		var patch string
		flags.StringVar(&o.Image, "job-image", "", "kubernetes: image of tare and what it weighs, as REFERENCE@sha256:DIGEST")
		flags.StringVar(&o.Namespace, "namespace", "", "kubernetes: where jobs are made (default: that of the context)")
		flags.StringVar(&o.Context, "context", "", "kubernetes: the kubeconfig's context (default: its current one)")
		flags.StringVar(&patch, "job-patch", "", "kubernetes: file that changes each Job: a merge patch, or a JSON patch, in YAML or JSON")
		return func(engine.Site) (engine.Engine, error) {
			var err error
			if o.Patch, err = readPatch(patch); err != nil {
				return nil, err
			}
			return New(o)
		}
	}}
}

func readPatch(file string) (Patch, error) {
	if file == "" {
		return Patch{}, nil
	}
	f, err := sys.OpenGiven(file, limit.JobPatch)
	if err != nil {
		return Patch{}, fmt.Errorf("--job-patch: %w", err)
	}
	defer func() { _ = f.Close() }() // only read
	data, err := limit.JobPatch.ReadAll(f)
	if err != nil {
		return Patch{}, fmt.Errorf("--job-patch: %w", err)
	}
	p, err := ParsePatch(data)
	if err != nil {
		return Patch{}, fmt.Errorf("--job-patch %s: %w", file, err)
	}
	return p, nil
}
