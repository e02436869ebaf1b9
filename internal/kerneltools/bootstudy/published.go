package bootstudy

import (
	"fmt"

	"github.com/tarelab/tare/published"
)

// PublishedBy names the experiment whose publication is a Published.
const PublishedBy = "container-vm-trim"

// Published is a published boot of a container host's virtual machine before and
// after its kernel, initrd and clock were trimmed. Times are in seconds.
type Published struct {
	published.Source `yaml:",inline"`
	Method           struct {
		Guest       string            `yaml:"guest"`
		Host        string            `yaml:"host"`
		Instruments []string          `yaml:"instruments"`
		Milestones  map[string]string `yaml:"milestones"` // result -> the line of the boot log that ends it
		Changes     []string          `yaml:"changes"`
	} `yaml:"method"`
	Results  map[string]PublishedResult `yaml:"results"` // kernel, initrd, modules, total
	Phases   []PublishedPhase           `yaml:"phases"`
	Evidence struct {
		Before map[string]int `yaml:"before"`
		After  map[string]int `yaml:"after"`
	} `yaml:"evidence"` // lines of the log, by part of the kernel
	CostliestSteps []PublishedStep `yaml:"costliest_steps"` // before trimming
}

// ReadPublished reads the publication's text.
func ReadPublished(text []byte) (*Published, error) {
	return published.Read(PublishedBy, text, new(Published))
}

// PublishedResult is one milestone.
type PublishedResult struct {
	Before          float64 `yaml:"before"`
	After           float64 `yaml:"after"`
	Speedup         float64 `yaml:"speedup"` // as the source prints it
	BeforeTable     float64 `yaml:"before_in_table_4_1"`
	SpeedupOfTables float64 `yaml:"speedup_against_table_4_1"`
	Note            string  `yaml:"note"`
}

// PublishedPhase is a range of lines of the boot log.
type PublishedPhase struct {
	Lines   string  `yaml:"lines"`
	What    string  `yaml:"what"`
	Seconds float64 `yaml:"seconds"`
}

// PublishedStep is one line of the boot log: a list of three in the file.
type PublishedStep struct {
	At, Took float64 // seconds since the kernel started, and since the line before
	Line     string
}

// UnmarshalYAML reads the list of three.
func (s *PublishedStep) UnmarshalYAML(unmarshal func(any) error) error {
	var raw []any
	if err := unmarshal(&raw); err != nil {
		return err
	}
	if len(raw) != 3 {
		return fmt.Errorf("a step has %d parts, not time, duration and line", len(raw))
	}
	at, ok1 := raw[0].(float64)
	took, ok2 := raw[1].(float64)
	line, ok3 := raw[2].(string)
	if !ok1 || !ok2 || !ok3 {
		return fmt.Errorf("a step is %v, not time, duration and line", raw)
	}
	*s = PublishedStep{at, took, line}
	return nil
}
