package kerneltools

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/kerneltools/bisect"
	"github.com/tarelab/tare/internal/kerneltools/kconfig"
	"github.com/tarelab/tare/internal/kerneltools/trim"
	"github.com/tarelab/tare/internal/lab"
)

// configs are the two ends where they are configurations; nil where they are kernels.
func (f *bisectFlags) configs() (good, bad *kconfig.Config, err error) {
	if driver.IsRelease(f.good) && driver.IsRelease(f.bad) {
		return nil, nil, nil
	}
	good, noGood := readConfig(f.good)
	bad, noBad := readConfig(f.bad)
	switch {
	case noGood != nil && noBad != nil:
		return nil, nil, nil // an end that is no kernel either is refused as one
	case noGood != nil:
		return nil, nil, fmt.Errorf("%s is a configuration, and the other end is not: %w", f.bad, noGood)
	case noBad != nil:
		return nil, nil, fmt.Errorf("%s is a configuration, and the other end is not: %w", f.good, noBad)
	case len(f.between) > 0:
		return nil, nil, errors.New("--between goes with kernels, and --good and --bad are configurations")
	}
	return good, bad, nil
}

// configChain is the list of configurations between two. Each kernel is built when it is
// asked for, in a directory beside the log.
func (v verbs) configChain(c *cobra.Command, f *bisectFlags, good, bad *kconfig.Config) (chain bisect.Chain, of any, err error) {
	if f.source == "" {
		if good.Release() == "" {
			return chain, nil, &lab.InputError{Err: fmt.Errorf("%s does not say of which kernel it is: name its source with --source", f.good)}
		}
		f.source = "linux-source-" + good.Release()
	}
	build := trimBuildFlags{source: f.source, way: "bisect", vm: f.on}
	o := trim.Options{Arch: trim.X86, Jobs: runtime.NumCPU()}
	if err := v.trimSource(c, &build, &o); err != nil {
		return chain, nil, err
	}
	between, err := o.Between(c.Context(), good, bad)
	if err != nil {
		return chain, nil, notBuilt(err)
	}
	output, err := filepath.Abs(f.output)
	if err != nil {
		return chain, nil, &lab.InputError{Err: fmt.Errorf("--output: %w", err)}
	}
	chain.Names, chain.With = []string{f.good}, [][]string{nil}
	dirs := []string{"good"}
	for _, change := range between.Changes {
		chain.Names, chain.With, dirs = append(chain.Names, change.Option), append(chain.With, change.With), append(dirs, change.Symbol)
	}
	dirs[len(dirs)-1] = "bad"
	built := map[int]string{}
	chain.Kernel = func(ctx context.Context, at int) (string, error) {
		if built[at] == "" {
			r, err := between.Build(ctx, at, filepath.Join(output, dirs[at]), v.buildProgress(time.Now()))
			v.ClearLine()
			if no := new(trim.RefusedError); errors.As(err, &no) {
				return "", &bisect.SkipError{Why: chain.Names[at] + ": " + no.Why}
			}
			if err != nil {
				return "", notBuilt(err)
			}
			built[at] = r.Image
		}
		return built[at], nil
	}
	v.tellConfigs(f, between, chain.Names)
	return chain, []any{o.Source, between.Good.Values, between.Bad.Values}, nil
}

// tellConfigs names the options that make the list, and those that cannot.
func (v verbs) tellConfigs(f *bisectFlags, b *trim.Between, names []string) {
	if len(b.Ignored) > 0 {
		fmt.Fprintf(v.Stderr(), "! %d options differ in the files and are the same after make olddefconfig: %s\n", len(b.Ignored), someOf(b.Ignored))
	}
	fmt.Fprintf(v.Stderr(), "%d configurations between %s and %s: %s\n", len(names), f.good, f.bad, strings.Join(names, ", "))
}
