package lab

import (
	"context"
	"os"
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

// The path of a target's program is absolute in a plan, and its program is there.
func TestWithProgram(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for name, mode := range map[string]os.FileMode{"new": 0o755, "plain": 0o644} {
		if err := os.WriteFile(name, nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	machine := fake.New("vm", nil)
	machine.Props.Machine = &driver.Machine{}
	l := &Lab{drivers: []driver.Driver{fake.New("runc", nil), machine}}
	for name, want := range map[string]string{
		"": "", "runc": "runc", "a/b@bridge": "a/b@bridge", "runc=./new": "runc=" + dir + "/new", "a/b=" + dir + "/new": "a/b=" + dir + "/new",
		"runc=new@bridge": "runc=" + dir + "/new@bridge", "vm=plain": "vm=" + dir + "/plain", "vm=debian/6.1": "vm=debian/6.1", "vm=debian/6.1@bridge": "vm=debian/6.1@bridge",
	} {
		if got, err := l.withProgram(name); got != want || err != nil {
			t.Errorf("%q: %q, %v, want %q", name, got, err, want)
		}
	}
	for name, says := range map[string]string{
		"runc=": "the path of a program", "runc=./absent": "no such file", "runc=./plain": "is not an executable file", "runc=.": "is not a regular file", "vm=.": "is not a regular file", "runc=a b": "the path of a program",
	} {
		if got, err := l.withProgram(name); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %q, %v, want %q", name, got, err, says)
		}
	}
}
