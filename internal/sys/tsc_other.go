//go:build !amd64

package sys

// TSC is 0: this architecture has no time stamp counter.
func TSC() uint64 { return 0 }
