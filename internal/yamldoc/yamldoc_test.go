package yamldoc_test

import (
	"strings"
	"testing"

	"github.com/tarelab/tare/internal/limit"
	"github.com/tarelab/tare/internal/yamldoc"
)

var text = limit.Limit{Input: "text", Bytes: 1 << 20, Items: 20_000, Depth: 32, Alloc: 256 << 20}

// bomb is a document of some hundred bytes that holds 10^9 values where aliases are
// followed; a need of 40 KB with aliases took gigabytes on a2ee321.
const bomb = "a: &a [x,x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]\n"

func TestRefused(t *testing.T) {
	for document, want := range map[string]string{
		bomb:                            "anchors, aliases and merge keys",
		"":                              "the text is empty",
		"a: 1\n---\nb: 2\n":             "one document",
		strings.Repeat("[", 5000):       "nested too deeply",
		strings.Repeat("- ", 5000):      "nested too deeply",
		strings.Repeat("a: b\n", 20000): "too long",
		strings.Repeat(" ", 1<<20+1):    "more than 1048576 bytes",
		"a: !!binary x":                 "tags and directives",
		"? a\n: b":                      "complex keys",
	} {
		var err error
		if over := text.CheckAlloc(func() { _, err = yamldoc.Parse([]byte(document), text) }); over != nil {
			t.Errorf("%.40q: %v", document, over)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want %q", document, err, want)
		}
	}
	if _, err := yamldoc.Parse([]byte("a: {b: [c, d]}\n"), text); err != nil {
		t.Error(err)
	}
}

// FuzzParse: no text makes the parser panic or take more memory than its limit.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{bomb, "a: {b: [c, d]}\n", "- a\n- 'b'\n", "a: |\n  text\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if over := text.CheckAlloc(func() { _, _ = yamldoc.Parse(data, text) }); over != nil {
			t.Fatal(over)
		}
	})
}
