package fleet

import (
	"bytes"
	"testing"
)

// A fleet's directory may be somebody else's: what is in it is data.
func FuzzState(f *testing.F) {
	f.Add([]byte(`{"schema":1,"token":"abcd","engine":"x","args":["run"],"order":["m1","m2"],"wanted":1,"atOnce":1,"attempts":2,"time":1}`),
		[]byte(`{"slot":0,"machine":"m1","attempt":1,"job":"tare-abcd-0-1-m1","what":"submitting"}`+"\n"+`{"slot":0,"machine":"m1","attempt":1,"job":"tare-abcd-0-1-m1","what":"lost"}`+"\n"+`{"slot":0,"machine":"m2","attempt":2,"job":"tare-abcd-0-2-m2","what":"submitting"}`+"\n"+`{"slot":-1`))
	f.Fuzz(func(t *testing.T, plan, jobs []byte) {
		p, err := decodePlan(plan)
		if err != nil {
			return
		}
		p.Jobs()
		p.Sentence()
		events, whole, err := decodeEvents(bytes.NewReader(jobs), p)
		if err != nil {
			return
		}
		if whole > int64(len(jobs)) {
			t.Errorf("%d bytes of %d are whole", whole, len(jobs))
		}
		all := statuses(p, events)
		if len(all) != p.Wanted {
			t.Errorf("%d machines, want %d", len(all), p.Wanted)
		}
		for _, s := range all {
			if len(s.Kept) > len(events) || len(s.Earlier) > len(events) {
				t.Errorf("%+v", s)
			}
		}
		_ = result(all)
	})
}
