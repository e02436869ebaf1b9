package analysis

// Warning is what a reader must know of a run, and what to do about it. In JSON it is its
// text alone.
type Warning struct {
	Kind WarningKind
	Text string // a sentence without a full stop, or several
}

// WarningKind is what a warning is about. Programs act on it alone, never on the text.
type WarningKind int

// The kinds of warnings that a report may show in another way.
const (
	General    WarningKind = iota
	Unfinished             // not all planned trials are there
	NoVerdict              // why a group, or the run, has no verdict
	NoTwin                 // the control has no twin, so the noise is unknown
)

// Warnings are texts as warnings of one kind.
func Warnings(kind WarningKind, texts ...string) []Warning {
	var all []Warning
	for _, t := range texts {
		all = append(all, Warning{kind, t})
	}
	return all
}

func (w Warning) String() string { return w.Text }

// Texts are the texts of warnings, never nil.
func Texts(all []Warning) []string {
	texts := make([]string, 0, len(all))
	for _, w := range all {
		texts = append(texts, w.Text)
	}
	return texts
}

// MarshalText implements encoding.TextMarshaler.
func (w Warning) MarshalText() ([]byte, error) { return []byte(w.Text), nil }

// UnmarshalText implements encoding.TextUnmarshaler: a warning that was read is General.
func (w *Warning) UnmarshalText(text []byte) error {
	*w = Warning{Text: string(text)}
	return nil
}
