package vmm

import "regexp"

// milestones are lines of the console on a container host's way up, the
// published study's among them (initrd-freed, kernel-up, modules, docker0-up).
var milestones = []struct {
	name string
	line *regexp.Regexp
}{
	{"initrd-freed", regexp.MustCompile(`Freeing initrd memory`)},
	{"kernel-up", regexp.MustCompile(`Freeing unused kernel (image|memory)`)},
	{"root", regexp.MustCompile(`systemd\[1\]: systemd \d|Welcome to .*Linux`)},
	{"modules", regexp.MustCompile(`Reached target .*(sysinit\.target|System Initialization)`)}, // Docker loads no loop module any more
	{"docker0", regexp.MustCompile(`tare: docker0 created`)},
	{"docker0-up", regexp.MustCompile(`tare: docker0 up|ADDRCONF\(NETDEV_UP\): docker0`)},
	{"engine", regexp.MustCompile(`Started .*(docker\.service|Docker Application Container Engine)`)},
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
