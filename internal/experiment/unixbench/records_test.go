package unixbench

import (
	"testing"

	"github.com/tarelab/tare/internal/study"
)

// builtIn is the study of this folder.
func builtIn(t *testing.T) study.Study {
	t.Helper()
	st, err := study.Parse("study.yaml", studyFile)
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// UnixBench's own windows are no short ones, though they differ by test.
func TestWindow(t *testing.T) {
	st := builtIn(t)
	for _, test := range []struct {
		variant, window string
		own             bool
	}{{"published", "10s to 1m0s", true}, {"quick", "300ms", false}, {"", "2s", false}} {
		varied := st
		if test.variant != "" {
			var err error
			if varied, err = st.Vary(test.variant); err != nil {
				t.Fatal(err)
			}
		}
		if window, own := windowOf(varied); window != test.window || own != test.own {
			t.Errorf("%s: %s, %v; want %s, %v", test.variant, window, own, test.window, test.own)
		}
	}
	if got := whetstoneOf(st); got != variantAsCompiled {
		t.Errorf("whetstone is %q", got)
	}
}
