package profile

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/tarelab/tare/internal/limit"
)

// TestBombs: a kept profile whose short text would become gigabytes is refused before it
// does, also one that does not end.
func TestBombs(t *testing.T) {
	const n = 20 << 20 // entries; 60 MiB of text
	for name, b := range map[string]struct{ head, entry, tail string }{
		"waits":          {`{"waits":[{}`, `,{}`, `]}`},
		"samples":        {`{"samples":[{}`, `,{}`, `]}`},
		"stacks":         {`{"stacks":[[]`, `,[]`, `]}`},
		"one stack":      {`{"stacks":[["f"`, `,""`, `]]}`},
		"notes":          {`{"notes":["n"`, `,""`, `]}`},
		"a deep field":   {`{"x":[`, `[[[`, ``},
		"an endless one": {`{"notes":["`, `xxx`, `"]}`},
		"many fields":    {`{"elapsed":1`, `,"a":1`, `}`},
		"blanks":         {`{`, `   `, `"stacks":[]}`},
	} {
		text := io.MultiReader(strings.NewReader(b.head), io.LimitReader(&repeat{text: b.entry}, int64(n*len(b.entry))), strings.NewReader(b.tail))
		var err error
		if over := limit.RunProfile.CheckAlloc(func() { _, err = Decode(text) }); over != nil {
			t.Errorf("%s: %v", name, over)
		}
		if err == nil {
			t.Errorf("%s is read", name)
		}
	}
	long := io.MultiReader(strings.NewReader(`{"stacks":[["`), &repeat{text: `f"],["`})
	if _, err := Decode(long); !errors.As(err, new(*limit.Error)) {
		t.Errorf("without an end: %v", err)
	}
}

// TestLongNames: the name of a function is cut, between two characters, and a sum counts
// what it keeps of stacks and names: each once.
func TestLongNames(t *testing.T) {
	const text = `{"samples":[{"stack":0,"user":1,"comm":"c"}],"stacks":[["f"],["%s"]]}`
	p, err := Decode(strings.NewReader(strings.Replace(text, "%s", "a"+strings.Repeat("é", LongestName), 1)))
	if err != nil || len(p.Stacks) != 2 || p.Stacks[0][0] != "f" || p.Stacks[1][0] != "a"+strings.Repeat("é", LongestName/2-1) {
		t.Fatalf("%+v, %v", p, err)
	}
	s := NewSum()
	s.Add(p)
	once := s.Bytes()
	if s.Add(p); once < 2*LongestName || once > 3*LongestName || s.Bytes() != once {
		t.Errorf("%d bytes, then %d", once, s.Bytes())
	}
	p.Notes = []string{strings.Repeat("n", 1000)}
	p.Samples[0].Comm = strings.Repeat("c", 1000)
	if s.Add(p); s.Bytes() < once+2000 {
		t.Errorf("%d bytes, with a long note and a thread's long name %d", once, s.Bytes())
	}
}

// repeat is a text that is read again and again.
type repeat struct {
	text string
	at   int
}

func (r *repeat) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = r.text[r.at]
		r.at = (r.at + 1) % len(r.text)
	}
	return len(p), nil
}

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
			var p, whole Profile
			var err error
			if over := limit.RunProfile.CheckAlloc(func() { p, err = Decode(bytes.NewReader(data)) }); over != nil {
				t.Fatal(over)
			}
			if err != nil {
				continue
			}
			all = append(all, p)
			text, err := json.Marshal(p)
			if err != nil {
				t.Fatal(err)
			}
			again, err := Decode(bytes.NewReader(text))
			if json.Unmarshal(text, &whole) != nil || err != nil || !reflect.DeepEqual(again, whole) {
				t.Fatalf("%s is %+v, and %+v to encoding/json, %v", text, again, whole, err)
			}
		}
		p := merged(all)
		p.Estimate("a test")
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
