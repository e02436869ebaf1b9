/* Where the C library begins: what is linked after this file.
 *
 * A third of Dhrystone's time is a loop of 27 bytes in strcmp. Where it lies across two
 * cache lines, the whole test is a fifth slower (AMD EPYC), and any change of any test
 * here moved it. So on x86-64 this file ends the code at a known place within a cache
 * line: with the C library of zig 0.17 strcmp begins 48 bytes into one, as it does in
 * UnixBench's own program. TestUnixStrcmpLiesWithinACacheLine holds it there. */
#ifdef __x86_64__
__asm__(".section .text.placement,\"axR\",@progbits\n\t"
	".p2align 6\n\t"
	".skip 49, 0x90\n\t"
	".previous");
#endif
