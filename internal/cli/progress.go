package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	bar "charm.land/bubbles/v2/progress"
	tea "charm.land/bubbletea/v2"

	"github.com/tarelab/tare/internal/lab"
	"github.com/tarelab/tare/internal/quantity"
)

// progress shows a measurement under way: a live view on a terminal, a line
// per block into a pipe.
type progress interface {
	update(lab.Event)
	stop()
}

// newProgress chooses the view. The live view redraws only between trials and
// twice a second, so that it takes no CPU from what is measured.
func (env *Env) newProgress(plan *lab.Plan) progress {
	if env.draws(env.Stderr) {
		return newLive(raw(env.Stderr), plan)
	}
	return &lines{w: env.Stderr, block: -2}
}

// lines is the plain view.
type lines struct {
	w     io.Writer
	block int
}

func (l *lines) update(e lab.Event) {
	if e.Record == nil && e.Trial.Block != l.block {
		l.block = e.Trial.Block
		fmt.Fprintf(l.w, "%s, %s left\n", blockName(e), e.Left.Round(time.Second))
	}
	if e.Record != nil && e.Record.Failure != nil {
		fmt.Fprintf(l.w, "%s failed: %s\n", e.Cell.ID, e.Record.Failure.Message)
	}
}

func (l *lines) stop() {}

func blockName(e lab.Event) string {
	if e.Trial.Block < 0 {
		return "cold starts"
	}
	return fmt.Sprintf("block %d of %d", e.Trial.Block+1, e.Blocks)
}

// live is the view on a terminal.
type live struct {
	program *tea.Program
	ended   chan struct{}
}

func newLive(w io.Writer, plan *lab.Plan) *live {
	model := liveModel{plan: plan, bar: bar.New(bar.WithWidth(40)), values: map[string][]float64{}}
	l := &live{
		// Signals are Main's; the terminal's input is not ours to read.
		program: tea.NewProgram(model, tea.WithOutput(w), tea.WithInput(nil), tea.WithoutSignalHandler(), tea.WithFPS(2)),
		ended:   make(chan struct{}),
	}
	go func() {
		defer close(l.ended)
		if _, err := l.program.Run(); err != nil {
			fmt.Fprintln(w, "tare: progress display:", err)
		}
	}()
	return l
}

func (l *live) update(e lab.Event) { l.program.Send(e) }

func (l *live) stop() {
	l.program.Quit()
	<-l.ended
}

// liveModel is the live view's state.
type liveModel struct {
	plan     *lab.Plan
	bar      bar.Model
	event    lab.Event
	values   map[string][]float64 // of each cell's primary metric so far
	failures int
	quitting bool
}

func (m liveModel) Init() tea.Cmd { return nil }

func (m liveModel) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case lab.Event:
		m.event = msg
		if r := msg.Record; r != nil && r.Failure != nil {
			m.failures++
		} else if r != nil && r.Block >= 0 {
			metric := m.plan.Primary(msg.Cell)
			m.values[r.Cell] = append(m.values[r.Cell], r.Values[metric.Name]...)
		}
	case tea.QuitMsg:
		m.quitting = true
	}
	return m, nil
}

func (m liveModel) View() tea.View {
	if m.quitting || m.event.Total == 0 {
		return tea.NewView("")
	}
	var b strings.Builder
	e := m.event
	fmt.Fprintf(&b, "%s  %s, %s left", m.bar.ViewAs(float64(e.Done)/float64(e.Total)), blockName(e), e.Left.Round(time.Second))
	if m.failures > 0 {
		fmt.Fprintf(&b, ", %d failed", m.failures)
	}
	fmt.Fprintf(&b, "\nnow: %s\n", e.Cell.ID)
	metric := m.plan.Primary(e.Cell)
	for _, c := range m.plan.Manifest.Cells {
		if v := m.values[c.ID]; len(v) > 0 && c.Group == e.Cell.Group {
			fmt.Fprintf(&b, "  %-28s %s %12s  n=%d\n", c.ID, metric.Name, quantity.Rounded(median(v), metric.Unit), len(v))
		}
	}
	return tea.NewView(b.String())
}

// median is the running estimate's; the report's is made by analysis.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}
