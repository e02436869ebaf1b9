package bootlog

import (
	"regexp"
	"strings"
	"time"
)

// A Milestone is a point of a boot that every log of a kind has.
type Milestone struct {
	Name string        `json:"name"`
	At   time.Duration `json:"at"`
	Took time.Duration `json:"took"` // since the line before
	Line string        `json:"line"`
}

// The milestones, in the order of a usual boot. The names of four are those
// of the published study.
const (
	MarkStart   = "kernel's first line"
	MarkInitrd  = "initrd"     // the initramfs is unpacked and freed
	MarkKernel  = "kernel"     // the kernel is up: it frees its own beginning
	MarkInit    = "run init"   // the first program starts
	MarkRoot    = "root"       // the root file system is mounted
	MarkInitOn  = "systemd"    // init on the real root has said its name
	MarkModules = "modules"    // the loop module is there
	MarkBridge  = "docker0"    // the engine has made its bridge
	MarkTotal   = "total"      // the engine has brought its bridge up
	MarkOff     = "power down" // the kernel ends
)

// The kernel is up, and its first program starts: kernels before 4.20 do not say so.
var (
	kernelUp = regexp.MustCompile(`^Freeing (unused kernel (image |memory)|init memory)`) // the last is of arm before 3.10
	runsInit = regexp.MustCompile(`^Run \S+ as init process`)
)

var marks = []struct {
	name   string
	line   *regexp.Regexp
	source string // who writes it; empty: the kernel
	last   bool   // the last such line counts
}{
	{MarkStart, regexp.MustCompile(`^Linux version `), "", false},
	{MarkInitrd, regexp.MustCompile(`^Freeing initrd memory`), "", false},
	{MarkKernel, kernelUp, "", false},
	{MarkInit, runsInit, "", false},
	{MarkRoot, regexp.MustCompile(`^(VFS: Mounted root|EXT4-fs \(.*\): mounted filesystem|XFS \(.*\): Ending clean mount)`), "", false},
	{MarkInitOn, regexp.MustCompile(`^systemd \S+ running in system mode`), "systemd", true},
	{MarkModules, regexp.MustCompile(`^loop: module loaded`), "", false},
	{MarkBridge, regexp.MustCompile(`^(IPv6: ADDRCONF\(NETDEV_\w+\): docker0|docker0: port 1)`), "", false},
	{MarkTotal, regexp.MustCompile(`^IPv6: ADDRCONF\(NETDEV_UP\): docker0: link is not ready`), "", false},
	{MarkOff, regexp.MustCompile(`^(reboot: )?(Power down|Restarting system|System halted)`), "", false},
}

var (
	moduleLoaded  = regexp.MustCompile(`^(\w+): module loaded$`)
	announcedWait = regexp.MustCompile(`^(Waiting for root device|Waiting \d+ ?sec before mounting root|md: Waiting for all devices|dracut-initqueue.*[Tt]imeout)`)
)

// MilestoneNames are all milestones, in the order of a usual boot.
func MilestoneNames() []string {
	out := make([]string, len(marks))
	for i, m := range marks {
		out[i] = m.name
	}
	return out
}

// milestones are those that the boot reached, in the order of the table.
func milestones(b *Boot) []Milestone {
	var out []Milestone
	for _, k := range marks {
		found := -1
		for i, l := range b.Lines {
			if l.Source == k.source && k.line.MatchString(l.Text) {
				if found = i; !k.last {
					break
				}
			}
		}
		if found < 0 {
			continue
		}
		l := b.Lines[found]
		m := Milestone{Name: k.name, At: l.At, Line: l.Text}
		if found > 0 {
			m.Took = max(l.At-b.Lines[found-1].At, 0)
		}
		out = append(out, m)
	}
	return out
}

// Reached is when a boot reached a milestone.
func (p *Profile) Reached(name string) (time.Duration, bool) {
	return reached(p.Milestones, name)
}

func reached(all []Milestone, name string) (time.Duration, bool) {
	for _, m := range all {
		if m.Name == name {
			return m.At, true
		}
	}
	return 0, false
}

// A Phase is one of the five into which the published study cuts a log.
type Phase struct {
	Name  string        `json:"name"`
	Until string        `json:"until"` // what its end is
	Took  time.Duration `json:"took"`
	Lines int           `json:"lines"`
	Found bool          `json:"found"` // false: the log has no such phase, as a machine without USB
}

// phaseStarts say with which line a phase begins. A phase that never begins is
// not found; the time belongs to the one before.
var phaseStarts = []struct {
	name  string
	begin *regexp.Regexp
}{
	{"ACPI", regexp.MustCompile(``)},
	{"early init", regexp.MustCompile(`^(PID hash table entries|Dentry cache hash table entries|Dentry-cache hash table)`)},
	{"PCI", regexp.MustCompile(`^(PCI: |PCI host bridge|pci_bus |pci \d|pci-host|ACPI: PCI (Root|Interrupt)|ACPI: bus type PCI|PCI-DMA)`)},
	{"USB", regexp.MustCompile(`^(usbcore|usb \d|[euox]hci|USB |ACPI: bus type USB|usb: )`)},
	{"modules", regexp.MustCompile(kernelUp.String() + `|^Write protecting the kernel`)},
}

// phases cuts the log as the published study does, by lines instead of line
// numbers. The last ends where the engine's bridge is up, or with the log.
func phases(b *Boot, all []Milestone) []Phase {
	out := make([]Phase, len(phaseStarts))
	for i, s := range phaseStarts {
		out[i].Name = s.name
	}
	end, bounded := reached(all, MarkTotal)
	current, began := 0, time.Duration(0)
	out[0].Found = b.Kernel != "" // else the log begins in a phase that nobody knows
	for _, l := range b.Lines {
		if bounded && l.At > end {
			break
		}
		for next := len(phaseStarts) - 1; next > current && l.Source == ""; next-- {
			if phaseStarts[next].begin.MatchString(l.Text) && (next != 3 || current == 2) && (next != 2 || current == 1) {
				out[current].Took, out[current].Until = l.At-began, strings.TrimSpace(l.Text)
				current, began = next, l.At
				out[current].Found = true
				break
			}
		}
		out[current].Lines++
		out[current].Took = max(l.At-began, 0)
	}
	return out
}
