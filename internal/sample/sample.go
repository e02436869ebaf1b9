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
	Way    string // how it was measured (see OtherWay); "" for the usual way
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
	// Reached are the steps of the start that came before it failed, by metric, in
	// seconds since the request: a machine whose guest ends at /init has its boot.
	Reached map[string]float64 `json:"reached,omitempty"`
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
	Warnings  []Warning            `json:"warnings,omitempty"` // what the reader must know
	// Slices are the slices of a cell that was measured in rounds; nil for another.
	Slices *Slices `json:"slices,omitempty"`
}

// Slices are what a cell did in the rounds of one block: element i of each list
// is the cell's i-th slice. Times are in nanoseconds. Where several instances took
// the turn at once, Count and CPU are their sums, and Own is the time that gives
// the sum of their rates as Count/Own.
type Slices struct {
	Round []int     `json:"round"` // from 0
	Count []float64 `json:"count"` // iterations
	Own   []int64   `json:"own"`   // by the payload's own clock; by the laboratory's where it names no times
	CPU   []int64   `json:"cpu,omitempty"`
	// From and To bracket the slice on the laboratory's clock, since the block's
	// first slice: the turn was given, the answer had come.
	From []int64 `json:"from"`
	To   []int64 `json:"to"`
	// Stalled are the slices, by their place in these lists, during which the
	// payload did not run for long. They are kept.
	Stalled []int `json:"stalled,omitempty"`
	// Bytes are the payload bytes that the program says it moved: of the slices
	// around which Device was read, of all where it is nil.
	Bytes float64 `json:"bytes,omitempty"`
	// Device is what devices moved for the target in some of the slices, in bytes; nil where
	// that was not asked for or cannot be read.
	Device *float64 `json:"device,omitempty"`
	// Said are the other key=value words of the answers, without repetition.
	Said []string `json:"said,omitempty"`
}

// Evidence is how a slice proves that two targets did the same work.
type Evidence string

// The kinds of evidence.
const (
	// EvidenceChecked: the program checks the results of its own work in every
	// batch and ends where one is wrong, so that a count is work done.
	EvidenceChecked Evidence = "checked"
	// EvidenceSum: the program says check=HEX, and both sides say the same.
	EvidenceSum Evidence = "sum"
	// EvidenceCached: checked, and served from memory. Devices moved fewer bytes for
	// the instance than a hundredth of what the payload read.
	EvidenceCached Evidence = "cached"
	// EvidenceDevice: checked, and served by a disk. Devices moved at least nine
	// tenths of the payload's bytes for the instance.
	EvidenceDevice Evidence = "device"
	// EvidenceNone: nothing is known of the work: a user's program that gives a
	// count alone. What is compared is then what that program counts.
	EvidenceNone Evidence = "none"
)
