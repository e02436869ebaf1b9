package ebpf

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"

	"github.com/tarelab/tare/internal/profile"
)

// lossNames are the reasons of stack.h, in its order.
var lossNames = []string{
	"stacks that could not be walked",
	"stacks beyond the 16384 that are kept",
	"waits beyond the 65536 that may be under way",
	"waits without a row of their own (all 8192 are taken): summed up as other",
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
	var s locksStack
	if err := t.stacks.Lookup(key, &s); errors.Is(err, ebpf.ErrKeyNotExist) {
		return -1, nil
	} else if err != nil {
		return -1, fmt.Errorf("stack: %w", err)
	}
	var frames []string
	for _, address := range s.Frames {
		if address == 0 {
			break
		}
		frames = append(frames, t.symbols.function(address))
	}
	i := len(t.profile.Stacks)
	t.profile.Stacks = append(t.profile.Stacks, profile.WithoutProbe(frames))
	t.at[key] = i
	return i, nil
}
