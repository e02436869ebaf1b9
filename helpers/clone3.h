/*
 * clone3(2) with a child that runs a function on a stack of its own. The C
 * library has it for clone only, and CLONE_INTO_CGROUP is clone3's alone.
 */
#ifndef TARE_CLONE3_H
#define TARE_CLONE3_H

#include <stdint.h>

/* struct clone_args of <linux/sched.h>, which collides with <sched.h>. */
struct clone3_args {
	uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls, set_tid, set_tid_size, cgroup;
};

#define CLONE_INTO_CGROUP_ 0x200000000ULL

/*
 * clone3_run returns the child's pid, or -errno. In the child it calls fn(arg),
 * which must not return. It is a function of its own so that the registers that
 * carry fn and arg over the system call are free.
 */
static __attribute__((noinline)) long clone3_run(struct clone3_args *args, int (*fn)(void *), void *arg) {
#if defined(__x86_64__)
	long ret;
	register void *r8 __asm__("r8") = (void *)fn;
	register void *r9 __asm__("r9") = arg;
	__asm__ volatile("syscall\n test %%rax,%%rax\n jnz 1f\n xor %%ebp,%%ebp\n mov %%r9,%%rdi\n call *%%r8\n hlt\n1:"
		: "=a"(ret) : "a"(435L), "D"(args), "S"(sizeof *args), "r"(r8), "r"(r9) : "rcx", "r11", "memory");
	return ret;
#elif defined(__aarch64__)
	register long x8 __asm__("x8") = 435;
	register long x0 __asm__("x0") = (long)args;
	register long x1 __asm__("x1") = sizeof *args;
	register void *x2 __asm__("x2") = (void *)fn;
	register void *x3 __asm__("x3") = arg;
	__asm__ volatile("svc 0\n cbnz x0,1f\n mov x29,xzr\n mov x0,x3\n blr x2\n brk #0\n1:"
		: "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3) : "x30", "memory", "cc");
	return x0;
#elif defined(__riscv)
	register long a7 __asm__("a7") = 435;
	register long a0 __asm__("a0") = (long)args;
	register long a1 __asm__("a1") = sizeof *args;
	register void *a2 __asm__("a2") = (void *)fn;
	register void *a3 __asm__("a3") = arg;
	__asm__ volatile("ecall\n bnez a0,1f\n mv a0,a3\n jalr a2\n ebreak\n1:"
		: "+r"(a0) : "r"(a7), "r"(a1), "r"(a2), "r"(a3) : "ra", "memory");
	return a0;
#elif defined(__loongarch64)
	register long a7 __asm__("$a7") = 435;
	register long a0 __asm__("$a0") = (long)args;
	register long a1 __asm__("$a1") = sizeof *args;
	register void *a2 __asm__("$a2") = (void *)fn;
	register void *a3 __asm__("$a3") = arg;
	__asm__ volatile("syscall 0\n bnez $a0,1f\n move $a0,$a3\n jirl $ra,$a2,0\n break 0\n1:"
		: "+r"(a0) : "r"(a7), "r"(a1), "r"(a2), "r"(a3)
		: "$ra", "$t0", "$t1", "$t2", "$t3", "$t4", "$t5", "$t6", "$t7", "$t8", "memory");
	return a0;
#elif defined(__mips64)
	/* $7 says whether $2 is an errno; $16 and $17 are kept over the call, and
	 * $25 must hold the address of a function that is called. */
	register long v0 __asm__("$2") = 5435;
	register long a0 __asm__("$4") = (long)args;
	register long a1 __asm__("$5") = sizeof *args;
	register long a3 __asm__("$7");
	register void *s0 __asm__("$16") = (void *)fn;
	register void *s1 __asm__("$17") = arg;
	__asm__ volatile(".set push\n .set noreorder\n syscall\n bnez $7,1f\n nop\n bnez $2,1f\n nop\n"
		" move $4,$17\n move $25,$16\n jalr $25\n nop\n break\n1:\n .set pop"
		: "+r"(v0), "=r"(a3) : "r"(a0), "r"(a1), "r"(s0), "r"(s1)
		: "$1", "$3", "$8", "$9", "$10", "$11", "$12", "$13", "$14", "$15", "$24", "$25", "$31", "hi", "lo", "memory");
	return a3 ? -v0 : v0;
#else
#error "clone3_run: no code for this architecture"
#endif
}

#endif
