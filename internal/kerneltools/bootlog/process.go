package bootlog

import (
	"regexp"
	"strconv"
	"time"
)

// A Process is one of the guest's while it booted, as tare's agent saw it: threads
// of the kernel and what lived between two looks are not among them.
type Process struct {
	PID    int           `json:"pid"`
	Parent int           `json:"parent"`
	Name   string        `json:"name"`
	Start  time.Duration `json:"start"` // on the kernel's clock
	End    time.Duration `json:"end"`   // when it was seen last
	CPU    time.Duration `json:"cpu"`   // until then, in ticks of 10 ms
}

// processLine is what package vm makes of the agent's words.
var processLine = regexp.MustCompile(`^tare: process (\d+) (\d+) (\d+) (\d+) (\d+) (.*)$`)

// process reads such a line.
func process(text string) (Process, bool) {
	m := processLine.FindStringSubmatch(text)
	if m == nil {
		return Process{}, false
	}
	var n [5]int
	for i := range n {
		var err error
		if n[i], err = strconv.Atoi(m[i+1]); err != nil {
			return Process{}, false
		}
	}
	ms := func(i int) time.Duration { return time.Duration(n[i]) * time.Millisecond }
	return Process{PID: n[0], Parent: n[1], Name: m[6], Start: ms(2), End: ms(3), CPU: ms(4)}, true
}
