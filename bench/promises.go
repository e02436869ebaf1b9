package main

import (
	"bytes"
	_ "embed" // the promises
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/template"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/study"
)

var (
	//go:embed bars.yaml
	promisesText []byte
	//go:embed bars.md.tmpl
	documentText string
)

// recordedFile has the results that docs/bars.md shows.
const recordedFile = "bench/recorded.json"

// promise is a bar as people read it. Study is a file of bench/ whose limits are the
// bar's bounds, "" for none.
type promise struct {
	Name    string `yaml:"name"`
	Promise string `yaml:"promise"`
	Study   string `yaml:"study"`
}

// recorded is a result that is kept.
type recorded struct {
	Measured string `json:"measured"`
	Verdict  string `json:"verdict"` // of analysis.Met, or "not measured"
	On       string `json:"on"`      // date
}

func promises() (all []promise, err error) {
	return all, yaml.UnmarshalWithOptions(promisesText, &all, yaml.DisallowUnknownField())
}

// promiseOf is a bar's promise; "" where there is none, which a test refuses.
func promiseOf(all []promise, name string) string {
	i := slices.IndexFunc(all, func(p promise) bool { return p.Name == name })
	if i < 0 {
		return ""
	}
	return all[i].Promise
}

// row is a line of docs/bars.md.
type row struct {
	promise
	recorded
	Limits string // of its study
}

// Shown is the verdict; those that are not met stand out.
func (r row) Shown() string {
	switch r.Verdict {
	case string(analysis.LimitMet), "not measured":
		return r.Verdict
	case string(analysis.LimitBroken):
		return "**not met**"
	}
	return "**" + r.Verdict + "**"
}

// document is docs/bars.md, from the promises, the limits of their studies below root
// and what is recorded.
func document(root string, results map[string]recorded) ([]byte, error) {
	all, err := promises()
	if err != nil {
		return nil, err
	}
	var rows []row
	for _, p := range all {
		r := row{promise: p, recorded: results[p.Name]}
		if p.Study != "" {
			if r.Limits, err = limitsOf(filepath.Join(root, "bench", p.Study)); err != nil {
				return nil, err
			}
		}
		rows = append(rows, r)
	}
	cell := func(text string) string { return strings.ReplaceAll(text, "|", `\|`) }
	page, err := template.New("bars").Funcs(template.FuncMap{"cell": cell}).Parse(documentText)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = page.Execute(&out, rows)
	return out.Bytes(), err
}

// limitsOf are a study's limits as its file has them.
func limitsOf(file string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	st, err := study.Parse(file, text)
	if err != nil {
		return "", err
	}
	var all []string
	for _, l := range st.Limits {
		if l.AtLeast != "" {
			all = append(all, fmt.Sprintf("`%s` at least %s", l.Cell, l.AtLeast))
		}
		if l.AtMost != "" {
			all = append(all, fmt.Sprintf("`%s` at most %s", l.Cell, l.AtMost))
		}
	}
	if len(all) == 0 {
		return "", fmt.Errorf("%s has no limits", file)
	}
	return strings.Join(all, ", "), nil
}

func readRecorded(root string) (results map[string]recorded, err error) {
	text, err := os.ReadFile(filepath.Join(root, recordedFile))
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &results); err != nil {
		return nil, fmt.Errorf("%s: %w", recordedFile, err)
	}
	return results, nil
}

// record keeps results, and writes docs/bars.md anew.
func record(fresh map[string]result) error {
	results, err := readRecorded(".")
	if err != nil {
		return err
	}
	for name, r := range fresh {
		results[name] = recorded{r.seen, string(r.met), time.Now().Format(time.DateOnly)}
	}
	var text bytes.Buffer
	encode := json.NewEncoder(&text)
	encode.SetEscapeHTML(false)
	encode.SetIndent("", "  ")
	if err := encode.Encode(results); err != nil {
		return err
	}
	page, err := document(".", results)
	if err != nil {
		return err
	}
	if err := os.WriteFile(recordedFile, text.Bytes(), 0o644); err != nil {
		return err
	}
	return os.WriteFile("docs/bars.md", page, 0o644)
}
