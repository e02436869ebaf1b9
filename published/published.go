// Package published carries measurements that others have published, as data
// with their citation, so that a run can be put beside them and their claims
// recomputed. The files are read strictly: a key that the types below do not
// know is an error, so that no number is silently left out.
package published

import (
	"embed"
	"fmt"
	"io/fs"
	"strings"

	"github.com/agext/levenshtein"
	"github.com/goccy/go-yaml"
)

//go:embed *.yaml
var files embed.FS

// Source is what every publication has.
type Source struct {
	ID       string `yaml:"id"`       // the file's name without its ending
	Citation string `yaml:"citation"` // author, title, place, year
	Question string `yaml:"question"` // what the measurements answer
}

// Head gives the common part of any publication.
func (s Source) Head() Source { return s }

// Read reads the publication of an experiment, strictly, into its type. The id must
// be the experiment's.
func Read[P Publication](id string, data []byte, into P) (P, error) {
	if err := yaml.UnmarshalWithOptions(data, into, yaml.Strict()); err != nil {
		return into, fmt.Errorf("published measurements %s: %w", id, err)
	}
	if err := check(id, into); err != nil {
		return into, fmt.Errorf("published measurements %s: %w", id, err)
	}
	return into, nil
}

// Cells are the numbers of a publication by their path: "results.kernel.before". What
// is below a list has no name, and is left to who knows its rows.
func Cells(id string, data []byte) (map[string]float64, error) {
	var all map[string]any
	if err := yaml.Unmarshal(data, &all); err != nil {
		return nil, fmt.Errorf("published measurements %s: %w", id, err)
	}
	cells := map[string]float64{}
	flatten(cells, "", all)
	return cells, nil
}

func flatten(cells map[string]float64, path string, value any) {
	switch v := value.(type) {
	case map[string]any:
		for key, below := range v {
			flatten(cells, strings.TrimPrefix(path+"."+key, "."), below)
		}
	case float64:
		cells[path] = v
	case uint64:
		cells[path] = float64(v)
	case int64:
		cells[path] = float64(v)
	}
}

// Publication is a type that embeds Source: one of this package, or an experiment's
// own.
type Publication interface{ Head() Source }

// A kind makes the empty value that a file is read into.
var kinds = map[string]func() Publication{
	"container-vm-trim": func() Publication { return new(ContainerVMTrim) },
}

// IDs are the publications there are, sorted.
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

// Load reads one publication. The error of an unknown id names the nearest.
func Load(id string) (Publication, error) {
	newKind, ok := kinds[id]
	if !ok {
		return nil, fmt.Errorf("no published measurements %q%s", id, nearest(id))
	}
	data, err := files.ReadFile(id + ".yaml")
	if err != nil {
		return nil, fmt.Errorf("published measurements %s: %w", id, err)
	}
	return Read(id, data, newKind())
}

// LoadAs is Load for a caller that knows the type.
func LoadAs[P Publication](id string) (P, error) {
	var none P
	p, err := Load(id)
	if err != nil {
		return none, err
	}
	typed, ok := p.(P)
	if !ok {
		return none, fmt.Errorf("published measurements %s are a %T, not a %T", id, p, none)
	}
	return typed, nil
}

func nearest(id string) string {
	best, distance := "", len(id)/2+1
	for _, known := range IDs() {
		if d := levenshtein.Distance(id, known, nil); d < distance {
			best, distance = known, d
		}
	}
	if best == "" {
		return " (there are: " + strings.Join(IDs(), ", ") + ")"
	}
	return fmt.Sprintf(" (did you mean %q?)", best)
}

func check(id string, p Publication) error {
	h := p.Head()
	if h.ID != id || h.Citation == "" || h.Question == "" {
		return fmt.Errorf("needs id %q, a citation and a question", id)
	}
	if c, ok := p.(interface{ check() error }); ok {
		return c.check()
	}
	return nil
}
