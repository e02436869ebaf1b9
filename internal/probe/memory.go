package probe

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/tarelab/tare/internal/driver"
)

// processMemory is the memory of a process, in bytes.
type processMemory struct {
	mapped float64 // the sum of its mappings' sizes
	rss    float64
	pss    float64 // pages shared with others in proportion
	dirty  float64 // shared and private
	guest  float64 // resident part of the mappings that are a guest's memory; 0 where none were found
}

// memoryOf reads /proc/PID/smaps (proc(5)); all is 0 for a process that has ended
// meanwhile. Of a VMM, the mappings of guestMemory bytes together are its guest's.
func memoryOf(pid int, guestMemory int64) (processMemory, error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/smaps", pid))
	if err != nil {
		return processMemory{}, ifAlive(pid, err)
	}
	defer f.Close()
	m, maps, err := readSmaps(f)
	if err != nil {
		return m, ifAlive(pid, fmt.Errorf("%s: %w", f.Name(), err))
	}
	if guestMemory > 0 {
		m.guest = guestPart(maps, float64(guestMemory))
	}
	return m, nil
}

// mapping is one that may hold a guest's memory, or a part of it.
type mapping struct{ size, resident float64 } // bytes

// readSmaps sums a process's mappings, and lists those that may hold a guest's memory.
func readSmaps(from io.Reader) (m processMemory, maps []mapping, err error) {
	may := false
	lines := bufio.NewScanner(from)
	for lines.Scan() {
		name, rest, ok := strings.Cut(lines.Text(), ":")
		number, kilobytes := strings.CutSuffix(strings.TrimSpace(rest), " kB")
		if !ok || !kilobytes {
			if fields := strings.Fields(lines.Text()); len(fields) >= 5 && strings.Contains(fields[0], "-") {
				may = mayBeGuests(fields[1], strings.Join(fields[5:], " "))
			}
			continue
		}
		n, err := strconv.ParseFloat(number, 64)
		if err != nil {
			return m, nil, fmt.Errorf("%q: %w", lines.Text(), err)
		}
		n *= 1024
		switch name {
		case "Size":
			m.mapped += n
			if may {
				maps = append(maps, mapping{size: n})
			}
		case "Rss", "Private_Hugetlb", "Shared_Hugetlb": // pages of a pool are not part of Rss
			m.rss += n
			if may {
				maps[len(maps)-1].resident += n
			}
			if name != "Rss" {
				m.pss += n
			}
		case "Pss":
			m.pss += n
		case "Shared_Dirty", "Private_Dirty":
			m.dirty += n
		}
	}
	return m, maps, lines.Err()
}

// mayBeGuests tells by a mapping's rights and name whether a guest's memory may lie in
// it: translated code may be executed, arenas that wait for use have no rights, and
// files are programs and libraries but for those that lie in memory, and that of a saved
// guest.
func mayBeGuests(rights, name string) bool {
	if !strings.HasPrefix(rights, "rw-") {
		return false
	}
	if strings.HasSuffix(name, "/"+driver.GuestMemoryFile) {
		return true
	}
	for _, kind := range []string{"[anon", "/memfd:", "/dev/zero", "/dev/shm/", "/dev/hugepages/", "/anon_hugepage"} {
		if strings.HasPrefix(name, kind) {
			return true
		}
	}
	return name == ""
}

// How many of the largest mappings are looked at, and how many may make up a guest's
// memory: VMMs leave a gap below 4 GiB for devices, and what is asked of a part of a
// mapping makes several of it.
const (
	mostMappings = 24
	mostParts    = 6
)

// guestPart is what is resident of a guest's memory of so many bytes: of the fewest
// and largest mappings that sum to it, 0 where none do.
func guestPart(maps []mapping, size float64) float64 {
	slices.SortFunc(maps, func(a, b mapping) int {
		return cmp.Or(cmp.Compare(b.size, a.size), cmp.Compare(b.resident, a.resident))
	})
	maps = maps[:min(len(maps), mostMappings)]
	for parts := 1; parts <= mostParts; parts++ {
		if resident, ok := sumTo(maps, size, parts); ok {
			return resident
		}
	}
	return 0
}

// sumTo finds so many mappings, which come largest first, that sum to size, and gives
// what is resident of them.
func sumTo(maps []mapping, size float64, parts int) (float64, bool) {
	if parts == 0 {
		return 0, size == 0
	}
	for i, m := range maps {
		if m.size*float64(parts) < size {
			return 0, false // those that follow are smaller still
		}
		if m.size > size {
			continue
		}
		if rest, ok := sumTo(maps[i+1:], size-m.size, parts-1); ok {
			return m.resident + rest, true
		}
	}
	return 0, false
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
