package lab

import (
	"testing"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/study"
	"github.com/tarelab/tare/studies"
)

// unixStudy is the published study of the Unix tests as it is built in.
func unixStudy(t *testing.T) study.Study {
	t.Helper()
	text, ok := studies.Read(unixPublished)
	if !ok {
		t.Fatal("no such study")
	}
	st, err := study.Parse(unixPublished, text)
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// UnixBench's own windows are no short ones, though they differ by test.
func TestUnixWindow(t *testing.T) {
	st := unixStudy(t)
	for _, test := range []struct {
		variant, window string
		own             bool
	}{{"published", "10s to 1m0s", true}, {"quick", "400ms", false}, {"", "2s", false}} {
		varied := st
		if test.variant != "" {
			var err error
			if varied, err = st.Vary(test.variant); err != nil {
				t.Fatal(err)
			}
		}
		if window, own := unixWindow(varied); window != test.window || own != test.own {
			t.Errorf("%s: %s, %v; want %s, %v", test.variant, window, own, test.window, test.own)
		}
	}
	if got := whetstoneOf(st); got != analysis.WhetstoneKept {
		t.Errorf("whetstone is %q", got)
	}
}
