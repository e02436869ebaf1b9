// Package needs carries what container software and virtual machines need of
// their kernel, as data with reasons and sources. Anyone can copy a file, edit
// it and name it by its path.
package needs

import (
	"embed"
	"fmt"
	"io/fs"
	"strings"

	"github.com/tarelab/tare/internal/kerneltools/kconfig"
	"github.com/tarelab/tare/internal/limit"
	"github.com/tarelab/tare/internal/study"
	"github.com/tarelab/tare/internal/sys"
)

//go:embed *.yaml
var files embed.FS

// IDs are the built-in needs, sorted.
func IDs() []string {
	names, err := fs.Glob(files, "*.yaml") // sorted by name; fails only for a bad pattern
	if err != nil {
		panic(err)
	}
	for i, n := range names {
		names[i] = strings.TrimSuffix(n, ".yaml")
	}
	return names
}

// Load reads a need: a built-in one by its id, or a file, which is named with
// a path that holds a slash. The error of an unknown id names the nearest.
func Load(id string) (*kconfig.Need, error) {
	var data []byte
	var err error
	if strings.Contains(id, "/") {
		data, err = readFile(id)
	} else if data, err = files.ReadFile(id + ".yaml"); err != nil {
		if near := study.Nearest(id, IDs()); near != "" {
			return nil, fmt.Errorf("no need %q: did you mean %q?", id, near)
		}
		return nil, fmt.Errorf("no need %q: there are %s; a file is named with its path, as in ./%s.yaml", id, strings.Join(IDs(), ", "), id)
	}
	if err != nil {
		return nil, fmt.Errorf("need: %w", err)
	}
	n, err := kconfig.ParseNeed(data)
	if err != nil {
		return nil, fmt.Errorf("need %s: %w", id, err)
	}
	return n, nil
}

// readFile reads a user's file, bounded, by descriptor.
func readFile(name string) ([]byte, error) {
	f, err := sys.OpenGiven(name, limit.Need)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return limit.Need.ReadAll(f)
}
