package report

import (
	"io"
	"math"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/finding"
	"github.com/tarelab/tare/internal/store"
)

// The identity of the JSON format. Version grows when a field is renamed or
// changes its meaning; new fields do not change it.
const (
	jsonFormat  = "tare-report"
	jsonVersion = 1
)

// document is the JSON format: all that is known, in base units.
type document struct {
	Format   string            `json:"format"`             // always "tare-report"
	Version  int               `json:"version"`            // of this format
	Summary  Summary           `json:"summary"`            // what to know in a minute
	Findings []string          `json:"findings"`           // the claims in plain words
	Manifest store.Manifest    `json:"manifest"`           // the run: study, plan, machine, targets
	Claims   analysis.Claims   `json:"claims"`             // tables, ladders, warnings; every sample included
	Sections []finding.Section `json:"sections,omitempty"` // what experiments say of the run
	Others   []store.Manifest  `json:"others,omitempty"`   // of the runs that are compared with the first
}

func newDocument(v view) document {
	return document{Format: jsonFormat, Version: jsonVersion, Summary: v.brief, Findings: v.findings, Manifest: v.in.Manifest, Claims: v.in.Claims, Sections: v.in.Sections, Others: v.in.Others}
}

// JSON writes the complete report: manifest and claims with every sample, all
// numbers in base units, durations in seconds, null where a number is not
// finite. FORMATS.md documents the fields. It streams: a large run needs no
// memory beyond the claims themselves.
func JSON(w io.Writer, in Input) error {
	return writeJSON(w, newDocument(newView(in)))
}

// jsonOptions: sorted keys give the same bytes for the same claims; outputs of
// programs (stderr) need not be valid UTF-8; a duration is a number of seconds.
func jsonOptions() json.Options {
	return json.JoinOptions(
		json.Deterministic(true),
		jsontext.AllowInvalidUTF8(true),
		jsonv1.OmitEmptyWithLegacySemantics(true), // omitempty as in the manifest on disk
		json.WithMarshalers(json.JoinMarshalers(
			json.MarshalToFunc(writeFloat),
			json.MarshalToFunc(writeDuration),
		)),
	)
}

func writeFloat(e *jsontext.Encoder, v float64) error {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return e.WriteToken(jsontext.Null)
	}
	return e.WriteToken(jsontext.Float(v))
}

func writeDuration(e *jsontext.Encoder, d time.Duration) error {
	return e.WriteToken(jsontext.Float(d.Seconds()))
}
