package vmm

import (
	"regexp"

	"github.com/tarelab/tare/internal/sample"
)

// milestones are lines of the console on a container host's way up, the
// published study's among them (initrd-freed, kernel-up, modules, docker0-up).
var milestones = []struct {
	name string
	line *regexp.Regexp
}{
	{sample.InitrdFreed, regexp.MustCompile(`Freeing initrd memory`)},
	{sample.KernelUp, regexp.MustCompile(`Freeing unused kernel (image|memory)`)},
	{sample.RootUp, regexp.MustCompile(`systemd\[1\]: systemd v?\d|Welcome to .+!`)},
	{sample.ModulesUp, regexp.MustCompile(`Reached target .*(sysinit\.target|System Initialization)`)}, // Docker loads no loop module any more
	{sample.BridgeCreated, regexp.MustCompile(`tare: docker0 created`)},
	{sample.BridgeUp, regexp.MustCompile(`tare: docker0 up|ADDRCONF\(NETDEV_UP\): docker0`)},
	{sample.EngineUp, regexp.MustCompile(`Started .*(docker\.service|Docker Application Container Engine)`)},
}

// colours are a terminal's, which systemd writes into its names.
var colours = regexp.MustCompile(`\x1b\[[0-9;]*[a-zA-Z]`)

// Milestones makes a Config.Line that tells of each milestone once, by a name
// fit for a metric. The function is for one machine.
func Milestones(reached func(name string)) func(line string) {
	seen := make([]bool, len(milestones))
	return func(line string) {
		line = colours.ReplaceAllString(line, "")
		for i, m := range milestones {
			if !seen[i] && m.line.MatchString(line) {
				seen[i] = true
				reached(m.name)
			}
		}
	}
}
