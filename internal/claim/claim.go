// Package claim judges the sentences of publications. A sentence is data: its text,
// expressions over named cells, and the bounds that each must lie within. The same
// expressions are evaluated over the published cells and over those of the user's run.
// It is pure.
package claim

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/tarelab/tare/internal/finding"
	"github.com/tarelab/tare/internal/stats"
)

// Sentence is one claim of claims.yaml.
type Sentence struct {
	Name  string `yaml:"name"`  // unique in the file
	Text  string `yaml:"text"`  // as the source concludes it
	Where string `yaml:"where"` // table or section of the source; "tare" for a sentence that the source does not say
	Each  []Case `yaml:"each"`  // all must lie within their bounds
	// As is how a case's value is written, as for fmt.Sprintf: "%.1f %%".
	As string `yaml:"as"`
	// Shown replaces the cases' values in the text, over the published cells:
	// {EXPRESSION FORMAT} is a number in it. ShownHere is the same over the user's cells.
	Shown     string `yaml:"shown"`
	ShownHere string `yaml:"shown_here"`
	// Doubt is why the verdict is open although the published cells bear the sentence
	// out: something else in the source speaks against it.
	Doubt string `yaml:"doubt"`
	// Judge names a function of the experiment, which judges in place of cases. Open is why
	// no published number can judge the sentence; cases next to it judge the user's machine
	// alone.
	Judge string `yaml:"judge"`
	Open  string `yaml:"open"`
	// NotHere: the user's machine cannot answer it, although it has cells of these names.
	NotHere bool `yaml:"not_here"`
}

// Case is an expression and its bound.
type Case struct {
	Label string `yaml:"label"` // "4 threads"; "" for a single one
	Is    string `yaml:"is"`
	Bound `yaml:",inline"`
	// Here is the bound for the user's machine; nil for the same.
	Here *Bound `yaml:"here"`
}

// Bound is where a value must lie, the limits included. A missing limit is none.
type Bound struct {
	From *float64 `yaml:"from"`
	To   *float64 `yaml:"to"`
	// Near is the share of the published value by which the user's may differ from it.
	Near float64 `yaml:"near"`
}

// Function judges a sentence that no expression fits. Text and place are the file's.
type Function func() finding.Claim

// Claims are a file of sentences that was checked against the published cells.
type Claims struct {
	sentences []Sentence
	cells     Cells
}

// Read reads claims.yaml. It fails for an unknown key, for an expression that is none
// or names a cell that the publication does not have, and for a function without a
// sentence or the other way round.
func Read(data []byte, cells map[string]float64, functions ...string) (*Claims, error) {
	c := &Claims{cells: Published(cells)}
	if err := yaml.UnmarshalWithOptions(data, &c.sentences, yaml.Strict()); err != nil {
		return nil, fmt.Errorf("claims.yaml: %w", err)
	}
	named, judged := map[string]bool{}, map[string]bool{}
	for _, s := range c.sentences {
		if err := s.check(c.cells); err != nil {
			return nil, fmt.Errorf("claims.yaml, claim %q: %w", s.Name, err)
		}
		if named[s.Name] {
			return nil, fmt.Errorf("claims.yaml: two claims have the name %q", s.Name)
		}
		named[s.Name] = true
		judged[s.Judge] = true
	}
	delete(judged, "")
	for _, f := range functions {
		if !judged[f] {
			return nil, fmt.Errorf("claims.yaml: the function %q judges no claim", f)
		}
		delete(judged, f)
	}
	if left := slices.Sorted(maps.Keys(judged)); len(left) > 0 {
		return nil, fmt.Errorf("claims.yaml: no function has the name %q", left[0])
	}
	return c, nil
}

func (s Sentence) check(published Cells) error {
	switch {
	case s.Name == "" || s.Text == "" || s.Where == "":
		return errors.New("needs a name, a text, and where the source has it")
	case s.Judge != "" && (s.Open != "" || len(s.Each) > 0), s.Judge == "" && s.Open == "" && len(s.Each) == 0:
		return errors.New("needs one of cases (each), a function (judge), and why it is open (open); of these, cases alone may stand next to open")
	}
	if s.Open != "" { // the publication lacks its cells: only the form of its expressions is checked
		published = func(string) (Value, bool) { return Exactly(1), true }
	}
	for _, c := range s.Each {
		if c.From == nil && c.To == nil {
			return fmt.Errorf("%s: needs a bound (from, to)", c.Is)
		}
		if c.Here != nil && c.Here.From == nil && c.Here.To == nil && c.Here.Near == 0 {
			return fmt.Errorf("%s: here needs a bound (from, to, near)", c.Is)
		}
		if _, err := evaluate(c.Is, published); err != nil {
			return err
		}
	}
	if _, err := fill(s.Shown, published); err != nil {
		return err
	}
	_, err := fill(s.ShownHere, published)
	return err
}

// Target is a target of the user's run, with its cells.
type Target struct {
	Name  string
	Cells Cells
}

// Judge gives every sentence its verdict, by the published cells and by those of each
// target that has the cells for it. functions must be those that Read was given.
func (c *Claims) Judge(functions map[string]Function, targets ...Target) []finding.Claim {
	var out []finding.Claim
	for _, s := range c.sentences {
		claim := finding.Claim{Verdict: finding.Open, Computed: s.Open}
		switch {
		case s.Judge != "":
			claim = functions[s.Judge]()
		case s.Open == "":
			claim = s.judge(c.cells, targets)
		default:
			claim.Here = s.judge(nothing, targets).Here
		}
		claim.Text, claim.Where = s.Text, s.Where
		if s.Where == "tare" {
			claim.Where, claim.Own = "", true
		}
		if s.Doubt != "" && claim.Verdict == finding.BorneOut {
			claim.Verdict, claim.Computed = finding.Open, claim.Computed+"; doubtful: "+s.Doubt
		}
		out = append(out, claim)
	}
	return out
}

// nothing are the cells of a publication without any.
func nothing(string) (Value, bool) { return Value{}, false }

func (s Sentence) judge(published Cells, targets []Target) finding.Claim {
	known := make([]float64, len(s.Each))
	bounds := make([]Bound, len(s.Each))
	for i, c := range s.Each {
		v, _ := evaluate(c.Is, published) // checked by Read
		known[i], bounds[i] = v.Value, c.Bound
	}
	verdict, _ := s.verdict(published, bounds)
	claim := finding.Claim{Verdict: verdict, Computed: s.text(s.Shown, published, bounds)}
	for i, c := range s.Each {
		if c.Here != nil {
			bounds[i] = c.Here.around(known[i])
		}
	}
	for _, t := range targets {
		if s.NotHere {
			break
		}
		if verdict, asked := s.verdict(t.Cells, bounds); asked {
			claim.Here = append(claim.Here, finding.Answer{Target: t.Name, Verdict: verdict, Computed: s.text(s.ShownHere, t.Cells, bounds)})
		}
	}
	return claim
}

// around is the bound that lies around a published value, where it is one near it.
func (b Bound) around(published float64) Bound {
	if b.Near == 0 {
		return b
	}
	low, high := published-math.Abs(published)*b.Near, published+math.Abs(published)*b.Near
	return Bound{From: &low, To: &high}
}

// within judges a value by its interval.
func (b Bound) within(v Value) finding.Verdict {
	low, high := math.Inf(-1), math.Inf(1)
	if b.From != nil {
		low = *b.From
	}
	if b.To != nil {
		high = *b.To
	}
	return finding.Within(v.Estimate, low, high)
}

// verdict is that of all cases: borne out takes each of them, and one alone refutes.
// The more cases, the more likely one refutes by chance: for that the intervals are
// those that hold for all cases together. Cases whose cells are missing leave open
// what the others bear out; asked is false where all are.
func (s Sentence) verdict(cells Cells, bounds []Bound) (verdict finding.Verdict, asked bool) {
	verdict = finding.BorneOut
	refuted := false
	for i, c := range s.Each {
		v, err := evaluate(c.Is, cells)
		if err != nil {
			verdict = finding.Open
			continue
		}
		asked = true
		if v.Refused {
			return finding.Refused, true
		}
		by := bounds[i].within(v)
		if v.Doubtful {
			by = finding.Open
		}
		if by != finding.BorneOut {
			verdict = finding.Open
		}
		if by == finding.NotBorne {
			wide, err := evaluate(c.Is, cells.together(s.known(cells)))
			refuted = refuted || err == nil && bounds[i].within(wide) == finding.NotBorne // what gives no number refutes nothing
		}
	}
	if refuted {
		return finding.NotBorne, asked
	}
	return verdict, asked
}

// text is what was computed, and the bound.
func (s Sentence) text(shown string, cells Cells, bounds []Bound) string {
	text, err := fill(shown, cells)
	if shown == "" || err != nil {
		text = s.values(cells)
	}
	if n := s.known(cells); n < len(s.Each) {
		text += fmt.Sprintf("; %d of %d were measured", n, len(s.Each))
	}
	var judged []string
	for _, b := range bounds {
		judged = together(judged, []string{b.String()})
	}
	return text + "; judged as " + strings.Join(judged, ", ") + s.notes(cells)
}

// known is the number of cases that have their cells.
func (s Sentence) known(cells Cells) (n int) {
	for _, c := range s.Each {
		if _, err := evaluate(c.Is, cells); err == nil {
			n++
		}
	}
	return n
}

// values are those of the cases with their labels.
func (s Sentence) values(cells Cells) string {
	var parts []string
	for _, c := range s.Each {
		v, err := evaluate(c.Is, cells)
		if err != nil {
			continue
		}
		parts = append(parts, strings.TrimSpace(c.Label+" "+v.format(s.As)))
	}
	return strings.Join(parts, ", ")
}

// notes are what limits the cells, each once.
func (s Sentence) notes(cells Cells) string {
	var notes []string
	for _, c := range s.Each {
		if v, err := evaluate(c.Is, cells); err == nil {
			notes = together(notes, v.Notes)
		}
	}
	if len(notes) == 0 {
		return ""
	}
	return "; " + strings.Join(notes, "; ")
}

// String words a bound.
func (b Bound) String() string {
	switch {
	case b.From == nil && b.To == nil:
		return "any"
	case b.To == nil:
		return fmt.Sprintf("at least %.3g", *b.From)
	case b.From == nil:
		return fmt.Sprintf("at most %.3g", *b.To)
	}
	if *b.From == *b.To {
		return fmt.Sprintf("exactly %.3g", *b.From)
	}
	return fmt.Sprintf("%.3g to %.3g", *b.From, *b.To)
}

// format writes a value with its interval.
func (v Value) format(as string) string {
	if as == "" {
		as = "%.3g"
	}
	at := func(x float64) string { return fmt.Sprintf(as, x) }
	switch i := v.Interval; i.Method {
	case exact:
		return at(v.Value)
	case "":
		return "no number"
	case stats.MethodNone:
		return at(v.Value) + " (no interval)"
	case stats.MethodRange:
		return fmt.Sprintf("%s (its blocks from %s to %s, a level of %.0f %%: too few for a verdict)", at(v.Value), at(i.Low), at(i.High), 100*i.Level)
	default:
		return fmt.Sprintf("%s [%s, %s]", at(v.Value), at(i.Low), at(i.High))
	}
}
