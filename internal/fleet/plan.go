package fleet

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tarelab/tare/internal/fleet/engine"
)

// planSchema is the version of Plan on disk. A reader refuses any other.
const planSchema = 1

// Plan is what a fleet is to do. It is written once, before the first job.
type Plan struct {
	Schema  int       `json:"schema"`
	Token   string    `json:"token"` // stands in the names of all jobs
	Created time.Time `json:"created"`
	Tool    string    `json:"tool"` // tare's version
	Engine  string    `json:"engine"`
	Options []string  `json:"options,omitempty"` // the engine's own flags, as --NAME=VALUE
	// Args are those of tare on each machine.
	Args  []string        `json:"args"`
	Where engine.Selector `json:"where,omitempty"`
	Draw
	AtOnce     int           `json:"atOnce"`     // jobs in the engine at a time
	Time       time.Duration `json:"time"`       // of one job
	WaitAtMost time.Duration `json:"waitAtMost"` // for a machine; 0 for ever
	Attempts   int           `json:"attempts"`   // for each machine that is wanted
}

// How a fleet's machines were chosen.
const (
	Drawn  = "drawn"
	Census = "all"
	Named  = "named"
)

// Draw is which machines a fleet has, and how it came to them.
type Draw struct {
	How      string `json:"how"`
	Selected int    `json:"selected"` // machines that the user's selector names
	Eligible int    `json:"eligible"` // those of them that take jobs
	Seed     uint64 `json:"seed"`
	Wanted   int    `json:"wanted"`
	// Order are the machines. The first Wanted are the fleet's; the others take the place
	// of machines that are lost, in this order.
	Order []string `json:"order"`
}

// Choose chooses machines: "all", names with commas between them, or how many to draw at
// random. A draw takes idle machines first.
func Choose(machines []engine.Machine, nodes string, seed uint64) (Draw, error) {
	d := Draw{Selected: len(machines), Seed: seed}
	var idle, busy []string
	for _, m := range machines {
		switch {
		case m.Idle:
			idle = append(idle, m.Name)
		case m.Up:
			busy = append(busy, m.Name)
		}
	}
	d.Eligible = len(idle) + len(busy)
	count, err := strconv.Atoi(nodes)
	switch {
	case nodes == "all":
		d.How, d.Order = Census, slices.Sorted(slices.Values(slices.Concat(idle, busy)))
		d.Wanted = len(d.Order)
	case err == nil:
		d.How, d.Order, d.Wanted = Drawn, drawn(idle, busy, seed), count
	default:
		d.How, d.Order = Named, strings.Split(nodes, ",")
		d.Wanted = len(d.Order)
		return d, checkNames(d.Order, machines)
	}
	if d.Wanted < 1 || d.Wanted > d.Eligible {
		return d, fmt.Errorf("%s machines are wanted, and %d of the %d selected take jobs now%s", nodes, d.Eligible, d.Selected, notUp(machines))
	}
	return d, nil
}

// drawn orders machines at random: the idle ones, then the others.
func drawn(idle, busy []string, seed uint64) []string {
	rng := rand.New(rand.NewPCG(seed, 3)) // 3: the item of the plan; any constant would do
	for _, names := range [][]string{idle, busy} {
		slices.Sort(names)
		rng.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	}
	return slices.Concat(idle, busy)
}

// checkNames refuses names that no machine has, and one that comes twice. A machine that
// takes no jobs now may be named: its job waits.
func checkNames(names []string, machines []engine.Machine) error {
	var errs []error
	seen := map[string]bool{}
	for _, name := range names {
		if !slices.ContainsFunc(machines, func(m engine.Machine) bool { return m.Name == name }) {
			errs = append(errs, fmt.Errorf("no selected machine is called %q", name))
		}
		if seen[name] {
			errs = append(errs, fmt.Errorf("machine %q is named twice", name))
		}
		seen[name] = true
	}
	return errors.Join(errs...)
}

// notUp lists machines that take no jobs, with the engine's words.
func notUp(machines []engine.Machine) string {
	const most = 5
	var all []string
	for _, m := range machines {
		if !m.Up {
			all = append(all, m.Name+" is "+m.State)
		}
	}
	if len(all) > most {
		all = append(all[:most], fmt.Sprintf("and %d more", len(all)-most))
	}
	if len(all) == 0 {
		return ""
	}
	return ": " + strings.Join(all, ", ")
}

// Sentence says which machines the fleet has.
func (p Plan) Sentence() string {
	of := fmt.Sprintf("%d machines", p.Selected)
	if len(p.Where) > 0 {
		of += " with " + p.Where.String()
	}
	switch p.How {
	case Drawn:
		return fmt.Sprintf("%d of %s, drawn at random (seed %d), idle ones first", p.Wanted, of, p.Seed)
	case Census:
		return fmt.Sprintf("all %d of %s that take jobs", p.Wanted, of)
	}
	return fmt.Sprintf("%d of %s, named by the user", p.Wanted, of)
}

// notLabel matches what may not stand in a DNS label.
var notLabel = regexp.MustCompile(`[^a-z0-9]+`)

// jobOf is a job of the plan. slot counts the machines that are wanted, and attempt from 1.
func (p Plan) jobOf(slot int, machine string, attempt int) engine.Job {
	word := strings.Trim(notLabel.ReplaceAllString(strings.ToLower(machine), "-"), "-")
	name := fmt.Sprintf("tare-%s-%d-%d-%s", p.Token, slot, attempt, word)
	name = strings.TrimRight(name[:min(len(name), mostName)], "-")
	return engine.Job{Name: name, Fleet: p.Token, Machine: machine, Where: p.Where, Args: p.Args, Time: p.Time}
}

// isJob reports whether jobOf makes such a name: it becomes that of a file.
func (p Plan) isJob(name string) bool {
	rest, ok := strings.CutPrefix(name, "tare-"+p.Token+"-")
	return ok && len(name) <= mostName && jobWords.MatchString(rest)
}

// mostName is the length of a DNS label (RFC 1035).
const mostName = 63

// jobWords are a slot, an attempt and a machine.
var jobWords = regexp.MustCompile(`^[0-9]+-[0-9]+(-[a-z0-9]+)*$`)

// Jobs are the first attempts on all machines, to show them.
func (p Plan) Jobs() []engine.Job {
	var all []engine.Job
	for slot, machine := range p.Order[:p.Wanted] {
		all = append(all, p.jobOf(slot, machine, 1))
	}
	return all
}
