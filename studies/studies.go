// Package studies holds the built-in studies: YAML files that anyone can copy
// and edit. docs/studies.md is their schema.
package studies

import (
	"embed"
	"fmt"
	"io/fs"
	"strings"

	"github.com/tarelab/tare/internal/study"
)

//go:embed *.yaml
var files embed.FS

// Names lists the built-in studies in alphabetical order.
func Names() []string {
	entries, err := fs.ReadDir(files, ".")
	if err != nil {
		panic(err) // the files are part of the program
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = strings.TrimSuffix(e.Name(), ".yaml")
	}
	return names
}

// Read gives the text of a built-in study. The error of an unknown name tells
// the nearest one.
func Read(name string) ([]byte, error) {
	data, err := files.ReadFile(name + ".yaml")
	if err == nil {
		return data, nil
	}
	names := Names()
	if near := study.Nearest(name, names); near != "" {
		return nil, fmt.Errorf("no built-in study %q: did you mean %q? A file is named with its path, as in ./%s.yaml", name, near, name)
	}
	return nil, fmt.Errorf("no built-in study %q: there are %s; a file is named with its path, as in ./%s.yaml", name, strings.Join(names, ", "), name)
}
