package concurrentstart

import (
	"testing"

	"github.com/tarelab/tare/published"
)

// One number of each part, so that a part that is silently not read shows.
func TestNumbersArrive(t *testing.T) {
	d, err := published.Read(name, publishedFile, new(source))
	if err != nil {
		t.Fatal(err)
	}
	if got := d.Starts[3].Elapsed; got != 139.449586644 {
		t.Errorf("1000 containers took %v s", got)
	}
	if got := d.Starts[4].Cycles; got != 247774410634 {
		t.Errorf("2000 containers took %v cycles", got)
	}
	if d.Host.CPUs != 104 || d.Method.Threads != 100 {
		t.Errorf("%+v", d)
	}
}
