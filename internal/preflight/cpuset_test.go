package preflight

import (
	"strings"
	"testing"

	"github.com/tarelab/tare/internal/study"
)

func TestCPUsOf(t *testing.T) {
	allowed := []int{2, 3, 5}
	for _, c := range []struct {
		level  study.Environment
		cpuset string
		cpus   int
		says   string
	}{
		{level: study.Environment{}, cpus: 3},
		{level: study.Environment{CPUSet: "first"}, cpuset: "2", cpus: 1},
		{level: study.Environment{CPUSet: "first-3"}, cpuset: "2-3,5", cpus: 3},
		{level: study.Environment{CPUSet: "5,2-3,3"}, cpuset: "2-3,5", cpus: 3},
		{level: study.Environment{CPUs: 2.5}, cpus: 3},
		{level: study.Environment{CPUSet: "rest"}, cpuset: "3,5", cpus: 2},
		{level: study.Environment{CPUSet: "node-99"}, says: "this machine has no NUMA node 99"},
		{level: study.Environment{Mems: "99"}, says: "mems 99: memory of the NUMA node 99 may not be used here"},
		{level: study.Environment{Mems: "0"}, cpus: 3},
		{level: study.Environment{CPUSet: "first-4"}, says: "--cpuset or the study asks for 4 CPUs, and only 3 may be used here (2-3,5)"},
		{level: study.Environment{CPUSet: "0-2"}, says: "CPU 0-1 may not be used here, only 2-3,5"},
		{level: study.Environment{CPUSet: "3-2"}, says: "not a list of CPUs"},
		{level: study.Environment{CPUs: 3.5}, says: "the study asks for 3.5, and only 3 may be used"},
	} {
		got, cpus, err := CPUsOf(c.level, allowed)
		if c.says != "" {
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%+v: error %v, want %q", c.level, err, c.says)
			}
			continue
		}
		if err != nil || got != c.cpuset || len(cpus) != c.cpus {
			t.Errorf("%+v: cpuset %q, CPUs %v, %v", c.level, got, cpus, err)
		}
	}
	if _, _, err := CPUsOf(study.Environment{CPUSet: "rest"}, []int{3}); err == nil || !strings.Contains(err.Error(), "only CPU 3 may be used here") {
		t.Errorf("the rest of one CPU: %v", err)
	}
}
