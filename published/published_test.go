package published

import (
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

func TestEveryFileLoads(t *testing.T) {
	ids := IDs()
	if len(ids) != len(kinds) || len(ids) != 2 {
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
	loongson := must[*DockerOnLoongson](t, "docker-on-loongson")
	trim := must[*ContainerVMTrim](t, "container-vm-trim")
	ryzen, err := loongson.Scores("platforms-ncopies", "ryzen5")
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		what      string
		got, want float64
	}{
		{"table 2, whetstone, 4 containers", loongson.Tables["containers-4cpu-4copies"].Row("whetstone")[4], 798.6},
		{"table 5, ryzen, dhrystone2", ryzen["dhrystone2"], 8501.4},
		{"ryzen's threads", float64(loongson.Hosts["ryzen5"].Threads()), 8},
		{"8 containers, whetstone", loongson.EightContainers.WhetstoneNCopies, 794.5},
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
	if _, err := Load("docker-on-longson"); err == nil || !strings.Contains(err.Error(), `"docker-on-loongson"`) {
		t.Errorf("unknown id: %v", err)
	}
	if _, err := LoadAs[*DockerOnLoongson]("container-vm-trim"); err == nil {
		t.Error("the wrong type was given")
	}
	d := must[*DockerOnLoongson](t, "docker-on-loongson")
	if _, err := d.Scores("platforms-ncopies", "sparc"); err == nil || !strings.Contains(err.Error(), "ryzen5") {
		t.Errorf("unknown machine: %v", err)
	}
	data, err := files.ReadFile("container-vm-trim.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalWithOptions(append(data, "extra: 1\n"...), new(ContainerVMTrim), yaml.Strict()); err == nil {
		t.Error("an unknown key was read")
	}
	table := d.Tables["platforms-1copy"]
	table.Syscall = table.Syscall[:3]
	d.Tables["platforms-1copy"] = table
	if err := d.check(); err == nil || !strings.Contains(err.Error(), "syscall: 3 scores for 4") {
		t.Errorf("missing cell: %v", err)
	}
}
