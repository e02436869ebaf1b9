package workload

import (
	"errors"
	"fmt"
	"time"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/sample"
)

// Lifecycle is what is done to an instance while it is alive. Stop ends it in any case.
type Lifecycle struct {
	Verbs  []driver.Verb // all that are done, stop too
	Repeat int           // of all but stop
	Quiet  time.Duration // how long a paused payload must not answer
}

// lifecycle times verbs on an instance that is alive.
type lifecycle struct{}

func (lifecycle) Kind() string { return "lifecycle" }
func (lifecycle) Help() string {
	return "exec, pause, unpause and stop of an instance that is alive, each proven by what the payload does then"
}

func (lifecycle) Params() []Param {
	return []Param{
		{Name: "verbs", Type: Choice, Default: "all", Help: "what is done before the instance is stopped; pause goes with unpause", Choices: []string{"all", "exec", "pause", "stop"}},
		{Name: "repeat", Type: Integer, Default: "5", Help: "how often, but for stop; the median counts", Min: 1, Max: 1000},
		{Name: "quiet", Type: Duration, Default: "50ms", Help: "how long a paused payload must not answer", Min: int64(time.Millisecond), Max: int64(time.Minute)},
	}
}

func (lifecycle) Metrics() []sample.Metric {
	return sample.Describe(sample.VerbStop, sample.VerbExec, sample.VerbExecEnd, sample.VerbPause, sample.VerbUnpause)
}

// lifecycleScript answers turns until SIGTERM: 1 to each, and to acted-N whether the N-th
// exec has made its file.
const lifecycleScript = `trap 'exit 0' TERM
while read -r name us; do
	case $name in
	acted-*) if [ -e "/tmp/tare-$name" ]; then echo 1; else echo 0; fi ;;
	*) echo 1 ;;
	esac
done`

func (lifecycle) Command(v Values, _ []string) (Command, error) {
	verbs := map[string][]driver.Verb{
		"exec":  {driver.VerbExec, driver.VerbStop},
		"pause": {driver.VerbPause, driver.VerbUnpause, driver.VerbStop},
		"stop":  {driver.VerbStop},
		"all":   driver.Verbs(),
	}[v.Text("verbs")]
	return Command{
		Args:      []string{shellPath, "-c", lifecycleScript},
		Env:       []string{shellSearch},
		Needs:     []string{"busybox"},
		Lifecycle: &Lifecycle{Verbs: verbs, Repeat: int(v.Int("repeat")), Quiet: v.Duration("quiet")},
	}, nil
}

// Parse is never asked: the verbs are timed from outside.
func (lifecycle) Parse([]byte) ([]sample.Value, error) {
	return nil, errors.New("lifecycle is timed from outside: its output is its answers to turns")
}

// Alive is a turn that the payload always answers.
func (Lifecycle) Alive() string { return "alive" }

// Exec is the command line of the n-th exec.
func (Lifecycle) Exec(n int) []string {
	return []string{shellPath, "-c", `: >"$1"`, "sh", fmt.Sprintf("/tmp/tare-acted-%d", n)}
}

// Acted is the turn that the payload answers with 1 once the n-th exec has acted.
func (Lifecycle) Acted(n int) string { return fmt.Sprintf("acted-%d", n) }
