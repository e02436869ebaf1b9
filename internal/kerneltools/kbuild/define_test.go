package kbuild_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/tarelab/tare/internal/kerneltools/kbuild"
)

const pipes = `// SPDX-License-Identifier: GPL-2.0
static int declared(int a,
	int b);

static struct file_system_type fuse_like = {
	.owner = THIS_MODULE,
	.name = "pipes",
};
MODULE_ALIAS_FS("pipes");

static long
two_lines(struct pipe *p)
{
	return called(p);
}

#if defined(CONFIG_COMPAT) && !defined(MODULE)
int both(void) { return 0; }
#endif
#ifdef CONFIG_KEYS
SYSCALL_DEFINE3(read_key, int, fd,
		char __user *, key, size_t, n)
{
#ifndef CONFIG_NET
	if (n) {
#else
	{
#endif
	return two_lines(fd);
}
#else
int without_keys(void)
{
}
#endif
static const struct ops my_ops = {
	.open = two_lines,
};
SYSCALL_DEFINE0(always)
{
}
`

// TestDefine: functions, system calls and file systems are found where they are
// defined, and not where they are declared or called; the condition around one goes
// before its Makefile.
func TestDefine(t *testing.T) {
	at := tree(t, map[string]string{
		"Kbuild":             "obj-y += fs/\n",
		"fs/Makefile":        "obj-$(CONFIG_PIPES) += pipes.o\nobj-y += core.o\n",
		"fs/pipes.c":         pipes,
		"fs/core.c":          "int twice(void)\n{\n}\n",
		"arch/x86/Kbuild":    "obj-$(CONFIG_X) += own.o\n",
		"arch/x86/own.c":     "int twice(void)\n{\n}\n",
		"arch/arm/foreign.c": "int both(void)\n{\n}\n",
	})
	got, err := at.Define(t.Context(), kbuild.Names{Functions: []string{"declared", "two_lines", "called", "both", "without_keys", "twice", "gone"},
		Calls: []string{"read_key", "always", "two_lines"}, FileSystems: []string{"pipes", "other"}})
	if err != nil {
		t.Fatal(err)
	}
	here := kbuild.Origin{Object: "fs/pipes.o", Symbol: "PIPES", Known: true}
	want := kbuild.Definitions{
		Functions: map[string][]kbuild.Origin{"two_lines": {here}, "both": {here}, "without_keys": {here},
			"twice": {{Object: "arch/x86/own.o", Symbol: "X", Known: true}, {Object: "fs/core.o", Known: true}}},
		Calls:       map[string][]kbuild.Origin{"read_key": {{Object: "fs/pipes.o", Symbol: "KEYS", Known: true}}, "always": {here}},
		FileSystems: map[string][]kbuild.Origin{"pipes": {here}},
	}
	for what, pair := range map[string][2]map[string][]kbuild.Origin{"functions": {got.Functions, want.Functions}, "calls": {got.Calls, want.Calls}, "file systems": {got.FileSystems, want.FileSystems}} {
		if !maps.EqualFunc(pair[0], pair[1], slices.Equal) {
			t.Errorf("%s: %v, want %v", what, pair[0], pair[1])
		}
	}
}

// TestAsked: only a symbol with a prompt of its own is asked for.
func TestAsked(t *testing.T) {
	at := tree(t, map[string]string{
		"Kconfig": "mainmenu \"x\"\nsource \"net/Kconfig\"\n",
		"net/Kconfig": "menuconfig NET\n\tbool \"Networking\"\n\thelp\n\t  text\nconfig QUIET\n\ttristate\n\tdefault y\n" +
			"choice\n\tprompt \"Which\"\nconfig ONE\n\tbool \"one\" if NET\nendchoice\nconfig LATER\n\tdef_bool y\n\tprompt \"Later\"\nconfig QUOTED\n\ttristate  '\"connlimit\" match'\n",
		"arch/arm/Kconfig": "config FOREIGN\n\tbool \"no\"\n",
	})
	got, err := at.Asked()
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"LATER", "NET", "ONE", "QUOTED"}; !slices.Equal(slices.Sorted(maps.Keys(got)), want) {
		t.Errorf("asked for %v, want %v", got, want)
	}
}

// TestSystemCalls: the table's x32 rows are another ABI's.
func TestSystemCalls(t *testing.T) {
	at := tree(t, map[string]string{"arch/x86/entry/syscalls/syscall_64.tbl": "# comment\n0\tcommon\tread\tsys_read\n4 common stat sys_newstat\n512\tx32\trt_sigaction\tcompat_sys_rt_sigaction\n7 64 none\n"})
	got, err := at.SystemCalls()
	if err != nil || !maps.Equal(got, map[int]string{0: "read", 4: "newstat"}) {
		t.Errorf("%v, %v", got, err)
	}
}

// TestARMSystemCalls: until Linux 6.11 they are in C, for 32 and 64 bits; then in a table.
func TestARMSystemCalls(t *testing.T) {
	for file, text := range map[string]string{
		"include/uapi/asm-generic/unistd.h": `#define __NR3264_fcntl 25
__SC_COMP_3264(__NR3264_fcntl, sys_fcntl64, sys_fcntl, compat_sys_fcntl64)
#define __NR_openat 56
__SC_COMP(__NR_openat, sys_openat, compat_sys_openat)
#define __NR_pselect6 72
__SC_COMP_3264(__NR_pselect6, \
	sys_pselect6_time32, sys_pselect6, compat_sys_pselect6_time32)
#define __NR3264_fstatat 79
__SC_3264(__NR3264_fstatat, sys_fstatat64, sys_newfstatat)
#define __NR_clock_gettime64 403
__SYSCALL(__NR_clock_gettime64, sys_clock_gettime)
#define __NR_syscalls 451
#define __NR_fcntl __NR3264_fcntl
`,
		"scripts/syscall.tbl": "25\t32\tfcntl64\tsys_fcntl64\n25\t64\tfcntl\tsys_fcntl\n56 common openat sys_openat\n72 64 pselect6 sys_pselect6\n72 time32 pselect6 sys_pselect6_time32\n79 64 newfstatat sys_newfstatat\n403 32 clock_gettime64 sys_clock_gettime\n",
	} {
		got, err := treeFor(t, "arm64", map[string]string{file: text, "arch/arm64/Makefile": ""}).SystemCalls()
		if want := (map[int]string{25: "fcntl", 56: "openat", 72: "pselect6", 79: "newfstatat"}); err != nil || !maps.Equal(got, want) {
			t.Errorf("%s: %v, %v", file, got, err)
		}
	}
}
