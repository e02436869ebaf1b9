package finding

import "github.com/tarelab/tare/internal/stats"

// Verdict is what numbers say of a published claim.
type Verdict string

// The verdicts.
const (
	BorneOut Verdict = "borne out"
	NotBorne Verdict = "not"
	Open     Verdict = "open"    // the interval reaches across the claim's limits, or there is no interval
	Refused  Verdict = "refused" // the run was disturbed
)

// Claim is one sentence of a publication, judged by the publication's own numbers
// and by those of this machine.
type Claim struct {
	Text     string   `json:"text"`            // the claim
	Where    string   `json:"where,omitempty"` // the table or section of the source
	Own      bool     `json:"own,omitempty"`   // the sentence is tare's: the source does not say it
	Computed string   `json:"computed"`        // what the published numbers give, and by which rule they were judged
	Verdict  Verdict  `json:"verdict"`
	Here     []Answer `json:"here,omitempty"` // one for each target; none where one machine cannot answer
}

// Answer is a claim asked of one target of this machine.
type Answer struct {
	Target   string  `json:"target"`
	Computed string  `json:"computed"`
	Verdict  Verdict `json:"verdict"`
}

// Within judges an estimate by its interval against the limits of a claim.
func Within(e stats.Estimate, low, high float64) Verdict {
	switch i := e.Interval; {
	case !i.Decides():
		return Open
	case i.Low >= low && i.High <= high:
		return BorneOut
	case i.High < low || i.Low > high:
		return NotBorne
	}
	return Open
}
