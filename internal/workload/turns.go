package workload

import (
	"errors"
	"slices"

	"github.com/tarelab/tare/internal/sample"
)

// KindTurns is the workload that runs the user's own program in turns.
const KindTurns = "turns"

// InTurns is the job as it is measured in rounds; Turns must not be nil.
func (j Job) InTurns() Job {
	rate := sample.In(sample.SliceRate, sample.PerSecond)
	if j.Turns.Bytes > 0 {
		rate = sample.In(sample.SliceRate, sample.BytesPerSecond)
	}
	if !j.OnlyTurns() {
		j.Env = nil // of the program that has the window
	}
	j.Args = slices.Clone(j.Turns.Args)
	j.Parse, j.Together, j.Barrier, j.Length = nil, nil, 0, 0
	j.Metrics = append([]sample.Metric{rate}, sample.Describe(sample.CPUEach, sample.Turnaround, sample.Stalled)...)
	return j
}

// OnlyTurns says that the payload does nothing but take turns: it has no window.
func (j Job) OnlyTurns() bool { return j.Turns != nil && slices.Equal(j.Args, j.Turns.Args) }

// turns runs any program that takes turns.
type turns struct{}

func (turns) Kind() string { return KindTurns }
func (turns) Help() string {
	return "runs the program given as args in rounds of short slices: it takes turns by standard input (docs/slices.md)"
}

func (turns) Params() []Param {
	return []Param{
		{Name: "turn", Type: Word, Default: KindTurns, Help: "the turn's name, as the program knows it"},
		{Name: "evidence", Type: Choice, Default: string(sample.EvidenceNone), Help: "how two targets prove the same work: checked, the program checks its own results; sum, it says check=HEX; cached or device, its bytes=N come from no device or from one; none, it only counts",
			Choices: []string{string(sample.EvidenceNone), string(sample.EvidenceChecked), string(sample.EvidenceSum), string(sample.EvidenceCached), string(sample.EvidenceDevice)}},
	}
}

func (turns) Metrics() []sample.Metric { return nil }

func (turns) Command(v Values, argv []string) (Command, error) {
	if len(argv) == 0 || argv[0] == "" {
		return Command{}, errors.New("args is empty: give the program that takes turns")
	}
	args := slices.Clone(argv)
	return Command{Args: args, Turns: &Turns{Args: args, Copies: 1, Name: v.Text("turn"), Evidence: sample.Evidence(v.Text("evidence"))}}, nil
}

func (turns) Parse([]byte) ([]sample.Value, error) {
	return nil, errors.New("a program that takes turns is not parsed at its end")
}
