// Package kerneltools has the verbs around kernels for container hosts: tare boot
// takes boots apart, tare trim checks, makes and proves kernels, and tare bisect finds the
// one from which on a number is another. It uses the
// laboratory; the laboratory does not need it.
package kerneltools

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tarelab/tare/internal/experiment"
	"github.com/tarelab/tare/internal/lab"
)

// Commands are the verbs.
func Commands(l experiment.Laboratory) []*cobra.Command {
	v := verbs{l}
	return []*cobra.Command{v.bootCommand(), v.trimCommand(), v.bisectCommand()}
}

// verbs are the verbs on a laboratory.
type verbs struct{ experiment.Laboratory }

// standardOutput is how --output names it in place of a file.
const standardOutput = "-"

// notStandardOutput refuses it for an output that it cannot take.
func notStandardOutput(output, why string) error {
	if output == standardOutput {
		return &lab.InputError{Err: fmt.Errorf("--output -: %s: standard output cannot take it", why)}
	}
	return nil
}
