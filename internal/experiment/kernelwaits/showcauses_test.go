package kernelwaits

import (
	"strings"
	"testing"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/stats"
	"github.com/tarelab/tare/internal/study"
)

// The advice begins with what is surely gained most; what is warned of follows, the
// dearest first, with what to do instead; what has no verdict is no advice.
func TestAdviceIsRankedAndSaysHow(t *testing.T) {
	of := func(name string, expect study.Expect, ratio float64, verdict analysis.Verdict) cause {
		return cause{
			Intervention: study.Intervention{Name: name, Expect: expect, Advice: "how to " + name},
			Starts:       &analysis.Effect{Ratio: ratio, Interval: stats.Interval{Low: ratio * 0.9, High: ratio * 1.1, Method: stats.MethodOrder}, Verdict: verdict},
			Noise:        0.031,
		}
	}
	pool := of("pool", study.ExpectFaster, 2, analysis.Faster)
	pool.Left = []leftWait{
		{Name: "namespace_sem", Share: 0.6, Each: 0.003},
		{Name: "little", Share: 0.001, Each: 1e-6},
	}
	s := causesSection([]cause{
		pool,
		of("limit", study.ExpectFaster, 1.3, analysis.Faster),
		of("guess", study.ExpectFaster, 1.5, analysis.Open),
		of("wrong", study.ExpectFaster, 0.8, analysis.Faster),
		of("mounts", study.ExpectSlower, 0.5, analysis.Faster),
	})
	var got []string
	for _, row := range s.Tables[0].Rows {
		got = append(got, row[0]+": "+row[2])
	}
	want := "pool: how to pool; limit: how to limit; avoid: mounts: how to mounts; avoid: wrong: what is there already is faster"
	if strings.Join(got, "; ") != want {
		t.Errorf("advice %q, want %q", got, want)
	}
	if floor := s.Tables[1].Rows[0][2]; floor != "3.1 %" {
		t.Errorf("noise %q", floor)
	}
	if head := strings.Join(s.Tables[1].Head, ", "); head != "intervention, starts a second, noise" {
		t.Errorf("columns %q, of which nothing was watched", head)
	}
	if f := s.Findings[0]; !strings.HasSuffix(f, "Why not more: each start still waits 3.00 ms for namespace_sem (60\u00a0%).") {
		t.Errorf("finding %q", f)
	}
}
