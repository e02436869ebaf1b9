package ebpf

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
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
	hidden string   // why the kernel names nothing; "" where it does
}

type symbol struct {
	address uint64
	name    string
}

// kernelSymbols reads /proc/kallsyms, once.
var kernelSymbols = sync.OnceValues(func() (*symbols, error) { return readSymbols("/proc/kallsyms") })

func readSymbols(file string) (*symbols, error) {
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return &symbols{hidden: noSymbols}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("kernel symbols: %w", err)
	}
	defer f.Close()
	s := &symbols{hidden: keptSecret}
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
		s.hidden = ""
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

// Why a kernel names nothing.
const (
	keptSecret = "names hidden by kptr_restrict: this kernel shows no addresses in /proc/kallsyms, so functions and locks are addresses here; to see names: sysctl kernel.kptr_restrict=1, as root with CAP_SYSLOG"
	noSymbols  = "no names: this kernel has no /proc/kallsyms (CONFIG_KALLSYMS), so functions and locks are addresses here"
)

// noteHidden says in a profile that its functions have no names, and why.
func (s *symbols) noteHidden(p *profile.Profile) {
	if s.hidden != "" {
		p.Hidden = true
		p.Notes = append(p.Notes, s.hidden)
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

// stack names the functions of a stack, innermost first, without those of the probe.
func (s *symbols) stack(frames []uint64) []string {
	var names []string
	for i, address := range frames {
		if i > 0 {
			address-- // a return address may be the next function's first
		}
		names = append(names, s.function(address))
	}
	return profile.WithoutProbe(names)
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
