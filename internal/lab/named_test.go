package lab

import (
	"context"
	"strings"
	"testing"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/driver/fake"
)

// namer is a driver beside which there is another one.
type namer struct{ *fake.Driver }

func (n namer) Named(_ context.Context, name string) driver.Driver {
	if name == "fake/there" {
		return fake.New(name, nil)
	}
	return nil
}

// What a driver finds by its name is a target like those of the list, with or without
// a path; what nobody finds is refused with the nearest name.
func TestTargetsByName(t *testing.T) {
	l := &Lab{drivers: []driver.Driver{fake.New("host", nil), namer{fake.New("fake", nil)}}}
	for range 2 {
		found, err := l.Drivers(t.Context(), "fake/there", "fake/there@bridge")
		if err != nil || len(found) != 1 || found[0].Name() != "fake/there" || len(l.drivers) != 3 {
			t.Errorf("%v, %v of %d", found, err, len(l.drivers))
		}
	}
	if _, err := l.Drivers(t.Context(), "fake/thera"); err == nil || !strings.Contains(err.Error(), `did you mean "fake/there"`) {
		t.Errorf("%v", err)
	}
}
