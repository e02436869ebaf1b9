package sys

import (
	"errors"
	"fmt"

	"github.com/prometheus/procfs"
)

// AvailableMemory is what the machine can give without swapping, in bytes
// (MemAvailable, proc(5)). Before Linux 3.14 it is estimated: free memory and the page
// cache, without what is shared.
func AvailableMemory() (int64, error) {
	proc, err := procfs.NewDefaultFS()
	if err != nil {
		return 0, fmt.Errorf("available memory: %w", err)
	}
	m, err := proc.Meminfo()
	if err != nil {
		return 0, fmt.Errorf("available memory: %w", err)
	}
	return available(m)
}

func available(m procfs.Meminfo) (int64, error) {
	switch {
	case m.MemAvailableBytes != nil:
		return int64(*m.MemAvailableBytes), nil
	case m.MemFreeBytes == nil || m.CachedBytes == nil || m.ShmemBytes == nil:
		return 0, errors.New("available memory: /proc/meminfo has neither MemAvailable nor MemFree, Cached and Shmem")
	}
	return int64(*m.MemFreeBytes+*m.CachedBytes) - int64(*m.ShmemBytes), nil
}
