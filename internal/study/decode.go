package study

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"github.com/tarelab/tare/internal/yamldoc"
)

// decoder fills the structs of a study from the YAML tree by their yaml tags.
// Unlike the library's own it goes on after a problem, remembers where every
// value was written, and reads quantities by the field's "as" tag.
type decoder struct {
	src      *source
	problems []Problem
	notes    []string
	variants ast.Node // read when all else is known
	patch    bool     // values are put over those that the structs already have
}

func (d *decoder) root(node ast.Node, s *Study) {
	d.value("", node, reflect.ValueOf(s).Elem(), "")
	if d.variants != nil {
		d.patch = true
		s.Variants = d.patches(*s)
	}
}

func (d *decoder) fail(key, format string, args ...any) {
	d.problems = append(d.problems, d.src.problem(key, fmt.Sprintf(format, args...)))
}

func (d *decoder) mark(key string, t *token.Token) {
	if t != nil && t.Position != nil {
		d.src.at[key] = place{t.Position.Line, t.Position.Column}
	}
}

// value reads one node into v. as says how a scalar is written.
func (d *decoder) value(key string, node ast.Node, v reflect.Value, as string) {
	switch {
	case null(node) && d.patch:
		v.SetZero()
	case null(node):
		d.fail(key, "has no value")
	case v.Kind() == reflect.Struct:
		d.structure(key, node, v)
	case v.Kind() == reflect.Map:
		d.table(key, node, v)
	case v.Kind() == reflect.Slice:
		d.list(key, node, v)
	case v.Kind() == reflect.Pointer:
		of := reflect.New(v.Type().Elem()) // a patch leaves the study's own as it is
		if !v.IsNil() {
			of.Elem().Set(v.Elem())
		}
		v.Set(of)
		d.value(key, node, v.Elem(), as)
	default:
		d.scalar(key, node, v, as)
	}
}

func null(node ast.Node) bool { return node == nil || node.Type() == ast.NullType }

// entries walks a mapping: it marks each value's place, refuses what is not a
// plain key and what stands twice, and calls f with the rest.
func (d *decoder) entries(key string, node ast.Node, f func(name string, value ast.Node)) {
	mapping, ok := node.(ast.MapNode)
	if !ok {
		d.fail(key, "expected keys with values, found %s", kind(node))
		return
	}
	seen := map[string]bool{}
	for it := mapping.MapRange(); it.Next(); {
		name, ok := text(it.Key())
		path := join(key, name)
		d.mark(path, it.Key().GetToken())
		switch {
		case !ok:
			d.fail(path, "a key must be a plain word")
			continue
		case seen[name]:
			d.fail(path, "stands twice")
			continue
		}
		seen[name] = true
		f(name, it.Value())
	}
}

func (d *decoder) structure(key string, node ast.Node, v reflect.Value) {
	read := map[string]bool{}
	d.entries(key, node, func(name string, value ast.Node) {
		name = d.renamed(v.Type(), name, value)
		path := join(key, name)
		if read[name] {
			d.fail(path, "stands twice, once by its old name")
			return
		}
		read[name] = true
		if s, ok := v.Addr().Interface().(*Study); ok && d.ofVariants(path, name, value, s) {
			return
		}
		field, ok := fieldOf(v.Type(), name)
		if now := gone[name]; !ok && v.Type() == reflect.TypeFor[Workload]() && now != "" {
			d.note("%s", now)
			return
		}
		if !ok {
			d.fail(path, "%s", unknown("key", name, keysOf(v.Type())))
			return
		}
		d.mark(path, yamldoc.Start(value))
		d.value(path, value, v.FieldByIndex(field.Index), field.Tag.Get("as"))
	})
}

// gone are keys that workloads had until 2026-11, and what stands in their place.
var gone = map[string]string{
	"once": "the key once is left out: `within: 500ms` gives targets whose trials take long fewer of them in a block",
}

// renamed is the name that a key has by now, with a note where it had another one.
func (d *decoder) renamed(t reflect.Type, name string, value ast.Node) string {
	if _, ok := fieldOf(t, name); ok && !namesEnvironments(value) {
		return name
	}
	for _, f := range reflect.VisibleFields(t) {
		if f.Tag.Get("was") != name {
			continue
		}
		now := keyOf(f)
		d.note("the key %s is now called %s; the old name is still read", name, now)
		return now
	}
	return name
}

// note is kept once, however often the text gives a reason for it.
func (d *decoder) note(format string, args ...any) {
	if note := d.src.name + ": " + fmt.Sprintf(format, args...); !slices.Contains(d.notes, note) {
		d.notes = append(d.notes, note)
	}
}

// namesEnvironments reports whether the value of a study's limits is what stood under
// that key in older files: environments. No limit has their keys, or none at all.
func namesEnvironments(value ast.Node) bool {
	list, ok := value.(*ast.SequenceNode)
	return ok && slices.ContainsFunc(list.Values, func(item ast.Node) bool {
		mapping, ok := item.(ast.MapNode)
		if !ok {
			return false
		}
		empty, known := true, false
		for it := mapping.MapRange(); it.Next(); empty = false {
			name, _ := text(it.Key())
			_, is := fieldOf(reflect.TypeFor[Environment](), name)
			known = known || is
		}
		return empty || known
	})
}

func (d *decoder) table(key string, node ast.Node, v reflect.Value) {
	all := reflect.MakeMap(v.Type())
	for it := v.MapRange(); it.Next(); { // what a patch is put over
		all.SetMapIndex(it.Key(), it.Value())
	}
	v.Set(all)
	d.entries(key, node, func(name string, value ast.Node) {
		path := join(key, name)
		d.mark(path, yamldoc.Start(value))
		if d.patch && null(value) {
			v.SetMapIndex(reflect.ValueOf(name), reflect.Value{})
			return
		}
		item := reflect.New(v.Type().Elem()).Elem()
		d.value(path, value, item, "")
		v.SetMapIndex(reflect.ValueOf(name), item)
	})
}

func (d *decoder) list(key string, node ast.Node, v reflect.Value) {
	sequence, ok := node.(*ast.SequenceNode)
	if !ok {
		d.fail(key, "expected a list, found %s: write [a, b] or one item a line after a dash", kind(node))
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), len(sequence.Values), len(sequence.Values)))
	for i, item := range sequence.Values {
		path := fmt.Sprintf("%s[%d]", key, i)
		d.mark(path, yamldoc.Start(item))
		d.value(path, item, v.Index(i), "")
	}
}

func (d *decoder) scalar(key string, node ast.Node, v reflect.Value, as string) {
	written, ok := text(node)
	if !ok {
		d.fail(key, "expected one value, found %s", kind(node))
		return
	}
	x, err := read(written, v.Type(), as)
	if err != nil {
		d.fail(key, "%v", err)
		return
	}
	v.Set(reflect.ValueOf(x).Convert(v.Type()))
}

// read turns a scalar as it is written into a value for a field of type t.
func read(written string, t reflect.Type, as string) (any, error) {
	switch {
	case as == "size":
		return ParseSize(written)
	case as == "duration":
		return parseDuration(written)
	case as == "fraction":
		return ParseFraction(written)
	case t == reflect.TypeFor[time.Duration]():
		return nil, fmt.Errorf("the field of type %s lacks its as tag", t) // a mistake of ours; a test finds it
	case t.Kind() == reflect.Bool:
		return parseBool(written)
	case t.Kind() == reflect.Float64:
		return parseNumber(written)
	case t.Kind() == reflect.Int || t.Kind() == reflect.Int64:
		return parseInt(written)
	default:
		return written, nil
	}
}

// text gives a scalar as it is written, without quotes.
func text(node ast.Node) (string, bool) {
	switch n := node.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return n.Value.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return n.GetToken().Value, true
	}
	return "", false
}

func kind(node ast.Node) string {
	switch node.(type) {
	case ast.MapNode:
		return "keys with values"
	case *ast.SequenceNode:
		return "a list"
	default:
		return "a single value"
	}
}

func join(key, name string) string {
	if key == "" {
		return name
	}
	return key + "." + name
}

// keyOf is the YAML key of a field, "" for none.
func keyOf(f reflect.StructField) string {
	key, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
	return key
}

// fieldOf finds the field of a struct that a YAML key names.
func fieldOf(t reflect.Type, name string) (reflect.StructField, bool) {
	for _, f := range reflect.VisibleFields(t) {
		if key := keyOf(f); key != "" && key == name {
			return f, true
		}
	}
	return reflect.StructField{}, false
}

// keysOf lists the YAML keys of a struct in the order of its fields.
func keysOf(t reflect.Type) []string {
	var keys []string
	for _, f := range reflect.VisibleFields(t) {
		if key := keyOf(f); key != "" {
			keys = append(keys, key)
		}
	}
	return keys
}
