// Package ebpf reads what the kernel alone sees: waits for locks and stacks, by
// programs that sum up inside it. From a kernel that does not take them it reads perf
// events.
package ebpf

// The objects are built by Debian's clang 14 and committed, so that building
// tare needs no BPF compiler; a test builds them again and compares. All five
// architectures are little-endian, and no program reads registers: one object
// serves them all.
//go:generate go tool bpf2go -go-package ebpf -cc clang-14 -strip llvm-strip-14 -target bpfel -output-suffix "" locks locks.bpf.c -- -O2 -Wall -Wextra -Werror -Wno-unused-function -Wno-unused-parameter
//go:generate go tool bpf2go -go-package ebpf -cc clang-14 -strip llvm-strip-14 -target bpfel -output-suffix "" stacks stacks.bpf.c -- -O2 -Wall -Wextra -Werror -Wno-unused-function -Wno-unused-parameter
