package engine

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"strings"
	"testing"
)

// An engine's name, and what only it has, stands in the files with its name: others
// ask a flavor or a daemon.
func TestNamesStandInTheirOwnFiles(t *testing.T) {
	own := map[string]*regexp.Regexp{
		"docker":     regexp.MustCompile(`(?i)docker`),
		"podman":     regexp.MustCompile(`(?i)podman|conmon`),
		"containerd": regexp.MustCompile(`(?i)containerd`),
	}
	runtimes := regexp.MustCompile(`\b(runc|crun|runsc|youki|kata)\b`)
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	looked := 0
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".go") || strings.HasSuffix(f.Name(), "_test.go") {
			continue
		}
		looked++
		engine := ""
		for name := range own {
			if strings.HasPrefix(f.Name(), name) {
				engine = name
			}
		}
		for _, text := range literals(t, f.Name()) {
			for name, word := range own {
				if name != engine && word.MatchString(text) {
					t.Errorf("%s names %s: %s", f.Name(), name, text)
				}
			}
			if engine == "" && runtimes.MatchString(text) {
				t.Errorf("%s names a runtime: %s", f.Name(), text)
			}
		}
	}
	if looked < 10 {
		t.Errorf("looked at %d files", looked)
	}
}

// literals are the strings of a file, without the paths of its imports.
func literals(t *testing.T, file string) []string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	ast.Inspect(parsed, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.BasicLit:
			if n.Kind == token.STRING {
				texts = append(texts, n.Value)
			}
		}
		return true
	})
	return texts
}
