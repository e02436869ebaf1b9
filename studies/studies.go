// Package studies holds the built-in studies that need no code: YAML files that
// anyone can copy and edit. docs/studies.md is their schema. A study with sections
// of its own is an experiment (internal/experiment), whose list names both.
package studies

import (
	"embed"
	"io/fs"
	"strings"
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

// Read gives the text of one of them; ok is false where there is none of the name.
func Read(name string) (data []byte, ok bool) {
	data, err := files.ReadFile(name + ".yaml")
	return data, err == nil
}
