package sample

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// WarningKind is what a warning of a record is about.
type WarningKind string

// The kinds of warnings.
const (
	// Note is words that no program acts on.
	Note WarningKind = "note"
	// Busy: other processes used Share of the machine's CPU time, over this trial
	// or the last Trials together.
	Busy WarningKind = "busy"
	// Overlapped: the trial's instances shared Share of their timed window, less
	// than Least.
	Overlapped WarningKind = "overlap"
	// OtherClock: the instances' timed windows are not on the host's clock, so
	// that nobody knows how much of them they shared.
	OtherClock WarningKind = "other-clock"
	// CutOff: a process that outlived the payload kept its Stream open.
	CutOff WarningKind = "cut-off"
	// Untidy: a failed trial left something that could not be removed, or an engine of
	// tare's own is started again for that; Text is the error.
	Untidy WarningKind = "untidy"
	// OtherWay: the probe's numbers were not measured in the usual way, but as Text
	// says. They are not compared with those that were.
	OtherWay WarningKind = "other-way"
)

// Warning is what a reader of a record must know. Programs act on Kind alone;
// String is the only place that makes a sentence of it.
type Warning struct {
	Kind   WarningKind `json:"kind"`
	Share  float64     `json:"share,omitzero"`  // 0 to 1
	Least  float64     `json:"least,omitzero"`  // 0 to 1
	Trials int         `json:"trials,omitzero"` // 0 for the record's own trial alone
	Stream string      `json:"stream,omitzero"` // "standard output", "standard error"
	Text   string      `json:"text,omitzero"`   // of Note, Untidy and OtherWay, and of a warning that was recorded as a sentence
}

// Disturbed reports whether the warning says that something outside of the
// trial used the machine meanwhile.
func (w Warning) Disturbed() bool { return w.Kind == Busy }

// String is the warning as a sentence, without a full stop.
func (w Warning) String() string {
	if w.Kind == OtherWay {
		return "the probe's numbers are " + w.Text
	}
	if w.Text != "" {
		return strings.TrimRight(w.Text, ".")
	}
	switch w.Kind {
	case Busy:
		during := "the trial"
		if w.Trials > 1 {
			during = fmt.Sprintf("the last %d trials", w.Trials)
		}
		return fmt.Sprintf("other processes used %.0f %% of the machine's CPU time during %s", 100*w.Share, during)
	case Overlapped:
		return fmt.Sprintf("the containers shared %.2f %% of their timed window, less than %.0f %%: take longer windows (time)", 100*w.Share, 100*w.Least)
	case OtherClock:
		return "the containers' windows are not on the host's clock, so it is not known how much of them they shared"
	case CutOff:
		return fmt.Sprintf("a process that outlived the payload held its %s open and was cut off", w.Stream)
	}
	return string(w.Kind) // of a newer tare
}

// UnmarshalJSON reads a warning. Runs of earlier versions recorded a sentence,
// which is read as a Note with that text; one that began with a word for a
// disturbance keeps that meaning, so that the run's verdicts stay as they were.
func (w *Warning) UnmarshalJSON(text []byte) error {
	var sentence string
	if json.Unmarshal(text, &sentence) == nil {
		*w = Warning{Kind: Note, Text: sentence}
		word, _, _ := strings.Cut(strings.ToLower(sentence), ":")
		if slices.ContainsFunc([]string{"steal", "psi", "pressure", "throttl"}, func(of string) bool { return strings.HasPrefix(word, of) }) {
			w.Kind = Busy
		}
		return nil
	}
	type plain Warning
	var p plain
	if err := json.Unmarshal(text, &p); err != nil {
		return fmt.Errorf("warning: %w", err)
	}
	*w = Warning(p)
	return nil
}
