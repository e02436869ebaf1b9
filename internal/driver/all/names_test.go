package all

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The name of an engine, a runtime or a VMM, and the words that only it knows, stand
// in the files with its name. Others ask data or an interface, so that a new one is a
// file and a line.
func TestNamesStandInTheirOwnFiles(t *testing.T) {
	runtimes := `\b(runc|crun|runsc|youki|kata)\b`
	for _, c := range []struct {
		dir   string
		words string
		files []string // that may have them, by the beginning of their names
	}{
		{"../engine", `(?i)docker`, []string{"docker"}},
		{"../engine", `(?i)podman|conmon`, []string{"podman"}},
		{"../engine", `(?i)containerd`, []string{"containerd"}},
		{"../engine", runtimes, []string{"docker", "podman", "containerd"}},
		{"../oci", `\brunc\b`, []string{"runc"}},
		{"../oci", `\bcrun\b`, []string{"crun"}},
		{"../oci", `\brunsc\b`, []string{"runsc"}},
		{"../oci", `\byouki\b`, []string{"youki"}},
		{"../../vmm", `(?i)qemu`, []string{"qemu", "qmp", "stratovirt", "virtiofsd"}}, // whose firmware, and which, distributions ship with QEMU
		{"../../vmm", `(?i)stratovirt`, []string{"stratovirt"}},
		{"../../vmm", `(?i)firecracker`, []string{"firecracker"}},
		{"../../vmm", `(?i)cloud-?hypervisor`, []string{"cloudhypervisor"}},
		{"../vm", `(?i)qemu|stratovirt|firecracker|cloud-?hypervisor`, nil},
		{"../netpath", `(?i)docker|podman|containerd|qemu|` + runtimes, nil},
		{"../launch", `(?i)docker|podman|containerd|qemu|` + runtimes, nil},
	} {
		word := regexp.MustCompile(c.words)
		looked := 0
		for _, file := range sources(t, c.dir) {
			name := filepath.Base(file)
			if slices.ContainsFunc(c.files, func(own string) bool { return strings.HasPrefix(name, own) }) {
				continue
			}
			looked++
			for _, text := range literals(t, file) {
				if word.MatchString(text) {
					t.Errorf("%s has %s, which belongs into the files %q*", file, text, c.files)
				}
			}
		}
		if looked == 0 {
			t.Errorf("%s has no source files", c.dir)
		}
	}
}

// sources are the Go files of a folder, without tests.
func sources(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".go") && !strings.HasSuffix(e.Name(), "_test.go") {
			files = append(files, filepath.Join(dir, e.Name()))
		}
	}
	return files
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
