package sample

import (
	"flag"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/metrics.md")

func TestEveryMetricIsThereOnceAndComplete(t *testing.T) {
	seen := map[string]bool{}
	check := func(m Metric) {
		if seen[m.Name] {
			t.Errorf("%s is in the catalogue twice", m.Name)
		}
		seen[m.Name] = true
		if err := CheckDeclared(m); err != nil {
			t.Error(err)
		}
		if m.Unit == "" || m.Better != Lower && m.Better != Higher || m.Help == "" {
			t.Errorf("%+v lacks a unit, a direction or a help sentence", m)
		}
		if last := m.Help[len(m.Help)-1]; strings.TrimSpace(m.Help) != m.Help || last == '.' {
			t.Errorf("%s: the help sentence %q has no full stop and no blanks around it", m.Name, m.Help)
		}
	}
	for _, s := range sections {
		for _, e := range s.entries {
			check(e.Metric)
			if e.role != Primary && e.role != Descriptive {
				t.Errorf("%s has the role %q", e.Name, e.role)
			}
			for _, form := range e.forms {
				if form.Name != e.Name || form.Unit == e.Unit || form.Help == "" || In(e.Name, form.Unit) != form {
					t.Errorf("%s: %+v is not another form of it", e.Name, form)
				}
			}
		}
	}
	for _, f := range families {
		for _, of := range f.members {
			check(f.metric(of))
		}
	}
	if len(seen) != len(known) {
		t.Errorf("%d metrics are listed, %d are known", len(seen), len(known))
	}
}

func TestNameOutsideOfTheCatalogueIsRefused(t *testing.T) {
	for _, f := range []func(){func() { Describe(Ready, "no-such-metric") }, func() { In(Wall, Bytes) }} {
		func() {
			defer func() {
				if recover() == nil {
					t.Error("it was not refused")
				}
			}()
			f()
		}()
	}
}

func TestDeclaredMetricAgreesWithTheCatalogue(t *testing.T) {
	for _, c := range []struct {
		m    Metric
		want string // part of the error, "" for none
	}{
		{Metric{"requests", PerSecond, Higher, ""}, ""},
		{Metric{Throughput, BytesPerSecond, Higher, ""}, ""},
		{Metric{Wall, Seconds, Lower, "by my clock"}, ""},
		{Metric{Wall, Bytes, Lower, ""}, `the catalogue has it in "s"`},
		{Metric{Wall, Seconds, Higher, ""}, "lower is better"},
		{Metric{"My Metric", Seconds, Lower, ""}, "lower-case words"},
	} {
		err := CheckDeclared(c.m)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.m, err, c.want)
		}
	}
}

// TestDocsListTheCatalogue holds docs/metrics.md to the catalogue. After a change:
// go test ./internal/sample -run DocsList -update
func TestDocsListTheCatalogue(t *testing.T) {
	const file = "../../docs/metrics.md"
	want := document()
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s is not current: run go test ./internal/sample -run DocsList -update", file)
	}
}

func document() string {
	var b strings.Builder
	b.WriteString(`# Metrics

Every metric that tare records. This page is generated from the catalogue (` + "`internal/sample/catalogue.go`" + `).

A *primary* metric can decide a verdict: it is what a workload is run for. The others describe; they are judged only where a study names them. A metric that a user defines is declared in the run's manifest and is descriptive. Values are stored in the unit given here, never scaled.
`)
	table := func(title string, rows func()) {
		b.WriteString("\n## " + strings.TrimSuffix(title, ".") + "\n\n| metric | unit | better | role | meaning |\n|---|---|---|---|---|\n")
		rows()
	}
	row := func(name string, m Metric, role Role) {
		cells := []string{"`" + name + "`", string(m.Unit), string(m.Better), string(role), m.Help}
		for i := range cells {
			cells[i] = strings.ReplaceAll(cells[i], "|", `\|`)
		}
		b.WriteString("| " + strings.Join(cells, " | ") + " |\n")
	}
	for _, s := range sections {
		table(s.title, func() {
			for _, e := range s.entries {
				row(e.Name, e.Metric, e.role)
				for _, form := range e.forms {
					row(e.Name, form, e.role)
				}
			}
		})
	}
	for _, f := range families {
		table("Family "+f.form, func() {
			for _, of := range f.members {
				m := f.metric(of)
				row(m.Name, m, Descriptive)
			}
		})
	}
	return b.String()
}
