// Package yamldoc parses YAML documents that others wrote, such as studies and
// needs: bounded in length, depth and number of tokens, without anchors and
// aliases, and without a panic whatever the text is.
package yamldoc

import (
	"fmt"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/tarelab/tare/internal/limit"
)

// Parse parses the text of exactly one document. l.Items bounds its words and
// signs (the parser's time grows with their square), l.Depth its nested lists and
// mappings. Anchors, aliases, merge keys, tags and complex keys are refused. The
// error of a wrong place is a yaml.Error, which has the place's token.
func Parse(data []byte, l limit.Limit) (node ast.Node, err error) {
	if err := l.CheckBytes(int64(len(data))); err != nil {
		return nil, err
	}
	defer func() {
		// The parser is not ours: a text that makes it panic is refused like any other.
		if r := recover(); r != nil {
			node, err = nil, fmt.Errorf("this is not YAML: the parser gave up (%v)", r)
		}
	}()
	tokens := lexer.Tokenize(string(data))
	if err := bounded(tokens, l); err != nil {
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
			return nil, at(Start(doc.Body), "a %s is one document: this is a second one", l.Input)
		}
		body = doc.Body
	}
	if body == nil {
		return nil, fmt.Errorf("the %s is empty", l.Input)
	}
	return body, nil
}

// at is a syntax error at a token.
func at(t *token.Token, format string, args ...any) error {
	return &yaml.SyntaxError{Message: fmt.Sprintf(format, args...), Token: t}
}

// bounded refuses, before anything recursive sees the tokens, what no
// document needs and a hostile one could blow up with: deep nesting, anchors
// and aliases, tags, and sheer number.
func bounded(tokens token.Tokens, l limit.Limit) error {
	if len(tokens) > l.Items {
		return at(tokens[l.Items], "too long: a %s has at most %d words and signs", l.Input, l.Items)
	}
	flow, entries, line := 0, 0, 0
	var columns []int // of the blocks that are open
	for _, t := range tokens {
		switch t.Type {
		case token.AnchorType, token.AliasType, token.MergeKeyType:
			return at(t, "anchors, aliases and merge keys are not used here: write the value out")
		case token.TagType, token.DirectiveType:
			return at(t, "tags and directives are not used here")
		case token.MappingKeyType:
			return at(t, "complex keys (?) are not used here")
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
		if flow > l.Depth || entries > l.Depth || len(columns) > 2*l.Depth {
			return at(t, "nested too deeply: at most %d levels", l.Depth)
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

// Start is the token at which a value begins: a mapping's own token is its
// first colon, which is not where people look.
func Start(node ast.Node) *token.Token {
	switch n := node.(type) {
	case nil:
		return nil
	case *ast.MappingNode:
		if len(n.Values) > 0 && !n.IsFlowStyle {
			return n.Values[0].Key.GetToken()
		}
	case *ast.MappingValueNode:
		return n.Key.GetToken()
	case *ast.NullNode:
		return nil // an absent value has no place of its own: the key's stays
	}
	return node.GetToken()
}
