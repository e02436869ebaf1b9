package kernelwaits

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/tarelab/tare/internal/finding"
	"github.com/tarelab/tare/internal/profile"
	"github.com/tarelab/tare/internal/quantity"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/stats"
)

// timesFinding says how a watched cell's threads spent their time, and where
// most of it went.
func timesFinding(w watchedCell) string {
	var parts []string
	if w.Unit != "" {
		text := fmt.Sprintf("%s %d samples", waitsTitle(w), w.Samples)
		if w.Unit != "samples" {
			text += " of " + w.Unit
		}
		if most := mostOf(w, profile.OnCPU); most != "" {
			text += " (" + most + ")"
		}
		return text + "; " + waitsNote(w)
	}
	for _, state := range profile.States() {
		if w.Source != "" && w.States[state] == 0 { // what was not recorded
			continue
		}
		part := quantity.Of(sample.Seconds, w.States[state], stats.Interval{}) + " " + string(state)
		if most := mostOf(w, state); most != "" {
			part += " (" + most + ")"
		}
		parts = append(parts, part)
	}
	return waitsTitle(w) + " its threads spent " + strings.Join(parts, ", ") + "; " + waitsNote(w)
}

// mostOf names the places that most of a state's time was spent in.
func mostOf(w watchedCell, state profile.State) string {
	var parts []string
	for _, r := range w.Times {
		if r.State != state || state == profile.Runnable || r.Kernel || r.Shared || w.States[state] == 0 {
			continue
		}
		if share := r.Total / w.States[state]; share >= 0.05 && len(parts) < 3 {
			parts = append(parts, fmt.Sprintf("%.0f %% %s", 100*share, r.Name))
		}
	}
	return strings.Join(parts, ", ")
}

// timesGrid is the table of functions, the longest time first.
func timesGrid(w watchedCell) finding.Table {
	shown := w.Times[:min(len(w.Times), waitRows)]
	var most float64
	for _, r := range shown {
		most = max(most, r.Total)
	}
	total := totalColumn(w, most)
	g := finding.Table{Title: strings.TrimSuffix(waitsTitle(w), ":"),
		Head: []string{"where", "state", total.head, "of elapsed", "thread", "times seen"}}
	for _, r := range shown {
		name := r.Name
		if r.Lock {
			name += " *"
		}
		name += others(r.Kernel, r.Shared)
		g.Rows = append(g.Rows, []string{name, string(r.State), total.cell(r.Total), perElapsed(w, r.Total), threads(r), strconv.FormatUint(r.Count, 10)})
	}
	return g
}

// threads is the name of the threads that spent most of a row's time, with its
// share.
func threads(r profile.TimeRow) string {
	if len(r.Of) == 0 || r.Total == 0 {
		return quantity.Missing
	}
	if share := r.Of[0].Total / r.Total; share < 0.995 {
		return fmt.Sprintf("%s %.0f %%", r.Of[0].Name, 100*share)
	}
	return r.Of[0].Name
}

// timesLegend explains the table's words.
const timesLegend = `On a CPU: the function that ran, by samples; the time of all together is the scheduler's and exact. ` + timesWords

// importedLegend explains those of a profile from elsewhere.
const importedLegend = `On a CPU: the function that ran, by samples, each with the weight that was recorded. ` + timesWords

const timesWords = `Asleep: the function that gave the CPU up, and until it ran again; exact. Preempted: another took the CPU. * a lock, inferred from the function that takes it. "of elapsed" is the time of all threads over the elapsed time: how many threads were there on average. † kernel threads, for whomever: only what they ran. ‡ threads of the user's own engine, which may work for others too. Functions of programs are named where their files have symbols, callers where they keep frame pointers.`
