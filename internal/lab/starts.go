package lab

import (
	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/store"
	"github.com/tarelab/tare/internal/workload"
	"github.com/tarelab/tare/published"
)

// startsPublished is the publication that runs of many starts stand beside.
const startsPublished = "concurrent-start"

// startsClaims says what a run tells of many instances at once, beside the
// published study that it repeats.
func startsClaims(run *store.Run, claims *analysis.Claims) error {
	m := run.Manifest()
	if m.Study.Published != startsPublished {
		return nil
	}
	p, err := published.LoadAs[*published.ConcurrentStart](startsPublished)
	if err != nil {
		return err
	}
	records, err := collect(run)
	if err != nil {
		return err
	}
	held := map[string]bool{}
	for _, w := range m.Study.Workloads {
		held[w.Name] = w.Kind == workload.KindHold
	}
	unread := map[string]string{}
	for name, facts := range m.Targets {
		unread[name] = facts.Notes[driver.NoteUnread]
	}
	starts := analysis.Starts(analysis.StartsInput{
		Cells: m.Cells, Records: records, Tables: claims.Tables, Published: p, CPUs: m.Host.CPUs, Held: held, Image: m.ImageSource, Missing: m.MissingCounters, Unread: unread, Seed: m.Seed,
	})
	claims.Starts = &starts
	return nil
}
