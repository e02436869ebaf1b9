// Package slurm tests fleets on a real Slurm: a cluster of virtual nodes on this machine,
// made from nothing and taken away. make test-fleet runs it.
package slurm

import (
	"flag"
	"os"
	"testing"
)

var tare = flag.String("tare", "", "absolute path of tare; without it nothing is tested")

// needed is the path of tare. Without -tare the test is skipped: make test-fleet gives it.
func needed(t *testing.T) string {
	t.Helper()
	if *tare == "" {
		t.Skip("clusters are made by make test-fleet alone, which gives -tare")
	}
	if os.Geteuid() != 0 {
		t.Fatal("nodes are namespaces: run this test as root")
	}
	return *tare
}
