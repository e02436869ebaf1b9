// Package sample is the vocabulary of a measurement: metrics with their units,
// values, and the record of one trial. It is a leaf: it imports nothing of tare.
package sample

// Unit names what a metric's numbers are. All values are stored in the base
// unit (seconds, bytes, plain counts), never scaled; scaling is for reports.
type Unit string

// The units that tare records.
const (
	Seconds        Unit = "s"
	Bytes          Unit = "B"
	Count          Unit = "1"
	PerSecond      Unit = "1/s"
	BytesPerSecond Unit = "B/s"
	BitsPerSecond  Unit = "bit/s"
)

// Better says in which direction a metric improves.
type Better string

// The directions.
const (
	Lower  Better = "lower"
	Higher Better = "higher"
)

// Metric describes one series of numbers.
type Metric struct {
	Name   string `json:"name"`           // lower-case, dashes: "wall", "peak-memory"
	Unit   Unit   `json:"unit"`           // of every value stored under Name
	Better Better `json:"better"`         // direction of improvement
	Help   string `json:"help,omitempty"` // one sentence: what is measured, from where to where
}

// Value is one number of one metric.
type Value struct {
	Metric string
	Value  float64
}

// Fault says whose failure a failed trial is.
type Fault string

// A trial fails by the target's fault (it could not do what was asked; this is
// a finding) or by the laboratory's (tare or the machine failed; this is none).
const (
	FaultTarget     Fault = "target"
	FaultLaboratory Fault = "laboratory"
)

// Failure is why a trial gave no sample.
type Failure struct {
	Fault    Fault  `json:"fault"`
	Phase    string `json:"phase"`              // prepare, start, wait, parse, close
	Message  string `json:"message"`            // what failed and what to do
	ExitCode *int   `json:"exitCode,omitempty"` // the payload's, where it ended by itself
	Signal   int    `json:"signal,omitempty"`   // the signal that ended the payload, else 0
	Stderr   string `json:"stderr,omitempty"`   // its last lines, at most 2 KiB
	// Copies are the copies that failed, from 0, the first to end first, where
	// the trial ran several at once; Message and the others are of the first.
	Copies []int `json:"copies,omitempty"`
	// Each says of every copy that failed, where several ran, why: copies that
	// failed alike together, the first to end first.
	Each []CopiesFailure `json:"each,omitempty"`
}

// CopiesFailure is why some copies of a trial failed, in the same words.
type CopiesFailure struct {
	Fault   Fault  `json:"fault"`
	Phase   string `json:"phase"`
	Message string `json:"message"` // "ID" stands for the instance's own id
	Copies  []int  `json:"copies"`  // from 0
}

// Record is one finished trial, failed or not. Seq is the trial's position in
// the plan and its identity: a run holds at most one record per Seq.
type Record struct {
	Seq   int    `json:"seq"`   // 0..len(plan)-1
	Block int    `json:"block"` // 0..blocks-1; -1 for the cold trial that precedes the blocks
	Cell  string `json:"cell"`  // id of the cell in the run's manifest
	At    int64  `json:"at"`    // start, nanoseconds since the Unix epoch (for people; durations are in Values)
	// Values holds the numbers of each metric by name, one per copy that ran in
	// this trial (one number unless the cell runs several copies at once).
	Values  map[string][]float64 `json:"values,omitempty"`
	Failure *Failure             `json:"failure,omitempty"` // nil when the trial gave samples
	// Survivors holds, in a trial that failed, the numbers of the copies that
	// ended well all the same, in the order of the copies. They are kept to be
	// read and are no samples: those copies had fewer neighbours, for a part of
	// the trial, than the cell says.
	Survivors map[string][]float64 `json:"survivors,omitempty"`
	Warnings  []string             `json:"warnings,omitempty"` // what the reader must know: steal, PSI, throttling
}
