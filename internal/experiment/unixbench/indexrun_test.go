package unixbench

import (
	"testing"
)

// A level says what it is: machines are compared by its name.
func TestCopiesLevel(t *testing.T) {
	for _, test := range []struct {
		copies, cpus int
		want         string
	}{
		{1, 4, "allcpu-1copy"}, {4, 4, "allcpu-ncopies"}, {3, 4, "allcpu-3copies"}, {8, 4, "allcpu-8copies"}, {1, 1, "allcpu-1copy"},
	} {
		if got := copiesLevel(test.copies, test.cpus); got != test.want {
			t.Errorf("%d copies on %d CPUs: %s, want %s", test.copies, test.cpus, got, test.want)
		}
	}
}
