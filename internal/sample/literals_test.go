package sample

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// ordinary are names of metrics that are words of their own as well: of commands,
// files, cgroup controllers, columns. They are refused only where they name a
// metric: as an index of values, or next to a field Metric or Name of a metric.
var ordinary = []string{
	"agent", "asleep", "branches", "connections", "counted", "cpu", "created", "cycles", "dirty", "docker0", "elapsed", "engine", "evenness",
	"events", "firmware", "init", "instructions", "kernel", "load", "lost", "mapped", "migrations", "modules", "off", "overlap", "packets",
	"rate", "reads", "ready", "removal", "root", "rtt", "run", "runnable", "score", "silent", "started", "steal", "task", "vmm", "wall", "writes",
}

func TestMetricsAreNamedByTheirConstants(t *testing.T) {
	files := 0
	for _, root := range []string{"cmd", "internal", "bench"} {
		err := filepath.WalkDir(filepath.Join("../..", root), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.Contains(path, "internal/sample/") {
				return err
			}
			files++
			src, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for _, found := range retyped(t, path, src) {
				t.Errorf("%s: name the metric by its constant of package sample", found)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if files < 100 {
		t.Errorf("only %d files were read", files)
	}
}

func TestRetypedNameIsFound(t *testing.T) {
	for src, want := range map[string]int{
		`var x = "cpu-user"`:                             1,
		`var x = r.Values["cpu"]`:                        1,
		`var x = r.Values["wall"][0]`:                    1,
		`var x = V{Metric: "ready"}`:                     1,
		`var x = m.Metric.Name == "rtt"`:                 1,
		`var x = "client-cycles"`:                        1,
		`var x = "cpu"`:                                  0,
		`var x = []string{"run", "--rm"}`:                0,
		"type t struct { x int `json:\"peak-memory\"` }": 0,
	} {
		if got := retyped(t, "x.go", []byte("package x\n"+src+"\n")); len(got) != want {
			t.Errorf("%s: found %q, want %d", src, got, want)
		}
	}
}

// nameOf is a source text after which a metric's name follows.
var nameOf = regexp.MustCompile(`(?i)(values|metric\.name|\bm\.name|metrics)$`)

// retyped are the places where a name of the catalogue is a literal.
func retyped(t *testing.T, path string, src []byte) []string {
	t.Helper()
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, src, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	text := func(n ast.Node) string { return string(src[set.Position(n.Pos()).Offset:set.Position(n.End()).Offset]) }
	names := map[ast.Expr]bool{} // literals that surely name a metric
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.IndexExpr:
			names[n.Index] = nameOf.MatchString(text(n.X))
		case *ast.KeyValueExpr:
			names[n.Value] = text(n.Key) == "Metric"
		case *ast.BinaryExpr:
			names[n.Y] = nameOf.MatchString(text(n.X))
		}
		return true
	})
	var found []string
	ast.Inspect(file, func(n ast.Node) bool {
		if _, tag := n.(*ast.Field); tag {
			return false
		}
		literal, ok := n.(*ast.BasicLit)
		if !ok || literal.Kind != token.STRING {
			return true
		}
		name, err := strconv.Unquote(literal.Value)
		if err != nil || !Known(name) || slices.Contains(ordinary, name) && !names[literal] {
			return true
		}
		found = append(found, set.Position(literal.Pos()).String()+": "+literal.Value)
		return true
	})
	return found
}
