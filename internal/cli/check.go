package cli

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/hostinfo"
	"github.com/tarelab/tare/internal/lab"
)

// checked is what tare check found, as --json prints it.
type checked struct {
	Host    hostinfo.Host   `json:"host"`
	Facts   []hostinfo.Fact `json:"facts"`
	Targets []checkedTarget `json:"targets"`
}

type checkedTarget struct {
	lab.Finding
	Works bool `json:"works"`
	// Boundary is what keeps a hostile payload from the machine (SECURITY.md).
	Boundary driver.Boundary `json:"boundary"`
	Why      string          `json:"why,omitempty"`
	Remedy   string          `json:"remedy,omitempty"`
}

func checkCommand(env *Env) *cobra.Command {
	var asJSON, fresh bool
	var on []string
	c := &cobra.Command{
		Use:   "check",
		Short: "Show what can be weighed here, each line proven by use",
		Long: `check proves each target by running a payload in it and seeing its exit code
come back, and each fact of the machine by using it. It works as any user and
says which facts need root. The column boundary says what keeps a hostile payload
from this machine (SECURITY.md). Proofs are kept until the next boot or a change of
the binary. Container hosts (vm/stock, vm/trimmed, ...) are looked at only where
--on names them: their parts take minutes to make. A run makes them, check does not.
With --on the exit code is 4 where one of the targets cannot run here.`,
		Example: `  tare check
  tare check --on host,native,runc --fresh
  tare check --json | jq '.targets[] | select(.works) | .target'`,
		Args: exactArgs(0),
		RunE: func(c *cobra.Command, _ []string) error {
			if err := noTarget(c.Flags(), on); err != nil {
				return usageError{err}
			}
			laboratory, err := lab.Open(c.Context(), env.config(c))
			if err != nil {
				return err
			}
			drivers, err := laboratory.Drivers(c.Context(), on...)
			if err != nil {
				return errors.Join(err, laboratory.Close())
			}
			if len(on) == 0 {
				drivers = slices.DeleteFunc(slices.Clone(drivers), func(d driver.Driver) bool { return d.Properties().ContainerHost() != nil })
			}
			found := checked{Host: hostinfo.Gather(), Facts: hostinfo.Probe(c.Context())}
			findings := laboratory.Check(c.Context(), drivers, fresh)
			for i, f := range findings { // one for each driver, in their order
				t := checkedTarget{Finding: f, Works: f.Err == nil, Boundary: drivers[i].Properties().Boundary}
				var cannot *driver.CannotError
				if errors.As(f.Err, &cannot) {
					t.Why, t.Remedy = cannot.Lacks, cannot.Remedy
				} else if f.Err != nil {
					t.Why = f.Err.Error()
				}
				found.Targets = append(found.Targets, t)
			}
			lab.ProveKVM(found.Facts, findings)
			for _, note := range laboratory.Notes() {
				fmt.Fprintln(env.Stderr, "note:", note)
			}
			untidy := laboratory.Close()
			if err := c.Context().Err(); err != nil { // what was not asked any more, cannot
				return errors.Join(err, untidy)
			}
			if asJSON {
				untidy = errors.Join(env.printJSON(found), untidy)
			} else {
				env.printCheck(found)
			}
			if len(on) > 0 && untidy == nil { // a laboratory that failed counts for more
				return found.asked()
			}
			return untidy
		},
	}
	jsonFlag(c, &asJSON)
	c.Flags().StringSliceVar(&on, "on", nil, "targets, by name (default: all but container hosts)")
	complete(c, "on", env.completeTargets)
	c.Flags().BoolVar(&fresh, "fresh", false, "prove everything anew")
	guestFlags(c.Flags())
	return c
}

// asked is an error where targets that --on names cannot run here.
func (c checked) asked() error {
	var lacking []string
	for _, t := range c.Targets {
		if !t.Works {
			lacking = append(lacking, t.Target)
		}
	}
	if len(lacking) == 0 {
		return nil
	}
	return &lab.LackError{What: strings.Join(lacking, ", ") + " cannot run here: standard output has the reasons"}
}

func (env *Env) printCheck(found checked) {
	h := found.Host
	fmt.Fprintf(env.Stdout, "%s, %s, kernel %s, cgroup %s, %d CPUs\n\n", h.CPU, h.OS, h.Kernel, h.Cgroup, h.CPUs)
	t := env.table("target", "", "boundary", "version", "note")
	told := map[string]string{} // where else a reason stands
	for _, f := range found.Facts {
		if f.Why != "" {
			told[f.Why] = "see " + f.Name
		}
	}
	for _, r := range found.Targets {
		t.AppendRow([]any{r.Target, yes(r.Works), string(r.Boundary), r.Facts.Version, note(r, told)})
	}
	t.Render()
	env.printRemedies(found.Targets)
	fmt.Fprintln(env.Stdout)
	t = env.table("fact", "", "value", "note")
	for _, f := range found.Facts {
		t.AppendRow([]any{f.Name, yes(f.OK), f.Value, joinNote(f.Why, f.Remedy)})
	}
	t.Render()
}

// printRemedies prints what brings the targets that do not work: outside of their table,
// which would break a command into pieces that nobody can copy.
func (env *Env) printRemedies(targets []checkedTarget) {
	of := map[string][]string{}
	var remedies []string
	for _, t := range targets {
		if t.Works || t.Remedy == "" {
			continue
		}
		if of[t.Remedy] == nil {
			remedies = append(remedies, t.Remedy)
		}
		of[t.Remedy] = append(of[t.Remedy], t.Target)
	}
	if len(remedies) == 0 {
		return
	}
	fmt.Fprint(env.Stdout, "\nWhat to do for those that cannot run:\n")
	for _, remedy := range remedies {
		fmt.Fprintf(visible{env.Stdout}, "  %s:\n    %s\n", strings.Join(of[remedy], ", "), remedy)
	}
}

func yes(ok bool) string {
	if ok {
		return "yes"
	}
	return "no"
}

// shortDigest is the length of a digest as docker images shows it, with its algorithm.
const shortDigest = len("sha256:") + 12

// note is what the table of targets says of one: why it does not work, or its notes, with
// digests cut short, and the name of a fact that says the same. --json has all.
func note(r checkedTarget, told map[string]string) string {
	if !r.Works {
		return r.Why
	}
	s := ""
	for _, k := range slices.Sorted(maps.Keys(r.Facts.Notes)) {
		if s != "" {
			s += ", "
		}
		value := r.Facts.Notes[k]
		if strings.HasPrefix(value, "sha256:") {
			value = value[:min(len(value), shortDigest)]
		}
		s += k + " " + cmp.Or(told[value], value)
	}
	return s
}

func joinNote(why, remedy string) string {
	if why != "" && remedy != "" {
		return why + "; " + remedy
	}
	return why + remedy
}
