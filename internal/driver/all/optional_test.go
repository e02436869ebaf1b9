package all

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/driver/netpath"
	"github.com/tarelab/tare/internal/kerneltools/containerhost"
)

// An optional interface that one type implements is a name for that type: what it
// offers belongs into Properties, as data or as a function.
func TestOptionalInterfacesHaveTwoImplementations(t *testing.T) {
	// Of the drivers that stand in no list, or not on every architecture.
	types := []reflect.Type{reflect.TypeFor[*netpath.Driver](), reflect.TypeFor[*containerhost.Host]()}
	for _, d := range Drivers(driver.Lab{}) {
		if of := reflect.TypeOf(d); !slices.Contains(types, of) {
			types = append(types, of)
		}
	}
	implemented := map[string]reflect.Type{
		"Decorator":     reflect.TypeFor[driver.Decorator](),
		"SessionDriver": reflect.TypeFor[driver.SessionDriver](),
		"Namer":         reflect.TypeFor[driver.Namer](),
		"Sweeper":       reflect.TypeFor[driver.Sweeper](),
		"Hoster":        reflect.TypeFor[driver.Hoster](),
		"Located":       reflect.TypeFor[driver.Located](),
		"Staler":        reflect.TypeFor[driver.Staler](),
		"Binder":        reflect.TypeFor[driver.Binder](),
		"Controller":    reflect.TypeFor[driver.Controller](),
	}
	for _, name := range declared(t, "../optional.go") {
		want, known := implemented[name]
		if !known {
			t.Errorf("optional.go declares %s, which this test does not know: add it", name)
			continue
		}
		delete(implemented, name)
		have := slices.DeleteFunc(slices.Clone(types), func(of reflect.Type) bool { return !of.Implements(want) })
		if len(have) < 2 {
			t.Errorf("%s has the implementations %v, and needs two", name, have)
		}
	}
	for name := range implemented {
		t.Errorf("optional.go does not declare %s", name)
	}
}

// Only driver.As asserts what a driver offers: an assertion elsewhere does not look
// through decorators, and one to a nameless interface is declared nowhere.
func TestNobodyElseAssertsADriversType(t *testing.T) {
	looked := 0
	for _, root := range []string{"../../../internal", "../../../cmd", "../../../bench"} {
		err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			looked++
			files := token.NewFileSet()
			parsed, err := parser.ParseFile(files, path, nil, 0)
			if err != nil {
				return err
			}
			ast.Inspect(parsed, func(n ast.Node) bool {
				if a, ok := n.(*ast.TypeAssertExpr); ok && offered(a.Type) {
					t.Errorf("%s: use driver.As, with an interface that internal/driver/optional.go declares", files.Position(a.Pos()))
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if looked < 100 {
		t.Errorf("looked at %d files", looked)
	}
}

// offered reports whether an assertion's type is one of package driver, or an interface
// without a name.
func offered(of ast.Expr) bool {
	switch of := of.(type) {
	case *ast.InterfaceType:
		return true
	case *ast.SelectorExpr:
		from, ok := of.X.(*ast.Ident)
		return ok && from.Name == "driver"
	}
	return false
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
