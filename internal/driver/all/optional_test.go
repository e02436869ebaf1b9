package all

import (
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"slices"
	"testing"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/driver/host"
	"github.com/tarelab/tare/internal/driver/netpath"
	"github.com/tarelab/tare/internal/net"
)

// An optional interface that one type implements is a name for that type: what it
// offers belongs into Properties, as data or as a function.
func TestOptionalInterfacesHaveTwoImplementations(t *testing.T) {
	drivers := Drivers(driver.Lab{})
	drivers = append(drivers, netpath.New(driver.Lab{}, drivers[0], host.New(driver.Lab{}), net.Bridge))
	implemented := map[string]reflect.Type{
		"Decorator":     reflect.TypeFor[driver.Decorator](),
		"SessionDriver": reflect.TypeFor[driver.SessionDriver](),
		"Namer":         reflect.TypeFor[driver.Namer](),
		"Sweeper":       reflect.TypeFor[driver.Sweeper](),
		"Hoster":        reflect.TypeFor[driver.Hoster](),
		"Located":       reflect.TypeFor[driver.Located](),
		"Staler":        reflect.TypeFor[driver.Staler](),
	}
	for _, name := range declared(t, "../optional.go") {
		want, known := implemented[name]
		if !known {
			t.Errorf("optional.go declares %s, which this test does not know: add it", name)
			continue
		}
		delete(implemented, name)
		var types []reflect.Type
		for _, d := range drivers {
			if of := reflect.TypeOf(d); of.Implements(want) && !slices.Contains(types, of) {
				types = append(types, of)
			}
		}
		if len(types) < 2 {
			t.Errorf("%s has the implementations %v, and needs two", name, types)
		}
	}
	for name := range implemented {
		t.Errorf("optional.go does not declare %s", name)
	}
}

// declared are the interfaces of a file.
func declared(t *testing.T, file string) []string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	ast.Inspect(parsed, func(n ast.Node) bool {
		if spec, ok := n.(*ast.TypeSpec); ok {
			if _, ok := spec.Type.(*ast.InterfaceType); ok {
				names = append(names, spec.Name.Name)
			}
		}
		return true
	})
	return names
}
