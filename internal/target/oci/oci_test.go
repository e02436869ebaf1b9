package oci

import (
	"testing"

	"github.com/tarelab/tare/internal/target/targettest"
)

// contract runs the suite on the runtime of that name.
func contract(t *testing.T, name string) {
	t.Helper()
	lab := targettest.New(t)
	for _, r := range Runtimes() {
		if r.Name != name {
			continue
		}
		missing := r
		missing.Binary = r.Binary + "-that-is-missing"
		targettest.Run(t, New(lab, r), targettest.Options{Lab: lab, Missing: New(lab, missing), MissingName: missing.Binary})
		return
	}
	t.Fatalf("no runtime %q", name)
}

func TestRunc(t *testing.T)  { contract(t, "runc") }
func TestCrun(t *testing.T)  { contract(t, "crun") }
func TestYouki(t *testing.T) { contract(t, "youki") }
func TestRunsc(t *testing.T) { contract(t, "runsc") }
