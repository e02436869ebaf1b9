package study

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/tarelab/tare/internal/yamldoc"
)

// patches reads variants. Each is a merge patch over the study, by the rules of RFC
// 7396: keys with values are merged key by key, null takes away what the study has,
// and all other values, lists too, replace the study's. Workloads alone are found by
// their names.
func (d *decoder) patches(base Study) map[string]Study {
	all := map[string]Study{}
	d.entries("variants", d.variants, func(name string, value ast.Node) {
		at := "variants." + name
		d.mark(at, yamldoc.Start(value))
		if null(value) {
			d.fail(at, "has no value")
			return
		}
		if len(all) == maxVariants {
			d.fail(at, "a study has at most %d variants", maxVariants)
			return
		}
		v := base
		v.Workloads = slices.Clone(base.Workloads)
		d.value(at, value, reflect.ValueOf(&v).Elem(), "")
		v.Variants, v.Taken, v.src = nil, name, d.src.within(at)
		v = v.WithDefaults()
		keys := keysIn(value)
		if !slices.Contains(keys, "interventions") {
			v = v.withArmsOf(v.Workloads)
		}
		d.halves(at, keys, base)
		all[name] = v
	})
	return all
}

// halves notes where a variant has another meaning than in older files, in which
// either of the keys replaced both.
func (d *decoder) halves(at string, keys []string, base Study) {
	for _, pair := range []struct {
		key, other string
		stays      []string
	}{
		{"targets", "optional", base.Optional}, {"optional", "targets", base.Targets},
		{"paths", "optional-paths", base.OptionalPaths}, {"optional-paths", "paths", base.Paths},
	} {
		if slices.Contains(keys, pair.key) && !slices.Contains(keys, pair.other) && len(pair.stays) > 0 {
			d.note("%s has %s alone, so the study's %s stay: %s; older versions dropped them, and %s: [] does so now",
				at, pair.key, pair.other, strings.Join(pair.stays, ", "), pair.other)
		}
	}
}

// ofVariants reads the keys of a study that are not read as any other: its variants,
// and in a variant the workloads and the keys of older files.
func (d *decoder) ofVariants(at, name string, value ast.Node, s *Study) bool {
	switch {
	case name == "variants" && !d.patch:
		d.variants = value
	case !d.patch:
		return false
	case name == "variants" || name == "id":
		d.fail(at, "a variant has the study's: leave it out")
	case name == "workloads":
		d.workloads(at, value, s)
	case name == "workload-params":
		d.ofWorkloads(at, "params", value, s)
	case name == "workload-instances" || name == "workload-copies":
		d.ofWorkloads(at, "instances", value, s)
	case name == "workload-concurrency":
		d.ofWorkloads(at, "concurrency", value, s)
	default:
		return false
	}
	return true
}

// workloads puts a variant's over the study's. A list chooses: the workloads that it
// does not name are off by default. Keys with values change the named ones.
func (d *decoder) workloads(at string, node ast.Node, s *Study) {
	list, ok := node.(*ast.SequenceNode)
	if !ok {
		d.entries(at, node, func(name string, value ast.Node) {
			if i, ok := d.workload(at, name, value, s); ok && null(value) {
				s.Workloads[i].Extra = true
			} else if ok {
				d.value(placeOf(at, i), value, reflect.ValueOf(&s.Workloads[i]).Elem(), "")
			}
		})
		return
	}
	for i := range s.Workloads {
		s.Workloads[i].Extra = true
	}
	for _, item := range list.Values {
		name, alone := text(item)
		if !alone {
			name = valueIn(item, "name")
		}
		i, ok := d.workload(at, name, item, s)
		if !ok {
			continue
		}
		s.Workloads[i].Extra = false
		if !alone {
			d.value(placeOf(at, i), item, reflect.ValueOf(&s.Workloads[i]).Elem(), "")
		}
	}
}

// workload finds a study's workload by its name, and marks where a variant names it.
func (d *decoder) workload(at, name string, node ast.Node, s *Study) (int, bool) {
	known := make([]string, len(s.Workloads))
	for i, w := range s.Workloads {
		known[i] = cmp.Or(w.Name, w.Kind)
	}
	i := slices.Index(known, name)
	if i < 0 {
		d.mark(join(at, name), yamldoc.Start(node))
		d.fail(join(at, name), "%s", unknown("workload", name, known))
		return 0, false
	}
	d.mark(placeOf(at, i), yamldoc.Start(node))
	return i, true
}

// placeOf is the place of a study's workload, where at is that of all.
func placeOf(at string, i int) string { return fmt.Sprintf("%s[%d]", at, i) }

// ofWorkloads reads what variants of older files have in place of workloads: one key
// of several workloads, by their names.
func (d *decoder) ofWorkloads(at, key string, node ast.Node, s *Study) {
	top, name := at[:strings.LastIndexByte(at, '.')+1], at[strings.LastIndexByte(at, '.')+1:]
	d.note("%s in a variant is now written workloads: {NAME: {%s: ...}}; the old form is still read", name, key)
	field, _ := fieldOf(reflect.TypeFor[Workload](), key)
	d.entries(at, node, func(name string, value ast.Node) {
		if i, ok := d.workload(top+"workloads", name, value, s); ok {
			d.value(placeOf(top+"workloads", i)+"."+key, value, reflect.ValueOf(&s.Workloads[i]).Elem().FieldByIndex(field.Index), "")
		}
	})
}

// keysIn are the keys of a mapping; valueIn is the value of one as it is written, ""
// for none.
func keysIn(node ast.Node) (keys []string) {
	if mapping, ok := node.(ast.MapNode); ok {
		for it := mapping.MapRange(); it.Next(); {
			key, _ := text(it.Key())
			keys = append(keys, key)
		}
	}
	return keys
}

func valueIn(node ast.Node, key string) string {
	if mapping, ok := node.(ast.MapNode); ok {
		for it := mapping.MapRange(); it.Next(); {
			if k, _ := text(it.Key()); k == key {
				value, _ := text(it.Value())
				return value
			}
		}
	}
	return ""
}

// within is the source as a variant sees it: what the variant writes stands in place
// of the study's, and what neither writes stands where the variant begins.
func (s *source) within(variant string) *source {
	moved := *s
	moved.at = maps.Clone(s.at)
	moved.at[""] = s.at[variant]
	for key, place := range s.at {
		if top, below := strings.CutPrefix(key, variant+"."); below {
			moved.at[top] = place
		}
	}
	return &moved
}
