package study_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/tarelab/tare/internal/study"
)

func TestKernels(t *testing.T) {
	const text = `
targets: [a/vm, b/vm@bridge]
kernels: [debian/5.10, /k]
optional: [c/vm=/own]
workloads: [{kind: start, except: [b/vm@bridge]}]
`
	s, err := study.Parse("kernels.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time changes nothing
		s = s.OnKernels().WithDefaults()
		for what, c := range map[string]struct{ got, want []string }{
			"control":  {[]string{s.Control}, []string{"a/vm=debian/5.10"}},
			"targets":  {s.Targets, []string{"a/vm=debian/5.10", "a/vm=/k", "b/vm=debian/5.10@bridge", "b/vm=/k@bridge"}},
			"optional": {s.Optional, []string{"c/vm=/own"}},
			"except":   {s.Workloads[0].Except, []string{"b/vm=debian/5.10@bridge", "b/vm=/k@bridge"}},
		} {
			if !reflect.DeepEqual(c.got, c.want) {
				t.Errorf("%s: got %v, want %v", what, c.got, c.want)
			}
		}
	}
}

// A control that is not one of the targets has no kernel of its own.
func TestKernelsAndControl(t *testing.T) {
	s, err := study.Parse("kernels.yaml", []byte("targets: [a/vm]\nkernels: [debian/6.1]\ncontrol: host\nworkloads: [{kind: start}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	if s = s.OnKernels(); s.Control != "host" || s.Targets[0] != "a/vm=debian/6.1" {
		t.Errorf("control %s, targets %v", s.Control, s.Targets)
	}
	err = s.Validate(study.Known{Targets: []string{"host", "a/vm"}, Kinds: []string{"start"}})
	if err == nil || !strings.Contains(err.Error(), "takes no program and no kernel") {
		t.Errorf("a target that takes no kernel: %v", err)
	}
	if _, err = study.Parse("kernels.yaml", []byte("targets: [a/vm]\nkernels: [debian/6.1, debian/6.1]\nworkloads: [{kind: start}]\n")); err == nil || !strings.Contains(err.Error(), "stands twice") {
		t.Errorf("a kernel twice: %v", err)
	}
}
