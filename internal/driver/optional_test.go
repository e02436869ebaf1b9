package driver_test

import (
	"testing"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/driver/fake"
)

type located struct {
	*fake.Driver
	path string
}

func (l located) Locate() (string, error) { return l.path, nil }

type around struct{ driver.Driver }

func (a around) Unwrap() driver.Driver { return a.Driver }

// locatedAround is a decorator with a program of its own.
type locatedAround struct{ around }

func (locatedAround) Locate() (string, error) { return "/outer", nil }

// A decorator has what its inner driver has, however many are between, and its own
// first.
func TestAsLooksThroughDecorators(t *testing.T) {
	inner := located{fake.New("inner", nil), "/inner"}
	for name, c := range map[string]struct {
		d    driver.Driver
		path string // "" is not located
	}{
		"no driver":        {nil, ""},
		"without":          {fake.New("without", nil), ""},
		"itself":           {inner, "/inner"},
		"decorated":        {around{inner}, "/inner"},
		"twice":            {around{around{inner}}, "/inner"},
		"around none":      {around{fake.New("without", nil)}, ""},
		"the outer one's":  {locatedAround{around{inner}}, "/outer"},
		"around the outer": {around{locatedAround{around{inner}}}, "/outer"},
	} {
		l, ok := driver.As[driver.Located](c.d)
		if ok != (c.path != "") {
			t.Errorf("%s: located is %t", name, ok)
			continue
		}
		if !ok {
			continue
		}
		if path, err := l.Locate(); err != nil || path != c.path {
			t.Errorf("%s: %s, %v, want %s", name, path, err, c.path)
		}
	}
	if d, ok := driver.As[*fake.Driver](around{fake.New("concrete", nil)}); !ok || d.Name() != "concrete" {
		t.Error("a driver's own type is not found behind a decorator")
	}
}
