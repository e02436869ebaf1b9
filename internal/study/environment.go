package study

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// EnvironmentKeys are the keys of an environment that With changes, those of its
// network and of its guest too.
func EnvironmentKeys() []string {
	keys := slices.DeleteFunc(keysOf(reflect.TypeFor[Environment]()), func(key string) bool {
		return slices.Contains([]string{"name", "params", "network", "guest", "load", "extra"}, key)
	})
	return slices.Concat(keys, keysOf(reflect.TypeFor[Network]()), keysOf(reflect.TypeFor[Guest]()))
}

// With is the environment with another value of one of EnvironmentKeys, as YAML has it.
func (l Environment) With(key, written string) (Environment, error) {
	network, guest := Network{}, Guest{}
	if l.Network != nil {
		network = *l.Network
	}
	if l.Guest != nil {
		guest = *l.Guest
	}
	for _, of := range []reflect.Value{reflect.ValueOf(&l).Elem(), reflect.ValueOf(&network).Elem(), reflect.ValueOf(&guest).Elem()} {
		field, ok := fieldOf(of.Type(), key)
		if !ok {
			continue
		}
		x, err := read(strings.TrimSpace(written), field.Type, field.Tag.Get("as"))
		if err != nil {
			return l, fmt.Errorf("%s: %w", key, err)
		}
		of.FieldByIndex(field.Index).Set(reflect.ValueOf(x).Convert(field.Type))
	}
	if network != (Network{}) {
		l.Network = &network
	}
	if guest != (Guest{}) {
		l.Guest = &guest
	}
	return l, nil
}
