package bootlog

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// An Initcall is one function that the kernel called to start a part of itself,
// as initcall_debug tells it.
type Initcall struct {
	Name     string        `json:"name"`             // the function
	Module   string        `json:"module,omitempty"` // empty: built in
	Start    time.Duration `json:"start"`
	End      time.Duration `json:"end"`
	Took     time.Duration `json:"took"`            // as the kernel measured it
	Own      time.Duration `json:"own"`             // without what it waited for
	Waits    []Wait        `json:"waits,omitempty"` // inferred from what ended when it returned
	Async    bool          `json:"async,omitempty"` // ran beside the others
	Returned int           `json:"returned"`        // its error, 0 for none; -19 (ENODEV) is a driver without its device
	Complete bool          `json:"complete"`        // false: the log ends before it returned
	pid      string
}

// A Wait is time in which an initcall did nothing but wait.
type Wait struct {
	For  string        `json:"for"` // such as "initramfs" or "async 3_sd_probe"
	Took time.Duration `json:"took"`
	Why  string        `json:"why"` // how that is known
}

// A Probe is a driver's probe of a device.
type Probe struct {
	Device   string        `json:"device"`
	At       time.Duration `json:"at"` // when it returned
	Took     time.Duration `json:"took"`
	Returned int           `json:"returned"`
}

var (
	calling     = regexp.MustCompile(`^calling +(\S+?)(?:\+0x[0-9a-f]+/0x[0-9a-f]+)?(?: \[(\S+)\])? @ (\d+)`)
	returned    = regexp.MustCompile(`^initcall (\S+?)(?:\+0x[0-9a-f]+/0x[0-9a-f]+)?(?: \[(\S+)\])? returned(?: (-?\d+)(?: \(\w+\))?)? after (\d+) ([um])secs`) // today's kernels give async calls no code; before 2.6.28 they were msecs
	probed      = regexp.MustCompile(`^probe of (\S.*?) returned (-?\d+) after (\d+) usecs`)
	asyncName   = regexp.MustCompile(`^\d+_`)
	asyncWaited = regexp.MustCompile(`^async_continuing @ (\d+) after (\d+) usec`)
	asyncTold   = regexp.MustCompile(`^(async_(waiting|continuing) @|(calling|initcall) +\d+_)`)
)

// initcalls collects them in the order of their return, those that never
// returned last.
func initcalls(b *Boot) (calls []Initcall, probes []Probe) {
	open := map[string]Initcall{} // by name and module
	waited := map[string]time.Duration{}
	for _, l := range b.Lines {
		if l.Source != "" {
			continue
		}
		if m := calling.FindStringSubmatch(l.Text); m != nil {
			open[m[1]+" "+m[2]] = Initcall{Name: m[1], Module: m[2], Start: l.At, End: l.At, Async: asyncName.MatchString(m[1]), pid: m[3]}
		} else if m := returned.FindStringSubmatch(l.Text); m != nil {
			c, known := open[m[1]+" "+m[2]]
			delete(open, m[1]+" "+m[2])
			c.Name, c.Module, c.Async, c.Complete = m[1], m[2], asyncName.MatchString(m[1]), true
			c.Took, c.End, c.Returned = microseconds(m[4]), l.At, number(m[3])
			if m[5] == "m" {
				c.Took *= 1000
			}
			if !known || c.End-c.Start < c.Took {
				c.Start = max(c.End-c.Took, 0)
			}
			if w := waited[c.pid]; w > 0 && c.pid != "" {
				c.Waits = append(c.Waits, Wait{For: "async calls", Took: min(w, c.Took), Why: "async_continuing"})
				delete(waited, c.pid)
			}
			calls = append(calls, c)
		} else if m := asyncWaited.FindStringSubmatch(l.Text); m != nil {
			waited[m[1]] += microseconds(m[2])
		} else if m := probed.FindStringSubmatch(l.Text); m != nil {
			probes = append(probes, Probe{m[1], l.At, microseconds(m[3]), number(m[2])})
		}
	}
	return append(calls, unfinished(open)...), probes
}

// hidesAsync says that a kernel with initcall_debug said nothing of asynchronous
// calls: each waits for them once before it is up, and says so if it may.
func hidesAsync(b *Boot) bool {
	return b.up() >= 0 && !slices.ContainsFunc(b.Lines, func(l Line) bool { return l.Source == "" && asyncTold.MatchString(l.Text) })
}

// unfinished are the calls that the log saw start and not return.
func unfinished(open map[string]Initcall) []Initcall {
	var out []Initcall
	for _, c := range open {
		out = append(out, c)
	}
	slices.SortFunc(out, func(x, y Initcall) int { return int(x.Start - y.Start) })
	return out
}

func microseconds(digits string) time.Duration {
	return time.Duration(number(digits)) * time.Microsecond
}

// number reads digits that a pattern has found; one too large for us is 0.
func number(digits string) int {
	n, err := strconv.ParseInt(digits, 10, 48)
	if err != nil {
		return 0
	}
	return int(n)
}

// Unpacking is the initramfs being unpacked, which runs beside the initcalls
// from kernel 5.13 on.
type Unpacking struct {
	Start time.Duration `json:"start"`
	End   time.Duration `json:"end"`
	Size  string        `json:"size"` // as the kernel prints it, unpacked from
}

var (
	unpackStart = regexp.MustCompile(`^(Trying to unpack rootfs image as initramfs|Unpacking initramfs|checking if image is initramfs)`)
	unpackEnd   = regexp.MustCompile(`^Freeing initrd memory: (\S+)`)
)

func unpacking(b *Boot) *Unpacking {
	var u *Unpacking
	for _, l := range b.Lines {
		if l.Source != "" {
			continue
		}
		if unpackStart.MatchString(l.Text) && u == nil {
			u = &Unpacking{Start: l.At}
		} else if m := unpackEnd.FindStringSubmatch(l.Text); m != nil {
			if u != nil { // else the beginning is missing, and how long it took nobody knows
				u.End, u.Size = l.At, m[1]
			}
			return u
		}
	}
	return nil
}

// The calls whose own work unpacking is.
var unpackers = map[string]bool{"populate_rootfs": true, "do_populate_rootfs": true}

// settle says what each call waited for, and what remains is its own. A call
// that was running while the initramfs was unpacked and returned at once when
// that ended has waited for it: an initcall that asks for a module or starts a
// program of user space does (the kernel's wait_for_initramfs), whoever it is.
func settle(calls []Initcall, u *Unpacking) {
	for i := range calls {
		c := &calls[i]
		if w, ok := waitedForInitramfs(c, u); ok {
			c.Waits = append(c.Waits, w)
		}
		c.Own = c.Took
		for _, w := range c.Waits {
			c.Own -= w.Took
		}
		c.Own = max(c.Own, 0)
	}
}

func waitedForInitramfs(c *Initcall, u *Unpacking) (Wait, bool) {
	if u == nil || !c.Complete || len(c.Waits) > 0 || unpackers[asyncName.ReplaceAllString(c.Name, "")] {
		return Wait{}, false
	}
	overlap := u.End - max(c.Start, u.Start)
	late := c.End - u.End
	if overlap < 2*time.Millisecond || late < 0 || late > max(20*time.Millisecond, c.Took/4) || overlap < c.Took/2 {
		return Wait{}, false
	}
	return Wait{For: "initramfs", Took: min(overlap, c.Took), Why: fmt.Sprintf("returned %.1f ms after it was unpacked", late.Seconds()*1e3)}, true
}

// tick finds the coarse clock: before the kernel has a good one, durations are
// multiples of its timer tick. It is 0 where they are not.
func tick(calls []Initcall) time.Duration {
	for _, t := range []time.Duration{10 * time.Millisecond, 4 * time.Millisecond} {
		multiples, all := 0, 0
		for _, c := range calls {
			if c.Complete && c.Took > 0 {
				all++
				if c.Took%t == 0 {
					multiples++
				}
			}
		}
		if all >= 5 && multiples*2 > all {
			return t
		}
	}
	return 0
}

// shortName is a call's name without its number in the async queue.
func (c Initcall) shortName() string {
	return strings.TrimLeft(asyncName.ReplaceAllString(c.Name, ""), "_")
}
