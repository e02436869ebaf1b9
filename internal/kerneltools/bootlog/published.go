package bootlog

import (
	"regexp"
	"time"

	"github.com/agext/levenshtein"
)

// CallNames are the functions of the boot's initcalls, each once, as a kernel
// tree has them.
func (p *Profile) CallNames() []string {
	seen := map[string]bool{}
	var out []string
	for _, c := range p.Initcalls {
		name := asyncName.ReplaceAllString(c.Name, "")
		if !seen[name] {
			seen[name] = true
			out = append(out, name)
		}
	}
	return out
}

// digits are what differs between two machines' lines that say the same.
var digits = regexp.MustCompile(`0x[0-9a-f]+|[0-9]+`)

// Match finds the line that says the same as another log's line: equal but for
// numbers, or nearly so. The time is that since the line before it.
func (p *Profile) Match(line string) (at, took time.Duration, text string, found bool) {
	want := digits.ReplaceAllString(line, "#")
	best := 0.75 // of 1, which is equal
	for i, l := range p.Boot.Lines {
		if likeness := levenshtein.Match(digits.ReplaceAllString(l.Text, "#"), want, nil); likeness > best {
			best, found = likeness, true
			at, took, text = l.At, 0, l.Text
			if i > 0 {
				took = max(l.At-p.Boot.Lines[i-1].At, 0)
			}
		}
	}
	return at, took, text, found
}
