package study

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Bounds of a study's text: far above any real study, low enough that a
// hostile one is refused in well under a second.
const (
	MaxBytes  = 1 << 20
	maxTokens = 20_000 // the parser's time grows with the square
	maxDepth  = 32     // of nested lists and mappings
)

// Parse reads a study from YAML, fills in the defaults and checks all that can
// be checked without knowing the machine; Validate does the rest. name is the
// file's, for messages; its base without ".yaml" is the default id. The error
// is an *Error with every problem found and its line and column.
func Parse(name string, data []byte) (Study, error) {
	src := &source{name: name, at: map[string]place{"": {1, 1}}}
	if len(data) > MaxBytes {
		problem := Problem{Message: fmt.Sprintf("a study has at most %d KiB of text, and this is more", MaxBytes>>10)}
		return Study{}, src.report(name, []Problem{problem})
	}
	src.lines = strings.Split(strings.ReplaceAll(string(data), "\r\n", "\n"), "\n")
	node, err := tree(data)
	if err != nil {
		return Study{}, src.report(name, []Problem{src.syntax(err)})
	}
	var s Study
	d := &decoder{src: src}
	d.root(node, &s)
	s.src = src
	s = s.WithDefaults()
	return s, src.report(name, append(d.problems, beside(d.problems, s.check())...))
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

// tree parses the text of exactly one document.
func tree(data []byte) (node ast.Node, err error) {
	defer func() {
		// The parser is not ours: a text that makes it panic is refused like any other.
		if r := recover(); r != nil {
			node, err = nil, fmt.Errorf("this is not YAML: the parser gave up (%v)", r)
		}
	}()
	tokens := lexer.Tokenize(string(data))
	if err := bounded(tokens); err != nil {
		return nil, err
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		return nil, err
	}
	var body ast.Node
	for _, doc := range file.Docs {
		if doc.Body == nil || doc.Body.Type() == ast.NullType {
			continue
		}
		if body != nil {
			return nil, at(start(doc.Body), "a study is one document: this is a second one")
		}
		body = doc.Body
	}
	if body == nil {
		return nil, errors.New("the study is empty: it needs at least targets and workloads")
	}
	return body, nil
}

// at is a syntax error at a token.
func at(t *token.Token, format string, args ...any) error {
	return &yaml.SyntaxError{Message: fmt.Sprintf(format, args...), Token: t}
}

// bounded refuses, before anything recursive sees the tokens, what a study
// does not need and a hostile one could blow up with: deep nesting, anchors
// and aliases, tags, and sheer number.
func bounded(tokens token.Tokens) error {
	if len(tokens) > maxTokens {
		return at(tokens[maxTokens], "too long: a study has at most %d words and signs", maxTokens)
	}
	flow, entries, line := 0, 0, 0
	var columns []int // of the blocks that are open
	for _, t := range tokens {
		switch t.Type {
		case token.AnchorType, token.AliasType, token.MergeKeyType:
			return at(t, "anchors, aliases and merge keys are not used in studies: write the value out")
		case token.TagType, token.DirectiveType:
			return at(t, "tags and directives are not used in studies")
		case token.MappingKeyType:
			return at(t, "complex keys (?) are not used in studies")
		case token.SequenceStartType, token.MappingStartType:
			flow++
		case token.SequenceEndType, token.MappingEndType:
			flow--
		case token.SequenceEntryType:
			if t.Position.Line != line {
				line, entries = t.Position.Line, 0
			}
			entries++
		}
		columns = deepen(columns, t)
		if flow > maxDepth || entries > maxDepth || len(columns) > 2*maxDepth {
			return at(t, "nested too deeply: at most %d levels", maxDepth)
		}
	}
	return nil
}

// deepen keeps the stack of columns at which lines have begun, which bounds
// the depth of block nesting.
func deepen(columns []int, t *token.Token) []int {
	if t.Prev != nil && t.Prev.Position.Line == t.Position.Line {
		return columns
	}
	for len(columns) > 0 && columns[len(columns)-1] >= t.Position.Column {
		columns = columns[:len(columns)-1]
	}
	return append(columns, t.Position.Column)
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
