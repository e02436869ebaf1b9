package lab_test

import (
	"strings"
	"testing"
	"time"

	"github.com/tarelab/tare/internal/lab"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/study"
)

// The real servers answer on the host, in a bare container, in a runtime and on a bridge,
// and both sides count the same.
func TestApplicationsOnRealTargets(t *testing.T) {
	no := false
	params := map[string]string{"rate": "100", "time": "200ms", "connections": "2"}
	st := study.Study{
		ID: "applications", Targets: []string{"host", "runc", "native@bridge"}, Blocks: 1, Cold: &no, AA: &no, Timeout: 2 * time.Minute, Params: params,
		Workloads: []study.Workload{
			{Name: "redis", Kind: "redis"},
			{Name: "redis-write", Kind: "redis", Params: map[string]string{"operation": "write", "keep": "no"}},
			{Name: "nginx", Kind: "nginx"},
			{Name: "postgres", Kind: "postgres"},
			{Name: "postgres-write", Kind: "postgres", Params: map[string]string{"operation": "write", "keep": "no", "rate": "20"}},
			{Name: "echo", Kind: "net-open"},
		},
	}
	records := measure(t, st, func(string, lab.Event) {})
	if len(records) != 3*6 {
		t.Errorf("%d records, want 18", len(records))
	}
	for _, r := range records {
		if r.Failure != nil {
			t.Errorf("%s: %s %s", r.Cell, r.Failure.Message, r.Failure.Stderr)
			continue
		}
		served, failed, response := r.Values[sample.RequestsServed][0], r.Values[sample.RequestsFailed][0], r.Values[sample.Response][0]
		if served < 1 || failed != 0 || response <= 0 {
			t.Errorf("%s: %v served, %v failed, a response of %v s", r.Cell, served, failed, response)
		}
	}
}

// Each verb has its effect in runtimes and engines.
func TestLifecycleOnRealTargets(t *testing.T) {
	no := false
	st := study.Study{
		ID: "lifecycle", Targets: []string{"host", "runc", "crun"}, Optional: []string{"youki", "runsc", "containerd", "docker", "docker/cli", "podman"},
		Control: "runc", Blocks: 1, Cold: &no, AA: &no, Timeout: 2 * time.Minute,
		Workloads: []study.Workload{{Name: "verbs", Kind: "lifecycle", Params: map[string]string{"repeat": "2"}}},
	}
	records := measure(t, st, func(string, lab.Event) {})
	if len(records) < 2 {
		t.Errorf("%d records", len(records))
	}
	for _, r := range records {
		if strings.HasPrefix(r.Cell, "host/") {
			t.Errorf("%s has no verbs", r.Cell)
		}
		if r.Failure != nil {
			t.Errorf("%s: %s %s", r.Cell, r.Failure.Message, r.Failure.Stderr)
			continue
		}
		for _, metric := range []string{sample.VerbExec, sample.VerbPause, sample.VerbUnpause, sample.VerbStop} {
			if len(r.Values[metric]) != 1 || r.Values[metric][0] <= 0 {
				t.Errorf("%s: %s is %v", r.Cell, metric, r.Values[metric])
			}
		}
	}
}
