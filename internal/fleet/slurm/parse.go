package slurm

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/tarelab/tare/internal/fleet/engine"
)

// jobFormat has squeue print a line a job. The fields are of fixed width: none but the
// last, Slurm's own words, may hold a blank.
const jobFormat = "JobID:32,Name:80,State:40,NodeList:120,exit_code:20,Reason:200"

// parseJobs reads what squeue printed. Of two jobs with one name the first counts.
func parseJobs(out string) (map[string]engine.State, error) {
	all := map[string]engine.State{}
	ids := map[string]int{}
	for line := range strings.Lines(out) {
		line = strings.TrimRight(line, "\n")
		if strings.TrimSpace(line) == "" {
			continue
		}
		if len(line) < 292 {
			return nil, fmt.Errorf("squeue printed a line that tare cannot read: %.200q", line)
		}
		field := func(from, to int) string { return strings.TrimSpace(line[from:min(to, len(line))]) }
		name := field(32, 112)
		id, err := strconv.Atoi(field(0, 32))
		if err != nil || name == "" {
			return nil, fmt.Errorf("squeue printed a line that tare cannot read: %.200q", line)
		}
		if first, twice := ids[name]; twice && first < id {
			continue
		}
		ids[name], all[name] = id, stateOf(field(0, 32), field(112, 152), field(152, 272), field(272, 292), field(292, len(line)))
	}
	return all, nil
}

// phases are Slurm's states of jobs (squeue(1), JOB STATE CODES).
var phases = map[string]engine.Phase{
	"PENDING": engine.Waiting, "CONFIGURING": engine.Waiting, "REQUEUE_FED": engine.Waiting, "REQUEUE_HOLD": engine.Waiting, "RESV_DEL_HOLD": engine.Waiting, "SPECIAL_EXIT": engine.Waiting,
	"RUNNING": engine.Running, "COMPLETING": engine.Running, "RESIZING": engine.Running, "SIGNALING": engine.Running, "STAGE_OUT": engine.Running, "STOPPED": engine.Running, "SUSPENDED": engine.Running,
	"COMPLETED": engine.Ended, "FAILED": engine.Ended,
	"CANCELLED": engine.Cancelled, "REVOKED": engine.Cancelled,
	"NODE_FAIL": engine.Lost, "BOOT_FAIL": engine.Lost,
	"PREEMPTED": engine.Taken, "REQUEUED": engine.Taken,
	"TIMEOUT": engine.TooLong, "DEADLINE": engine.TooLong,
	"OUT_OF_MEMORY": engine.OutOfMemory,
}

// noOutput is how Slurm tells that a job's files could not be opened: as if a signal 53
// had ended it.
const noOutput = 128 + 53

func stateOf(id, word, machine, exit, reason string) engine.State {
	s := engine.State{ID: id, Phase: phases[word], Machine: machine, Reason: word}
	if s.Phase == "" {
		s.Phase = engine.Unknown
	}
	if reason != "None" {
		s.Message = reason
	}
	if s.Phase == engine.Ended {
		s.Exit = exitOf(exit)
	}
	if s.Exit != nil && *s.Exit == noOutput {
		s.Message += ": the machine cannot write the job's output; is its directory shared (--slurm-dir)?"
	}
	return s
}

// exitOf reads an exit code as squeue prints it: the status of wait(2) as a number, or
// CODE:SIGNAL as other commands of Slurm print it. nil for what is neither.
func exitOf(text string) *int {
	first, second, parted := strings.Cut(text, ":")
	code, err := strconv.Atoi(first)
	if err != nil || code < 0 {
		return nil
	}
	signal, err := strconv.Atoi(second)
	if parted && err != nil {
		return nil
	}
	if !parted {
		code, signal = code>>8&0xff, code&0x7f
	}
	if signal > 0 {
		code = 128 + signal
	}
	return &code
}

// node is a machine with what it is selected by.
type node struct {
	engine.Machine
	partitions, features []string
}

func (n node) matches(where engine.Selector) bool {
	for key, value := range where {
		switch {
		case key == "arch" && n.Arch != value,
			key == "partition" && !slices.Contains(n.partitions, value),
			key == "feature" && !slices.Contains(n.features, value):
			return false
		}
	}
	return true
}

// nodeFields finds the fields that are used: others, such as OS and Reason, hold blanks.
// Of one that comes twice, in somebody's Reason, the first counts.
var nodeFields = regexp.MustCompile(`(?:^| )(NodeName|Arch|CPUTot|State|ActiveFeatures|Partitions)=(\S*)`)

// parseNodes reads what scontrol show nodes --oneliner printed.
func parseNodes(out string) ([]node, error) {
	var all []node
	for line := range strings.Lines(out) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		fields := map[string]string{}
		for _, m := range nodeFields.FindAllStringSubmatch(line, -1) {
			if _, have := fields[m[1]]; !have {
				fields[m[1]] = m[2]
			}
		}
		name := fields["NodeName"]
		if !machineName.MatchString(name) || fields["State"] == "" {
			return nil, fmt.Errorf("scontrol printed a line that tare cannot read: %.200q", line)
		}
		cpus, err := strconv.Atoi(fields["CPUTot"])
		if err != nil {
			return nil, fmt.Errorf("scontrol printed a line that tare cannot read: CPUTot in %.200q", line)
		}
		n := node{Machine: engine.Machine{Name: name, Arch: archOf(fields["Arch"]), CPUs: cpus, State: strings.ToLower(fields["State"])},
			partitions: list(fields["Partitions"]), features: list(fields["ActiveFeatures"])}
		n.Up, n.Idle = useOf(fields["State"])
		n.Labels = map[string]string{"partition": strings.Join(n.partitions, ","), "feature": strings.Join(n.features, ","), "arch": n.Arch}
		all = append(all, n)
	}
	slices.SortFunc(all, func(a, b node) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

func list(text string) []string {
	if text == "" || text == "(null)" {
		return nil
	}
	return strings.Split(text, ",")
}

// archOf is uname's word as Go's.
func archOf(word string) string {
	if known := map[string]string{"x86_64": "amd64", "aarch64": "arm64", "loongarch64": "loong64", "mips64": "mips64le"}[word]; known != "" {
		return known
	}
	return word
}

// useOf reads a node's state, such as IDLE, MIXED+DRAIN or DOWN*: whether it takes jobs,
// and whether it runs none (sinfo(1), NODE STATE CODES).
func useOf(state string) (up, idle bool) {
	if strings.Contains(state, "*") { // it does not respond
		return false, false
	}
	words := strings.FieldsFunc(state, func(r rune) bool { return r == '+' || strings.ContainsRune("~#!%$@^-", r) })
	for _, w := range words {
		switch w {
		case "DOWN", "DRAIN", "DRAINED", "DRAINING", "FAIL", "FAILING", "ERROR", "UNKNOWN", "FUTURE", "NOT_RESPONDING", "MAINT", "INVALID_REG", "PERFCTRS":
			return false, false
		}
	}
	return len(words) > 0, len(words) > 0 && words[0] == "IDLE" && !slices.Contains(words, "RESERVED") && !slices.Contains(words, "COMPLETING")
}

// words are what a command said, on one line, without the names that it puts before.
func words(stderr string) string {
	var all []string
	for line := range strings.Lines(stderr) {
		line = said.ReplaceAllString(strings.TrimSpace(line), "")
		if line != "" && !slices.Contains(all, line) {
			all = append(all, line)
		}
	}
	return strings.Join(all, "; ")
}

var said = regexp.MustCompile(`^(sbatch|squeue|scancel|scontrol|slurm_[a-z_]+): ?(error|fatal)?:? *`)
