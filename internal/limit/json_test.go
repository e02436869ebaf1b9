package limit_test

import (
	"strings"
	"testing"

	"github.com/tarelab/tare/internal/limit"
)

func TestCheckJSON(t *testing.T) {
	l := limit.Limit{Input: "input", Items: 3, Depth: 2}
	for text, want := range map[string]string{
		`{"a":[1,2],"b":{}}`:                  "",
		`{"a":"[[[[{{{{\"[[[\\"}`:             "", // a string's content is no structure
		`{"a":"\`:                             "", // the decoder refuses it
		`{"a`:                                 "",
		`[{},{}]`:                             "",
		`[{},{},{}]`:                          "input has more than 3 entries",
		`[[[]]]`:                              "input has more than 2 levels",
		`[` + strings.Repeat("1,", 24) + `1]`: "",
		`[` + strings.Repeat("1,", 25) + `1]`: "input has more than 24 values",
		`{"a":1` + strings.Repeat(`,"b":1`, 12) + `}`:    "input has more than 24 values",
		strings.Repeat("]", 9) + strings.Repeat("[", 4):  "input has more than 3 entries",
		`"` + strings.Repeat("\\\"", 1000) + `",` + `[[`: "",
	} {
		got := ""
		if err := l.CheckJSON([]byte(text)); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%.60s: %q, want %q", text, got, want)
		}
	}
}

func BenchmarkCheckJSON(b *testing.B) {
	text := []byte(`[` + strings.Repeat(`{"id":"host/start","target":"host","copies":1,"limits":{"cpus":1.5}},`, 10_000) + `{}]`)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if err := (limit.Limit{Input: "input", Items: 100_000}).CheckJSON(text); err != nil {
			b.Fatal(err)
		}
	}
}
