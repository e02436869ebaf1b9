package sys

import (
	"errors"
	"fmt"

	"github.com/prometheus/procfs"
)

// AvailableMemory is what the machine can give without swapping, in bytes
// (MemAvailable, proc(5)).
func AvailableMemory() (int64, error) {
	proc, err := procfs.NewDefaultFS()
	if err != nil {
		return 0, fmt.Errorf("available memory: %w", err)
	}
	m, err := proc.Meminfo()
	if err != nil {
		return 0, fmt.Errorf("available memory: %w", err)
	}
	if m.MemAvailableBytes == nil {
		return 0, errors.New("available memory: /proc/meminfo has no MemAvailable")
	}
	return int64(*m.MemAvailableBytes), nil
}
