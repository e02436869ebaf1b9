package vmm

import (
	"fmt"

	"github.com/docker/go-units"
)

// smallestGuest is less than any kernel for guests boots in.
const smallestGuest = 32 << 20

// MemoryFlag is a flag that takes the size of a guest's memory. It implements
// pflag.Value.
type MemoryFlag struct{ Bytes int64 } // 0: none is given

// Type implements pflag.Value.
func (m *MemoryFlag) Type() string { return "size" }

// String implements pflag.Value.
func (m *MemoryFlag) String() string {
	if m.Bytes == 0 {
		return ""
	}
	return units.BytesSize(float64(m.Bytes))
}

// Set implements pflag.Value: a size, at least 32 MiB.
func (m *MemoryFlag) Set(text string) error {
	n, err := units.RAMInBytes(text)
	if err != nil {
		return fmt.Errorf("%q is no size: write 512MiB or 1GiB", text)
	}
	if n < smallestGuest {
		return fmt.Errorf("%q is too small for a guest: at least %s", text, units.BytesSize(smallestGuest))
	}
	m.Bytes = n
	return nil
}
