package profile

import (
	"fmt"
	"io"
	"slices"

	pprof "github.com/google/pprof/profile"
)

// Pprof writes the profile for go tool pprof and whatever else reads its format
// (gzipped protobuf): the number of waits or samples, and their time.
func (p Profile) Pprof(w io.Writer) error {
	weight := &pprof.ValueType{Type: "time", Unit: "nanoseconds"}
	if p.Unit != "" {
		weight = &pprof.ValueType{Type: p.Unit, Unit: "count"}
	}
	out := &pprof.Profile{
		SampleType:    []*pprof.ValueType{{Type: "count", Unit: "count"}, weight},
		PeriodType:    weight,
		DurationNanos: p.Elapsed.Nanoseconds(),
		Comments:      p.Notes,
	}
	places := map[string]*pprof.Location{}
	place := func(name string) *pprof.Location {
		l := places[name]
		if l == nil {
			id := uint64(len(places) + 1)
			f := &pprof.Function{ID: id, Name: name, SystemName: name}
			l = &pprof.Location{ID: id, Line: []pprof.Line{{Function: f}}}
			places[name] = l
			out.Function, out.Location = append(out.Function, f), append(out.Location, l)
		}
		return l
	}
	for _, s := range p.weighed() {
		sample := &pprof.Sample{Value: []int64{int64(s.count), int64(s.seconds * 1e9)}}
		for _, frame := range slices.Backward(s.path) {
			sample.Location = append(sample.Location, place(frame))
		}
		out.Sample = append(out.Sample, sample)
	}
	if err := out.Write(w); err != nil {
		return fmt.Errorf("pprof profile: %w", err)
	}
	return nil
}
