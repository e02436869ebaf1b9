package studies

import (
	"strings"
	"testing"

	"github.com/tarelab/tare/internal/study"
	"github.com/tarelab/tare/internal/workload"
)

// Every built-in study is valid, down to the parameters of its workloads.
func TestStudiesAreValid(t *testing.T) {
	known := study.Known{Targets: []string{"host", "native", "runc", "crun", "youki", "runsc",
		"native/spawn", "native/pid", "native/uts", "native/ipc", "native/mount", "native/rootfs", "native/proc", "native/net", "native/cgroup", "native/cgroup-v1"}}
	for _, w := range workload.All() {
		known.Kinds = append(known.Kinds, w.Kind())
	}
	for _, name := range Names() {
		data, err := Read(name)
		if err != nil {
			t.Fatal(err)
		}
		s, err := study.Parse(name+".yaml", data)
		if err == nil {
			err = s.Validate(known)
		}
		if err != nil {
			t.Errorf("%v", err)
			continue
		}
		if s.ID != name || s.Question == "" {
			t.Errorf("study %s has id %q and question %q", name, s.ID, s.Question)
		}
		for _, w := range s.Workloads {
			if _, err := workload.Resolve(w.Kind, w.Params, w.Args); err != nil {
				t.Errorf("%s: workload %s: %v", name, w.Name, err)
			}
		}
	}
}

func TestReadUnknown(t *testing.T) {
	if _, err := Read("surveys"); err == nil || !strings.Contains(err.Error(), `did you mean "survey"?`) {
		t.Error(err)
	}
}
