// Package oldkernel runs tests as on an old kernel: under a seccomp filter that answers
// as it would to the system calls that came after it.
package oldkernel

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// Kernels are those that filters stand for: the least that tare starts on, and those of
// the published studies or next to them.
var Kernels = []string{"3.10", "4.4", "4.19", "5.4"}

// unifiedSince is the first kernel with cgroups of version 2.
const unifiedSince = "4.5"

// variable names the kernel in the environment of a process that is to enter a filter
// (with the prefix entering), and of one that is in it.
const (
	variable = "TARE_TEST_KERNEL"
	entering = "enter:"
)

// Kernel is what this process runs as; "" where it is under no filter of this package.
func Kernel() string { return os.Getenv(variable) }

// Main is for the TestMain of packages whose tests call Rerun.
func Main(m *testing.M) {
	if kernel, ok := strings.CutPrefix(Kernel(), entering); ok {
		fmt.Fprintln(os.Stderr, "oldkernel:", enter(kernel))
		os.Exit(2)
	}
	os.Exit(m.Run())
}

// enter executes this program again under the filter. It returns only an error.
func enter(kernel string) error {
	runtime.LockOSThread()
	if Older(kernel, unifiedSince) {
		if err := hideUnified(); err != nil {
			return err
		}
	}
	if err := errors.Join(os.Setenv(variable, kernel), install(kernel)); err != nil {
		return err
	}
	return syscall.Exec("/proc/self/exe", os.Args, os.Environ())
}

// hideUnified takes the cgroups of version 2 out of this process's mount namespace. On a
// machine without version 1 they stay: without any the suite would check less.
func hideUnified() error {
	trees, err := mountinfo.GetMounts(mountinfo.FSTypeFilter("cgroup", "cgroup2"))
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(trees, func(m *mountinfo.Info) bool { return m.FSType == "cgroup" }) {
		return nil
	}
	for _, m := range trees {
		if m.FSType == "cgroup2" {
			if err := unix.Unmount(m.Mountpoint, unix.MNT_DETACH); err != nil {
				return fmt.Errorf("unmount %s: %w", m.Mountpoint, err)
			}
		}
	}
	return nil
}

// Rerun runs the tests that match pattern (-test.run) in this test's own program as on
// the kernel. Only the subtests named by mayskip, with blanks as in t.Run, may skip there:
// what a kernel lacks must not take the proof away.
func Rerun(t *testing.T, kernel, pattern string, mayskip ...string) {
	t.Helper()
	c := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run", pattern, "-test.v", "-test.count=1")
	c.Env = append(os.Environ(), variable+"="+entering+kernel)
	// A mount namespace of its own; Go makes its mounts private.
	c.SysProcAttr = &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	out, err := c.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("\n--- PASS: ")) && !bytes.HasPrefix(out, []byte("--- PASS: ")) {
		t.Errorf("as on Linux %s: %v\n%s", kernel, err, failures(out))
	}
	for _, name := range skipped(out) {
		_, check, _ := strings.Cut(name, "/")
		if !slices.Contains(mayskip, strings.ReplaceAll(check, "_", " ")) {
			t.Errorf("as on Linux %s: %s is skipped", kernel, name)
		}
	}
}

// touched are the checks of the contract suite (drivertest) that meet what tare does
// instead of younger calls. The oldest kernel gets all checks.
const touched = "^TestContract$/^(signals|usage|user|no_other_descriptors|rootfs_is_not_written_to|watch|cancel_while_waiting|" +
	"close_while_it_runs|payload_leaves_processes|foreign_devices|no_door|fork_bomb|kills_its_init|two_at_once)$"

// Contract runs a driver's TestContract as on each of Kernels; mayskip is Rerun's.
func Contract(t *testing.T, mayskip ...string) {
	for _, kernel := range Kernels {
		t.Run(kernel, func(t *testing.T) {
			pattern := touched
			if kernel == Kernels[0] {
				pattern = "^TestContract$"
			}
			Rerun(t, kernel, pattern, mayskip...)
		})
	}
}

var result = regexp.MustCompile(`^\s*--- (PASS|FAIL|SKIP): (\S+)`)

// skipped are the names of tests that skipped.
func skipped(out []byte) []string {
	var names []string
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		if f := result.FindStringSubmatch(lines.Text()); f != nil && f[1] == "SKIP" {
			names = append(names, f[2])
		}
	}
	return names
}

// failures is a log without the tests that passed.
func failures(out []byte) string {
	var kept []string
	for line := range strings.Lines(string(out)) {
		if !strings.HasPrefix(line, "=== ") && !strings.Contains(line, "--- PASS: ") {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "")
}
