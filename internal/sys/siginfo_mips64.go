//go:build mips64le || mips64

package sys

// siginfoCode is si_code: on MIPS it comes before si_errno
// (__ARCH_HAS_SWAPPED_SIGINFO).
func siginfoCode(s *siginfo) int32 { return s.ErrnoOrCode }
