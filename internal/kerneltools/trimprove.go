package kerneltools

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/kerneltools/proof"
	"github.com/tarelab/tare/internal/lab"
)

// trimProveFlags are the options of tare trim prove.
type trimProveFlags struct {
	vm    string
	quick bool
	json  bool
}

func (v verbs) trimProveCommand() *cobra.Command {
	var f trimProveFlags
	c := &cobra.Command{
		Use:   "prove KERNEL",
		Short: "Put a kernel to the proof that containers run in it",
		Long: `prove boots a kernel once as a container host, with systemd and Docker, and says
of each check whether it passed: docker run, a bridge with an address, a packet
through MASQUERADE, a published port, an overlay2 write, limits of memory, CPU and
processes, seccomp, a build, fifty containers at once, crun, runc, containerd,
podman, a clean shutdown. It is the proof of container-vm-trim and of trim build
--minimize. KERNEL is a file (a bzImage or an ELF image; everything that the host
needs is built in, for it gets no initramfs), or a container host such as
vm/trimmed, whose kernel is built where it is not kept. The disk is made the first
time, as for container-vm-trim. As root, x86-64 only. The exit code is 3 where a
check fails. --quick leaves out the limit of CPU, the build and the fifty
containers: a minute where the CPU is emulated, and the whole proof some ten.`,
		Example: `  tare trim prove trimmed/bzImage
  tare trim prove trimmed/vmlinux --vm qemu/microvm --quick
  tare trim prove vm/trimmed --json`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return v.trimProve(c, args[0], &f) },
	}
	flags := c.Flags()
	flags.StringVar(&f.vm, "vm", "", "the machine: qemu/q35 (the default) or qemu/microvm; a container host has its own")
	flags.BoolVar(&f.quick, "quick", false, "without the checks that take longest")
	flags.BoolVar(&f.json, "json", false, "print as JSON")
	return c
}

// shownProof is what --json prints.
type shownProof struct {
	Kernel string              `json:"kernel"`
	Quick  bool                `json:"quick"`
	Checks []driver.ProofCheck `json:"checks"`
}

func (v verbs) trimProve(c *cobra.Command, kernel string, f *trimProveFlags) error {
	laboratory, err := lab.Open(c.Context(), v.Config(c))
	if err != nil {
		return err
	}
	began := time.Now() // for people
	checks, err := proof.Prove(c.Context(), laboratory, kernel, f.vm, f.quick)
	if err := errors.Join(err, laboratory.Close()); err != nil {
		return notBuilt(err)
	}
	failed := slices.DeleteFunc(slices.Clone(checks), driver.ProofCheck.Passed)
	if f.json {
		err = v.JSON(shownProof{kernel, f.quick, checks})
	} else {
		v.printProof(kernel, checks, len(failed), time.Since(began))
	}
	if err != nil || len(failed) == 0 {
		return err
	}
	return &lab.FailedError{What: fmt.Sprintf("%s fails %d of %d checks: %s", kernel, len(failed), len(checks), strings.Join(namesOf(failed), ", "))}
}

func (v verbs) printProof(kernel string, checks []driver.ProofCheck, failed int, took time.Duration) {
	fmt.Fprintf(v.Stdout(), "%s: %d of %d checks passed, in %s\n", kernel, len(checks)-failed, len(checks), took.Round(time.Second))
	var rows []table.Row
	for _, c := range checks {
		seconds := ""
		if c.Seconds > 0 {
			seconds = fmt.Sprintf("%.1f", c.Seconds)
		}
		rows = append(rows, table.Row{seconds, c.Name, firstWords(c.Result)})
	}
	v.part("The proof", 1, []any{"s", "check", "result"}, rows, 0)
	for _, c := range checks {
		if _, said, more := strings.Cut(c.Result, "\n"); more {
			fmt.Fprintf(v.Stdout(), "\n%s: the machine said\n%s\n", c.Name, said)
		}
	}
}

func namesOf(checks []driver.ProofCheck) []string {
	var names []string
	for _, c := range checks {
		names = append(names, c.Name)
	}
	return names
}
