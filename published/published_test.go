package published

import (
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

func TestEveryFileLoads(t *testing.T) {
	ids := IDs()
	if len(ids) != len(kinds) || len(ids) != 1 {
		t.Errorf("%d files, %d types", len(ids), len(kinds))
	}
	for _, id := range ids {
		p, err := Load(id)
		if err != nil {
			t.Error(err)
			continue
		}
		if p.Head().ID != id {
			t.Errorf("%s calls itself %s", id, p.Head().ID)
		}
	}
}

// One number of each part, so that a part that is silently not read shows.
func TestNumbersArrive(t *testing.T) {
	trim := must[*ContainerVMTrim](t, "container-vm-trim")
	for _, test := range []struct {
		what      string
		got, want float64
	}{
		{"total after", trim.Results["total"].After, 38.097239},
		{"costliest step", trim.CostliestSteps[20].Took, 13.844570},
	} {
		if test.got != test.want {
			t.Errorf("%s: %v, want %v", test.what, test.got, test.want)
		}
	}
}

func must[P Publication](t *testing.T, id string) P {
	t.Helper()
	p, err := LoadAs[P](id)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestRefusals(t *testing.T) {
	if _, err := Load("container-vm-tirm"); err == nil || !strings.Contains(err.Error(), `"container-vm-trim"`) {
		t.Errorf("unknown id: %v", err)
	}
	if _, err := LoadAs[Source]("container-vm-trim"); err == nil {
		t.Error("the wrong type was given")
	}
	data, err := files.ReadFile("container-vm-trim.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalWithOptions(append(data, "extra: 1\n"...), new(ContainerVMTrim), yaml.Strict()); err == nil {
		t.Error("an unknown key was read")
	}
}
