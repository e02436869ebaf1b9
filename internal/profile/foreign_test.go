package profile

import (
	"encoding/json"
	"io"
	"testing"
	"time"
)

// FuzzProfile: a profile of somebody else's run is shown, whatever its numbers are.
func FuzzProfile(f *testing.F) {
	whole := Profile{
		Elapsed: time.Second, Stacks: [][]string{{"mutex_lock", "cgroup_mkdir"}, {"main"}}, Lost: map[string]uint64{"stacks": 1},
		Waits:   []Wait{{Kind: Mutex, Lock: 1, Stack: 0, Count: 3, Total: 4, Most: 5}, {Kind: RWSem, Symbol: "mmap_lock", Stack: -1, Count: 1, Total: 1}},
		Samples: []Sample{{State: OnCPU, Stack: 0, User: 1, Comm: "sh", Count: 9, Total: 8}, {State: Asleep, Stack: 99, User: -7, Count: 1}},
	}
	text, err := json.Marshal(whole)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text, text)
	f.Add([]byte(`{"waits":[{"stack":1e3,"total":-9223372036854775808}],"stacks":[[]]}`), text)
	f.Fuzz(func(t *testing.T, a, b []byte) {
		var all []Profile
		for _, data := range [][]byte{a, b} {
			var p Profile
			if json.Unmarshal(data, &p) == nil {
				all = append(all, p)
			}
		}
		p := Merge(all)
		p.Estimate()
		p.Flame()
		p.Functions()
		p.Table()
		p.Times()
		p.Values()
		if err := p.Folded(io.Discard); err != nil {
			t.Error(err)
		}
		_ = p.Pprof(io.Discard) // it may refuse
	})
}
