package bootlog

import (
	"regexp"
	"slices"
	"strings"
	"time"
)

// A Unit is a systemd unit as systemd tells of it.
type Unit struct {
	Name   string        `json:"name"`  // its name, else its description
	Start  time.Duration `json:"start"` // 0 where it has no start of its own, as a target
	Active time.Duration `json:"active"`
	Took   time.Duration `json:"took"`
	Failed bool          `json:"failed,omitempty"`
}

var (
	unitStarting = regexp.MustCompile(`^(?:Starting|Mounting|Activating swap|Activating) (.+?)\.*$`)
	unitActive   = regexp.MustCompile(`^(?:\[ +OK +\] )?(Started|Finished|Mounted|Reached target|Listening on|Created slice|Set up automount|Activated swap|Found device) (.+?)\.*$`)
	unitFailed   = regexp.MustCompile(`^(?:\[FAILED\] )?Failed to start (.+?)\.*(?: See .*)?$`)
	unitShown    = regexp.MustCompile(`^(?:\[|(?:Starting|Mounting|Activating swap) \S+\.(?:service|socket|target|mount|swap|timer|path) - )`)
	unitNamed    = regexp.MustCompile(`^(\S+\.(?:service|socket|target|mount|swap|slice|device|automount|timer|path|scope)) - `)
)

// units pairs what systemd started with what became active, in the order of
// activation, and guesses the critical chain. systemd may tell twice, on the
// console and in the kernel's log: the first time counts. So many of the console's
// lines about units have no time.
func units(b *Boot) (all, chain []Unit, untimed int) {
	starting := map[string]time.Duration{}
	seen := map[string]bool{}
	add := func(u Unit) {
		if !seen[u.Name] {
			seen[u.Name] = true
			all = append(all, u)
		}
	}
	for _, l := range b.Lines {
		if l.Source != "systemd" && l.Source != "" {
			continue
		}
		text := strings.TrimSpace(l.Text)
		if l.Source == "" && !unitShown.MatchString(text) { // the console's form is systemd's too
			continue
		}
		if !l.Timed {
			if unitActive.MatchString(text) {
				untimed++
			}
			continue
		}
		name := func(described string) string {
			if l.Unit != "" {
				return l.Unit
			}
			if m := unitNamed.FindStringSubmatch(described); m != nil {
				return m[1]
			}
			return described
		}
		if m := unitStarting.FindStringSubmatch(text); m != nil {
			if _, again := starting[name(m[1])]; !again {
				starting[name(m[1])] = l.At
			}
		} else if m := unitActive.FindStringSubmatch(text); m != nil {
			add(became(name(m[2]), l.At, starting, false))
		} else if m := unitFailed.FindStringSubmatch(text); m != nil {
			add(became(name(m[1]), l.At, starting, true))
		}
	}
	return all, criticalChain(all), untimed
}

func became(name string, at time.Duration, starting map[string]time.Duration, failed bool) Unit {
	u := Unit{Name: name, Active: at, Failed: failed}
	if s, ok := starting[name]; ok {
		u.Start, u.Took = s, at-s
		delete(starting, name)
	}
	return u
}

// criticalChain walks back from the unit that became active last: each was
// started when the one before it became active. The log does not hold the
// dependencies, so this is inferred from times alone.
func criticalChain(all []Unit) []Unit {
	if len(all) == 0 {
		return nil
	}
	current := slices.MaxFunc(all, func(x, y Unit) int { return int(x.Active - y.Active) })
	chain := []Unit{current}
	for len(chain) < 50 {
		from := current.Active
		if current.Took > 0 {
			from = current.Start
		}
		before := Unit{Active: -1}
		for _, u := range all {
			if u.Active <= from && u.Active > before.Active && u.Name != current.Name && u.Active < current.Active {
				before = u
			}
		}
		if before.Active < 0 {
			break
		}
		chain = append(chain, before)
		current = before
	}
	return chain
}

// Slowest are the units by the time from their start to being active.
func Slowest(units []Unit) []Unit {
	out := slices.Clone(units)
	slices.SortStableFunc(out, func(x, y Unit) int { return int(y.Took - x.Took) })
	return out
}
