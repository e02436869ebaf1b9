package ebpf

import (
	"bufio"
	"cmp"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/tarelab/tare/internal/profile"
)

// symbols are the kernel's, by address.
type symbols struct {
	text   []symbol
	data   []symbol // empty without CONFIG_KALLSYMS_ALL
	hidden bool     // the kernel shows no addresses (kernel.kptr_restrict)
}

type symbol struct {
	address uint64
	name    string
}

// kernelSymbols reads /proc/kallsyms, once.
var kernelSymbols = sync.OnceValues(func() (*symbols, error) { return readSymbols("/proc/kallsyms") })

func readSymbols(file string) (*symbols, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("kernel symbols: %w", err)
	}
	defer f.Close()
	s := &symbols{hidden: true}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 3 {
			continue
		}
		address, err := strconv.ParseUint(fields[0], 16, 64)
		if err != nil || address == 0 {
			continue
		}
		s.hidden = false
		switch fields[1] {
		case "t", "T", "w", "W":
			s.text = append(s.text, symbol{address, fields[2]})
		case "d", "D", "b", "B", "r", "R", "V", "v":
			s.data = append(s.data, symbol{address, fields[2]})
		}
	}
	for _, all := range [][]symbol{s.text, s.data} {
		slices.SortStableFunc(all, func(a, b symbol) int { return cmp.Compare(a.address, b.address) })
	}
	return s, lines.Err()
}

// noteHidden says in a profile that its functions have no names.
func (s *symbols) noteHidden(p *profile.Profile) {
	if s.hidden {
		p.Notes = append(p.Notes, "the kernel hides its addresses (kernel.kptr_restrict): its functions and locks have no names")
	}
}

// endOfText is how the symbols end that stand behind the kernel's last function
// ("_etext", "_einittext"): what is there has been compiled at run time.
const endOfText = "text"

// function names the function that an address lies in; the address itself where
// nothing is known.
func (s *symbols) function(address uint64) string {
	name, _ := find(s.text, address)
	if name != "" && !strings.HasSuffix(name, endOfText) {
		return name
	}
	return fmt.Sprintf("0x%x", address)
}

// variable names the variable that begins at an address; "" where none does.
// A lock inside a structure has its offset.
func (s *symbols) variable(address uint64) string {
	const mostOffset = 4096 // of a lock in a static structure
	name, offset := find(s.data, address)
	switch {
	case name == "" || offset > mostOffset || strings.HasPrefix(name, "__"):
		return ""
	case offset == 0:
		return name
	}
	return fmt.Sprintf("%s+0x%x", name, offset)
}

func find(all []symbol, address uint64) (name string, offset uint64) {
	i, exact := slices.BinarySearchFunc(all, address, func(s symbol, a uint64) int { return cmp.Compare(s.address, a) })
	if !exact {
		i--
	}
	if i < 0 || i >= len(all) {
		return "", 0
	}
	return all[i].name, address - all[i].address
}
