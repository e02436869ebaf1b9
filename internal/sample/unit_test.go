package sample

import (
	"strings"
	"testing"
)

func TestPrintedUnitsAreReadInTheirBase(t *testing.T) {
	for printed, want := range map[string]struct {
		base   Unit
		factor float64
	}{
		"s": {Seconds, 1}, "ms": {Seconds, 0.001}, "µs": {Seconds, 1e-6}, "MiB": {Bytes, 1048576}, "MB/s": {BytesPerSecond, 1e6},
		"Gbit/s": {BitsPerSecond, 1e9}, "%": {Count, 0.01}, "1/s": {PerSecond, 1},
	} {
		base, factor, ok := ReadUnit(printed)
		if !ok || base != want.base || factor != want.factor {
			t.Errorf("%s: %q, %v, %v", printed, base, factor, ok)
		}
	}
	for _, other := range []string{"", "S", "mb", "pages", "s "} {
		if base, _, ok := ReadUnit(other); ok {
			t.Errorf("%q was read as %q", other, base)
		}
	}
	for _, base := range []Unit{Seconds, Bytes, Count, PerSecond, BytesPerSecond, BitsPerSecond} {
		if got, factor, ok := ReadUnit(string(base)); !ok || got != base || factor != 1 || !strings.Contains(ReadUnits, string(base)) {
			t.Errorf("the base unit %q is read as %q times %v", base, got, factor)
		}
	}
}
