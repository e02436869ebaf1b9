package study

import (
	"errors"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"

	"github.com/tarelab/tare/internal/limit"
	"github.com/tarelab/tare/internal/yamldoc"
)

// Parse reads a study from YAML, fills in the defaults and checks all that can
// be checked without knowing the machine; Validate does the rest. name is the
// file's, for messages; its base without ".yaml" is the default id. The error
// is an *Error with every problem found and its line and column.
func Parse(name string, data []byte) (Study, error) {
	src, node, problems := document(name, data)
	if len(problems) > 0 {
		return Study{}, src.report(name, problems)
	}
	var s Study
	d := &decoder{src: src}
	d.root(node, &s)
	s.src, s.Notes = src, d.notes
	s = s.WithDefaults()
	return s, src.report(name, append(d.problems, beside(d.problems, s.check())...))
}

// document reads the tree of a YAML text, or says why it has none.
func document(name string, data []byte) (*source, ast.Node, []Problem) {
	src := &source{name: name, at: map[string]place{"": {1, 1}}}
	if err := limit.Study.CheckBytes(int64(len(data))); err != nil {
		return src, nil, []Problem{{Message: err.Error()}}
	}
	src.lines = strings.Split(strings.ReplaceAll(string(data), "\r\n", "\n"), "\n")
	node, err := yamldoc.Parse(data, limit.Study)
	if err != nil {
		return src, nil, []Problem{src.syntax(err)}
	}
	return src, node, nil
}

// beside keeps the problems that do not follow from the first ones: a list
// that could not be read is not empty as well.
func beside(first, more []Problem) []Problem {
	return slices.DeleteFunc(more, func(p Problem) bool {
		return slices.ContainsFunc(first, func(f Problem) bool {
			return f.Key == "" || strings.HasPrefix(p.Key, f.Key)
		})
	})
}

// syntax turns an error of the YAML parser into a problem with its place.
func (s *source) syntax(err error) Problem {
	var e yaml.Error
	if !errors.As(err, &e) || e.GetToken() == nil {
		return Problem{Message: err.Error()}
	}
	position := e.GetToken().Position
	s.at["syntax"] = place{position.Line, position.Column}
	p := s.problem("syntax", e.GetMessage())
	p.Key = ""
	return p
}
