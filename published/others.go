package published

import "fmt"

// ContainerVMTrim is the boot of a container host's virtual machine before and
// after its kernel, initrd and clock were trimmed. Times are in seconds.
type ContainerVMTrim struct {
	Source `yaml:",inline"`
	Method struct {
		Guest       string            `yaml:"guest"`
		Host        string            `yaml:"host"`
		Instruments []string          `yaml:"instruments"`
		Milestones  map[string]string `yaml:"milestones"` // result -> the line of the boot log that ends it
		Changes     []string          `yaml:"changes"`
	} `yaml:"method"`
	Results  map[string]TrimResult `yaml:"results"` // kernel, initrd, modules, total
	Phases   []TrimPhase           `yaml:"phases"`
	Evidence struct {
		USBLinesBefore int      `yaml:"usb_lines_before"`
		Subsystems     []string `yaml:"subsystems"`
	} `yaml:"evidence"`
	CostliestSteps []TrimStep `yaml:"costliest_steps"` // before trimming
}

// TrimResult is one milestone.
type TrimResult struct {
	Before          float64 `yaml:"before"`
	After           float64 `yaml:"after"`
	Speedup         float64 `yaml:"speedup"` // as the source prints it
	BeforeTable     float64 `yaml:"before_in_table_4_1"`
	SpeedupOfTables float64 `yaml:"speedup_against_table_4_1"`
	Doubt           string  `yaml:"doubt"` // what in the source speaks against it; "" for nothing
	Note            string  `yaml:"note"`
}

// TrimPhase is a range of lines of the boot log.
type TrimPhase struct {
	Lines   string  `yaml:"lines"`
	What    string  `yaml:"what"`
	Seconds float64 `yaml:"seconds"`
}

// TrimStep is one line of the boot log: a list of three in the file.
type TrimStep struct {
	At, Took float64 // seconds since the kernel started, and since the line before
	Line     string
}

// UnmarshalYAML reads the list of three.
func (s *TrimStep) UnmarshalYAML(unmarshal func(any) error) error {
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
	*s = TrimStep{at, took, line}
	return nil
}
