package ebpf

import (
	"errors"
	"fmt"
	"slices"

	"github.com/cilium/ebpf"

	"github.com/tarelab/tare/internal/profile"
)

// lossNames are the reasons of stack.h, in its order.
var lossNames = []string{
	"stacks that could not be walked",
	"stacks beyond those that are kept (16384 of the kernel's, as many of programs), or for want of memory",
	"waits beyond the 65536 that may be under way",
	"waits or samples without a row of their own (all are taken, or for want of memory): summed up as other",
	"waits of which the end was not seen",
	"processes beyond the 65536 that may be followed",
}

// readLost adds what the programs had to leave out.
func readLost(p *profile.Profile, lost *ebpf.Map) error {
	for i, name := range lossNames {
		var perCPU []uint64
		if err := lost.Lookup(uint32(i), &perCPU); err != nil {
			return fmt.Errorf("what was lost: %w", err)
		}
		for _, n := range perCPU {
			lose(p, name, n)
		}
	}
	return nil
}

// stackTable turns the programs' stacks into a profile's.
type stackTable struct {
	symbols *symbols
	stacks  *ebpf.Map
	profile *profile.Profile
	at      map[uint64]int
}

// of is the profile's index of a stack; -1 for one that was lost.
func (t *stackTable) of(key uint64) (int, error) {
	if key == 0 {
		return -1, nil
	}
	if i, known := t.at[key]; known {
		return i, nil
	}
	var frames [64]uint64 // DEPTH of stack.h
	if err := t.stacks.Lookup(key, &frames); errors.Is(err, ebpf.ErrKeyNotExist) {
		return -1, nil
	} else if err != nil {
		return -1, fmt.Errorf("stack: %w", err)
	}
	depth := slices.Index(frames[:], 0)
	if depth < 0 {
		depth = len(frames)
	}
	i := len(t.profile.Stacks)
	t.profile.Stacks = append(t.profile.Stacks, t.symbols.stack(frames[:depth]))
	t.at[key] = i
	return i, nil
}
