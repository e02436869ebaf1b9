//go:build !mips64le && !mips64

package sys

// siginfoCode is si_code: the kernel's asm-generic siginfo_t has it third.
func siginfoCode(s *siginfo) int32 { return s.CodeOrErrno }
