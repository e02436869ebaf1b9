package sys

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tarelab/tare/internal/driver/drivertest/oldkernel"
)

func TestMain(m *testing.M) { oldkernel.Main(m) }

func TestOldKernels(t *testing.T) {
	for _, kernel := range oldkernel.Kernels {
		t.Run(kernel, func(t *testing.T) {
			oldkernel.Rerun(t, kernel, "^(TestMissingCalls|TestHandle|TestBornIn|TestOpenPerf|TestCopyTree)$")
		})
	}
}

// TestMissingCalls: a kernel lacks what came after it, and nothing else.
func TestMissingCalls(t *testing.T) {
	kernel := oldkernel.Kernel()
	if kernel == "" {
		kernel = "6.0" // the tests' machines are younger
	}
	for _, c := range calls {
		if lacks, want := !HasCall(c.Name), oldkernel.Older(kernel, c.Since); lacks != want {
			t.Errorf("Linux %s lacks %s (since %s): got %v, want %v", kernel, c.Name, c.Since, lacks, want)
		}
	}
	if !slices.IsSortedFunc(calls, func(a, b Call) int {
		if oldkernel.Older(a.Since, b.Since) {
			return -1
		}
		return 0
	}) {
		t.Error("the calls are not sorted by age")
	}
}

// TestHandle: a process is waited for and killed; one that has taken its pid is not.
func TestHandle(t *testing.T) {
	child := exec.Command("sleep", "60")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	h, err := OpenProcess(child.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	if ended, err := h.EndsIn(10 * time.Millisecond); ended || err != nil {
		t.Errorf("ended: %v, %v", ended, err)
	}
	other := &Handle{fd: -1, pid: h.pid, start: 1}
	if err := other.Kill(); err != nil {
		t.Error(err)
	}
	if ended, err := h.EndsIn(10 * time.Millisecond); ended || err != nil {
		t.Errorf("the process with the pid of another one was killed: %v, %v", ended, err)
	}
	if err := h.Kill(); err != nil {
		t.Error(err)
	}
	if ended, err := h.EndsIn(10 * time.Second); !ended || err != nil { // as a zombie
		t.Errorf("ended: %v, %v", ended, err)
	}
	_ = child.Wait() // it was killed
	if err := h.Kill(); err != nil {
		t.Errorf("killed again: %v", err)
	}
	if _, err := OpenProcess(child.Process.Pid); !errors.Is(err, unix.ESRCH) {
		t.Errorf("a handle on a process that has ended: %v", err)
	}
}

// TestOpenPerf: its descriptor closes with execve.
func TestOpenPerf(t *testing.T) {
	fd, err := OpenPerf(&unix.PerfEventAttr{Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_TASK_CLOCK}, 0, -1, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
		t.Errorf("flags %#x, %v", flags, err)
	}
}

// TestCopyTree: files, links, modes, owners and times are the same, and no link is followed.
func TestCopyTree(t *testing.T) {
	from, to, outside := t.TempDir(), t.TempDir(), t.TempDir()
	past := time.Unix(1_000_000_000, 0)
	if err := errors.Join(
		os.WriteFile(outside+"/secret", []byte("secret"), 0o600),
		os.Mkdir(from+"/dir", 0o755), os.WriteFile(from+"/dir/file", []byte("text"), 0o640), os.Chmod(from+"/dir/file", 0o4750),
		os.Symlink(outside, from+"/link"), os.Symlink("file", from+"/dir/inside"), unix.Mkfifo(from+"/pipe", 0o600),
		os.Lchown(from+"/dir/file", 0, 1234), os.Chmod(from+"/dir/file", 0o4750|os.ModeSetuid), os.Chtimes(from+"/dir/file", past, past),
		os.Chmod(from+"/dir", 0o500), os.Chtimes(from+"/dir", past, past),
	); err != nil {
		t.Fatal(err)
	}
	if err := CopyTree(to, from); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"dir", "dir/file", "dir/inside", "link"} {
		var a, b unix.Stat_t
		if err := errors.Join(unix.Lstat(from+"/"+name, &a), unix.Lstat(to+"/"+name, &b)); err != nil {
			t.Error(err)
			continue
		}
		if a.Mode != b.Mode || a.Gid != b.Gid || a.Size != b.Size && name != "dir" || a.Mtim != b.Mtim && a.Mode&unix.S_IFMT != unix.S_IFLNK {
			t.Errorf("%s: %+v became %+v", name, a, b)
		}
	}
	if text, err := os.Readlink(to + "/link"); text != outside || err != nil {
		t.Errorf("the link says %q, %v", text, err)
	}
	if _, err := os.Lstat(to + "/pipe"); err == nil {
		t.Error("a pipe was copied")
	}
}
