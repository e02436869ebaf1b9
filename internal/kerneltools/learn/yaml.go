package learn

import (
	"fmt"
	"regexp"
	"strings"
)

// A Header is what stands at the head of a need that was learned.
type Header struct {
	ID       string
	Command  string   // that was run
	Release  string   // of the kernel that was observed
	Includes []string // the needs that its kernel has besides
}

// goodID is the id of a need that was learned.
var goodID = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,63}$`)

// Check refuses a header that no need can have.
func (h Header) Check() error {
	if !goodID.MatchString(h.ID) {
		return fmt.Errorf("%q is no id of a need: small letters, digits and hyphens, at most 64", h.ID)
	}
	return nil
}

// YAML is the proposal as a need (docs/needs.md), with all its evidence.
func (p *Proposal) YAML(h Header) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "# Proposed by tare trim learn: read it before you use it.\nid: %s\ntitle: %s\n", h.ID, text("What was learned of: "+h.Command))
	fmt.Fprintf(&b, "source: %s\n", text("a trace of it on Linux "+h.Release))
	if len(h.Includes) > 0 {
		fmt.Fprintf(&b, "includes: [%s]\n", strings.Join(h.Includes, ", "))
	}
	news := p.News()
	if len(news) == 0 {
		return []byte(b.String())
	}
	b.WriteString("symbols:\n")
	for _, s := range news {
		optional := ""
		if s.Optional {
			optional = ", optional: true"
		}
		var seen []string
		for _, r := range s.Reasons {
			seen = append(seen, r.Seen)
		}
		fmt.Fprintf(&b, "  - {symbol: %s%s, why: %s, source: %s}\n", s.Symbol, optional, text(strings.Join(seen, "; ")), text(s.Reasons[0].Rule))
	}
	return []byte(b.String())
}

// text is a text in YAML's double quotes, cut where it is long.
func text(s string) string {
	const most = 600
	if len(s) > most {
		s = s[:most] + " ..."
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(strings.Map(visible, s)) + `"`
}
