package unixbench

import (
	"strings"
	"testing"
)

// One number of each part, so that a part that is silently not read shows.
func TestNumbersArrive(t *testing.T) {
	d := loongson(t)
	ryzen, err := d.Scores("platforms-ncopies", "ryzen5")
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		what      string
		got, want float64
	}{
		{"table 2, whetstone, 4 containers", d.Tables["containers-4cpu-4copies"].Row("whetstone")[4], 798.6},
		{"table 5, ryzen, dhrystone2", ryzen["dhrystone2"], 8501.4},
		{"ryzen's threads", float64(d.Hosts["ryzen5"].Threads()), 8},
		{"8 containers, whetstone", d.EightContainers.WhetstoneNCopies, 794.5},
	} {
		if test.got != test.want {
			t.Errorf("%s: %v, want %v", test.what, test.got, test.want)
		}
	}
}

func TestPublicationRefuses(t *testing.T) {
	d := loongson(t)
	if _, err := d.Scores("platforms-ncopies", "sparc"); err == nil || !strings.Contains(err.Error(), "ryzen5") {
		t.Errorf("unknown machine: %v", err)
	}
	table := d.Tables["platforms-1copy"]
	table.Syscall = table.Syscall[:3]
	d.Tables["platforms-1copy"] = table
	if err := d.check(); err == nil || !strings.Contains(err.Error(), "syscall: 3 scores for 4") {
		t.Errorf("missing cell: %v", err)
	}
}
