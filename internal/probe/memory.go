package probe

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// processMemory is the memory of a process, in bytes.
type processMemory struct {
	mapped float64 // the sum of its mappings' sizes
	rss    float64
	pss    float64 // pages shared with others in proportion
	dirty  float64 // shared and private
	guest  float64 // resident part of the mapping that is a guest's memory; 0 where there is none
}

// memoryOf reads /proc/PID/smaps (proc(5)); all is 0 for a process that has ended
// meanwhile. The mapping of guestMemory bytes is a guest's; a VMM that splits it
// has several that hold it together, which no size tells apart from others.
func memoryOf(pid int, guestMemory int64) (processMemory, error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/smaps", pid))
	if err != nil {
		return processMemory{}, ifAlive(pid, err)
	}
	defer f.Close()
	var m processMemory
	var size float64
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		name, rest, ok := strings.Cut(lines.Text(), ":")
		number, kilobytes := strings.CutSuffix(strings.TrimSpace(rest), " kB")
		if !ok || !kilobytes {
			continue // a mapping's own line, or its flags
		}
		n, err := strconv.ParseFloat(number, 64)
		if err != nil {
			return m, fmt.Errorf("%s: %q", f.Name(), lines.Text())
		}
		n *= 1024
		switch name {
		case "Size":
			size = n
			m.mapped += n
		case "Rss":
			m.rss += n
			if guestMemory > 0 && size == float64(guestMemory) {
				m.guest += n
			}
		case "Pss":
			m.pss += n
		case "Shared_Dirty", "Private_Dirty":
			m.dirty += n
		}
	}
	return m, ifAlive(pid, lines.Err())
}

// ifAlive drops the error of reading about a process that has ended.
func ifAlive(pid int, err error) error {
	if err == nil {
		return nil
	}
	if _, gone := os.Stat(fmt.Sprintf("/proc/%d/exe", pid)); gone != nil {
		return nil
	}
	return fmt.Errorf("memory of process %d: %w", pid, err)
}
