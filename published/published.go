// Package published reads measurements that others have published: data with their
// citation, so that a run can be put beside them and their claims recomputed. They are
// read strictly: a key that an experiment's type does not know is an error, so that no
// number is silently left out.
package published

import (
	"fmt"
	"strings"

	"github.com/goccy/go-yaml"
)

// Source is what every publication has.
type Source struct {
	ID       string `yaml:"id"`       // the study's that repeats it
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

// Publication is a type that embeds Source.
type Publication interface{ Head() Source }

func check(id string, p Publication) error {
	h := p.Head()
	if h.ID != id || h.Citation == "" || h.Question == "" {
		return fmt.Errorf("needs id %q, a citation and a question", id)
	}
	return nil
}
