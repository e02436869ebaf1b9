package study

import (
	"strings"
	"testing"
)

// What levels may get of the machine, and what runs next to them, is read and checked.
func TestLevelsWithLoads(t *testing.T) {
	const text = `
targets: [host, native]
workloads:
  - {name: cpu, kind: unix-dhrystone2}
  - {name: disk, kind: slice-write-fsync, environments: [alone]}
environments:
  - {name: alone}
  - {name: busy, shares: 512, cpuset: rest, mems: "0", load: {kind: unix-dhrystone2, instances: cpus, idle: true, params: {copies: "2"}}}
optional-environments:
  - {name: four, cpuset: node-0, image: host, page-cache: cold}
`
	s, err := Parse("levels.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	known := Known{Targets: []string{"host", "native", "docker"}, Kinds: []string{"unix-dhrystone2", "slice-write-fsync"}}
	if err := s.Validate(known); err != nil {
		t.Fatal(err)
	}
	if l := s.Environments[1].Load; l == nil || l.On() != LoadTarget || !l.Idle || l.Instances != PerCPU || l.Params["copies"] != "2" {
		t.Errorf("load %+v", l)
	}
	if !s.Wants("native") || !s.HasLoad() {
		t.Error("the load's target is not wanted")
	}
	cells, _ := s.Expand([]string{"host", "native"})
	for _, c := range cells {
		if c.Workload == "disk" && c.Environment != "alone" {
			t.Errorf("cell %s: the workload is of one environment", c.ID)
		}
	}
	chosen, err := s.SelectEnvironments([]string{"busy", "four"})
	if err != nil || len(chosen.Environments) != 2 || len(chosen.OptionalEnvironments) != 0 || len(chosen.Measured()) != 1 {
		t.Errorf("%v: %+v, measured %+v", err, chosen.Environments, chosen.Measured())
	}
}

func TestLevelsWithLoadsAreRefused(t *testing.T) {
	for text, says := range map[string]string{
		"environments: [{name: a, shares: 1}]":                                         "1 shares: the kernel takes 2 to 262144",
		"environments: [{name: a, idle: true, shares: 4}]":                             "leave one of idle and shares out",
		"environments: [{mems: all}]":                                                  "is not a list of NUMA nodes",
		"environments: [{name: a, page-cache: hot}]":                                   "page-cache",
		"environments: [{page-cache: cold}]":                                           "needs a name",
		"environments: [{load: {kind: unix-syscall}}]":                                 "a level with a load needs a name",
		"environments: [{name: a, load: {instances: 2}}]":                              "a load needs the kind of its workload",
		"environments: [{name: a, load: {kind: unix-syscall, instances: none}}]":       "is not a number of instances",
		"environments: [{name: a, load: {kind: unix-syscal}}]":                         `did you mean "unix-syscall"`,
		"environments: [{name: a, load: {kind: unix-syscall, target: nativ}}]":         `did you mean "native"`,
		"environments: [{name: a, load: {kind: unix-syscall, cpuset: some}}]":          "is not a list of CPUs",
		"optional-environments: [{cpuset: first-4}]":                                   "an optional level needs a name",
		"environments: [{name: a}]\noptional-environments: [{name: a}]":                "a second level is named",
		"environments: [{name: a}]\nworkloads: [{kind: start, environments: [b]}]":     "environment of the study",
		"optional-environments: [{name: a, load: {kind: unix-syscall, instances: 0}}]": "is not a number of instances",
	} {
		whole := "targets: [host]\n" + text + "\n"
		if !strings.Contains(text, "workloads:") {
			whole += "workloads: [{kind: start}]\n"
		}
		s, err := Parse("bad.yaml", []byte(whole))
		if err == nil {
			err = s.Validate(Known{Targets: []string{"host", "native"}, Kinds: []string{"start", "unix-syscall"}})
		}
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", text, err, says)
		}
	}
}

func TestPerCPUTimes(t *testing.T) {
	for value, want := range map[string]int{"cpus": 1, "1xcpus": 1, "16xcpus": 16, "": 0, "4": 0, "0xcpus": 0, "-1xcpus": 0, "xcpus": 0, "2xcpu": 0, "2cpus": 0} {
		if got, ok := PerCPUTimes(value); got != want || ok != (want > 0) {
			t.Errorf("%q: %d, %v", value, got, ok)
		}
	}
}
