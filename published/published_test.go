package published

import (
	"maps"
	"strings"
	"testing"
)

type little struct {
	Source `yaml:",inline"`
	Speed  map[string]float64 `yaml:"speed"`
	Rows   []int              `yaml:"rows"`
}

const text = `
id: little
citation: Somebody, 2020
question: How fast?
speed: {host: 2.5, "in-one": 2}
rows: [7, 8]
`

func TestRead(t *testing.T) {
	if p, err := Read("little", []byte(text), new(little)); err != nil || p.Speed["host"] != 2.5 {
		t.Errorf("%+v, %v", p, err)
	}
	for file, want := range map[string]string{
		text + "extra: 1":                       "extra",
		strings.Replace(text, "little", "x", 1): `needs id "little"`,
	} {
		if _, err := Read("little", []byte(file), new(little)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", file, err, want)
		}
	}
}

// A number has the path of its keys as its name; rows of a list have none.
func TestCells(t *testing.T) {
	cells, err := Cells("little", []byte(text))
	if want := map[string]float64{"speed.host": 2.5, "speed.in-one": 2}; err != nil || !maps.Equal(cells, want) {
		t.Errorf("%v, %v, want %v", cells, err, want)
	}
}
