package bootlog

import (
	"fmt"
	"regexp"
	"slices"
	"time"
)

// A Profile says where a boot's time went.
type Profile struct {
	Boot       *Boot       `json:"-"`
	Kernel     string      `json:"kernel"`
	Command    string      `json:"command"`
	Clock      Clock       `json:"clock"`
	Lines      int         `json:"lines"`
	End        float64     `json:"end"` // seconds, of the last line
	Milestones []Milestone `json:"milestones"`
	Phases     []Phase     `json:"phases"` // as the published log is cut
	Steps      []Step      `json:"steps"`  // the costliest first
	Initcalls  []Initcall  `json:"initcalls"`
	Probes     []Probe     `json:"probes,omitempty"`
	Initramfs  *Unpacking  `json:"initramfs,omitempty"`
	Waits      []RootWait  `json:"waits,omitempty"`
	Subsystems []Subsystem `json:"subsystems"`
	Units      []Unit      `json:"units,omitempty"`
	Chain      []Unit      `json:"chain,omitempty"` // inferred critical chain, the last unit first
	Modules    []Module    `json:"modules,omitempty"`
	Symbols    []Symbol    `json:"symbols,omitempty"` // with a kernel tree
	Warnings   []string    `json:"warnings,omitempty"`
}

// A Step is the time between a line and the one before it, as the kernel's
// scripts/show_delta has it. What took it lies between the two.
type Step struct {
	At     time.Duration `json:"at"`
	Took   time.Duration `json:"took"`
	Line   string        `json:"line"`
	After  string        `json:"after"`            // the line before
	While  []string      `json:"while,omitempty"`  // initcalls that were running
	Source string        `json:"source,omitempty"` // who wrote the line; empty: the kernel
}

// Part is the part of the kernel that the step's line is of, or the program that
// wrote it.
func (s Step) Part() string {
	if s.Source != "" {
		return s.Source
	}
	return subsystemOfLine(s.Line)
}

const (
	// quietEnd is how long a machine says nothing once its boot is over: longer than
	// systemd waits for a unit that does not start (90 s). So long a boot goes on, too,
	// when systemd has started all: what starts containers then is looked for.
	quietEnd = 2 * time.Minute
	// longest is how long a boot takes at most once the kernel is up, where messages
	// keep coming and nothing else says that it is over.
	longest = 15 * time.Minute
)

// allStarted is systemd's last word of a boot: its instances for users name no kernel.
var allStarted = regexp.MustCompile(`^Startup finished in .*\(kernel\)`)

// up is the line with which the kernel is up, -1 for none.
func (b *Boot) up() int {
	return slices.IndexFunc(b.Lines, func(l Line) bool {
		return l.Source == "" && (kernelUp.MatchString(l.Text) || runsInit.MatchString(l.Text))
	})
}

// booting is a boot without what the machine said when it was long up: a dmesg of
// days is mostly that.
func (b *Boot) booting() *Boot {
	up := b.up()
	switch {
	case len(b.Lines) == 0, b.longUp(), up < 0 && b.Kernel != "":
		return b
	case up < 0: // a ring buffer that has lost the beginning may have lost that, too
		up = 0
	}
	last := b.Lines[up].At
	limit, over := last+longest, "15 minutes after the kernel was up"
	for i, l := range b.Lines[up:] {
		if !l.Timed {
			continue
		}
		if l.At-last > quietEnd {
			limit, over = last, fmt.Sprintf("after which nothing was said for %.0f s", (l.At-last).Seconds())
		}
		if l.At > limit {
			cut := *b
			cut.Lines, cut.Warnings = b.Lines[:up+i], slices.Clone(b.Warnings)
			cut.warn("the boot is taken to end at %.3f s, %s: the %d lines behind that are left out", last.Seconds(), over, len(b.Lines)-up-i)
			return &cut
		}
		if l.Source == "systemd" && allStarted.MatchString(l.Text) && l.At+quietEnd < limit {
			limit, over = l.At+quietEnd, "2 minutes after systemd had started all"
		}
		last = l.At
	}
	return b
}

// New takes a boot apart, up to where the machine was long up.
func New(b *Boot) *Profile {
	b = b.booting()
	p := &Profile{Boot: b, Kernel: b.Kernel, Command: b.Command, Clock: b.Clock, Lines: len(b.Lines), End: b.End().Seconds(), Warnings: slices.Clone(b.Warnings)}
	p.Initramfs = unpacking(b)
	p.Initcalls, p.Probes = initcalls(b)
	settle(p.Initcalls, p.Initramfs)
	p.Milestones = milestones(b)
	p.Phases = phases(b, p.Milestones)
	p.Steps = steps(b, p.Initcalls)
	p.Waits = rootWaits(b)
	var shown int
	p.Units, p.Chain, shown = units(b)
	p.Modules = modules(b, p.Initcalls)
	p.Subsystems = subsystems(b, p.Initcalls)
	p.doubt(shown)
	slices.SortStableFunc(p.Initcalls, func(x, y Initcall) int { return int(y.Own - x.Own) })
	return p
}

// doubt warns of what the profile cannot tell. So many lines of systemd's about units
// have no time.
func (p *Profile) doubt(untimedUnits int) {
	switch {
	case len(p.Initcalls) == 0:
		p.Warnings = append(p.Warnings, "no initcalls: boot with initcall_debug ignore_loglevel log_buf_len=4M to have them")
	case hidesAsync(p.Boot):
		p.Warnings = append(p.Warnings, "no asynchronous calls, and no waits for them, which count as the waiting initcall's own: this kernel tells of them with dyndbg=\"file kernel/async.c +p\" (CONFIG_DYNAMIC_DEBUG)")
	}
	if untimedUnits > 0 && len(p.Units) == 0 {
		p.Warnings = append(p.Warnings, fmt.Sprintf("no units: the %d lines of systemd's about them have no time; boot with systemd.log_target=kmsg printk.devkmsg=on, or read the console with grabserial -t", untimedUnits))
	}
	if t := tick(p.Initcalls); t > 0 {
		p.Warnings = append(p.Warnings, "most initcalls took a multiple of "+t.String()+": they were timed by the timer tick, single durations are that coarse")
	}
	for _, c := range p.Initcalls {
		if !c.Complete {
			p.Warnings = append(p.Warnings, "initcall "+c.Name+" was called and has not returned: the log ends in it, or it hangs")
		}
	}
}

// steps are the differences of neighbouring lines, the costliest first.
func steps(b *Boot, calls []Initcall) []Step {
	var out []Step
	var before *Line
	for i := range b.Lines {
		l := &b.Lines[i]
		if !l.Timed {
			continue
		}
		if before != nil && l.At > before.At {
			out = append(out, Step{At: l.At, Took: l.At - before.At, Line: l.Text, After: before.Text, Source: l.Source})
		}
		before = l
	}
	slices.SortStableFunc(out, func(x, y Step) int { return int(y.Took - x.Took) })
	for i := range out[:min(len(out), 100)] { // those that anybody looks at
		out[i].While = running(calls, out[i].At-out[i].Took, out[i].At)
	}
	return out
}

// running are the calls that overlap more than half of a span.
func running(calls []Initcall, from, to time.Duration) []string {
	var out []string
	for _, c := range calls {
		if min(c.End, to)-max(c.Start, from) > (to-from)/2 {
			out = append(out, c.Name)
		}
	}
	return out
}

// A Module is a kernel module as the log tells of its start.
type Module struct {
	Name string        `json:"name"`
	At   time.Duration `json:"at"`   // when it was there
	Took time.Duration `json:"took"` // of its initcalls, without waits; 0 where the log has none
}

// modules are those that started, in their order.
func modules(b *Boot, calls []Initcall) []Module {
	var out []Module
	index := map[string]int{}
	for _, c := range calls {
		if c.Module == "" {
			continue
		}
		i, known := index[c.Module]
		if !known {
			i = len(out)
			index[c.Module] = i
			out = append(out, Module{Name: c.Module})
		}
		out[i].At = max(out[i].At, c.End)
		out[i].Took += c.Own
	}
	for _, l := range b.Lines {
		if m := moduleLoaded.FindStringSubmatch(l.Text); m != nil && l.Source == "" {
			if _, known := index[m[1]]; !known {
				index[m[1]] = len(out)
				out = append(out, Module{Name: m[1], At: l.At})
			}
		}
	}
	slices.SortStableFunc(out, func(x, y Module) int { return int(x.At - y.At) })
	return out
}

// A RootWait is the kernel or init waiting for something, as the log says it.
type RootWait struct {
	For  string        `json:"for"`
	At   time.Duration `json:"at"`
	Took time.Duration `json:"took"`
}

// rootWaits are the waits that the kernel announces: for the root device and
// for all devices to be found. They end at the next line.
func rootWaits(b *Boot) []RootWait {
	var out []RootWait
	for i, l := range b.Lines[:max(len(b.Lines)-1, 0)] {
		if m := announcedWait.FindString(l.Text); m != "" && l.Source == "" && l.Timed {
			out = append(out, RootWait{For: l.Text, At: l.At, Took: max(b.Lines[i+1].At-l.At, 0)})
		}
	}
	return out
}
