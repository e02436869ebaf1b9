package launch_test

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/driver/drivertest"
	"github.com/tarelab/tare/internal/driver/launch"
	"github.com/tarelab/tare/internal/sys"
)

// start launches a shell script on the host; it closes when the test ends.
func start(t *testing.T, cfg launch.Config, script string) *launch.Process {
	t.Helper()
	cfg.Launcher = drivertest.New(t).LaunchPath
	cfg.Args = []string{"/bin/sh", "-c", script}
	cfg.Env = []string{"PATH=/bin:/usr/bin"}
	p, err := launch.New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	if pid := p.PID(); pid != 0 {
		t.Errorf("pid %d before the start", pid)
	}
	if err := p.Go(); err != nil {
		t.Fatal(err)
	}
	return p
}

func gone(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("process %d is still there (%v)", pid, err)
	}
}

func TestExit(t *testing.T) {
	p := start(t, launch.Config{}, "exit 42")
	if r, err := p.Wait(t.Context()); err != nil || r.Payload.Code != 42 || r.Payload.Usage.MinorFaults == 0 || r.Runtime != nil {
		t.Errorf("got %+v, %v", r, err)
	}
}

// TestStepErrors: each phase's failure names its step, its object and the errno.
func TestStepErrors(t *testing.T) {
	lab := drivertest.New(t)
	bad := launch.Chdir("/no/such/dir")
	for name, cfg := range map[string]launch.Config{
		"before the clock": {Pre: []launch.Step{bad}}, "inside": {Go: []launch.Step{bad}}, "in the child": {Child: []launch.Step{bad}}, "in a child that stands ready": {Child: []launch.Step{bad}, Warm: true},
	} {
		cfg.Launcher, cfg.Args = lab.LaunchPath, []string{"/bin/true"}
		p, err := launch.New(t.Context(), cfg)
		if err == nil {
			if err = p.Go(); err == nil {
				_, err = p.Wait(t.Context())
			}
			if pid := p.PID(); pid != 0 {
				t.Errorf("%s: a failed launch has pid %d", name, pid)
			}
			if err := p.Close(); err != nil {
				t.Error(err)
			}
		}
		var step *launch.Error
		if !errors.As(err, &step) || step.Step != "chdir" || step.What != "/no/such/dir" || !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// A disk that is full is the laboratory's, not the target's fault: here an overlay's,
// on a file system with no room for one file more.
func TestFullDiskIsTheLaboratorys(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("this test mounts a small tmpfs and needs root: run the tests as root")
	}
	disk := t.TempDir()
	if err := syscall.Mount("tare-test", disk, "tmpfs", 0, "nr_inodes=16"); err != nil {
		t.Fatal(err)
	}
	defer syscall.Unmount(disk, syscall.MNT_DETACH)
	at := func(name string) string { return filepath.Join(disk, name) }
	for _, name := range []string{"lower", "upper", "work", "merged"} {
		if err := os.Mkdir(at(name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	var full error
	files := -1
	for ; full == nil; files++ {
		full = os.WriteFile(at(strconv.Itoa(files+1)), nil, 0o600)
	}
	if !errors.Is(full, syscall.ENOSPC) {
		t.Fatal(full)
	}
	overlay := launch.Mount("tare-test", at("merged"), "overlay", 0, "lowerdir="+at("lower")+",upperdir="+at("upper")+",workdir="+at("work"))
	cfg := launch.Config{Launcher: drivertest.New(t).LaunchPath, Args: []string{"/bin/true"}, Pre: []launch.Step{overlay}}
	for files > 0 { // the kernel makes an overlay read-only without room for its first file
		files--
		if err := os.Remove(at(strconv.Itoa(files))); err != nil {
			t.Fatal(err)
		}
		p, err := launch.New(t.Context(), cfg)
		if err != nil {
			if !driver.IsLab(err) || !errors.Is(err, syscall.ENOSPC) {
				t.Errorf("an overlay without room: %v", err)
			}
			return
		}
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
	}
	t.Error("an overlay was made each time")
}

func TestCancel(t *testing.T) {
	p := start(t, launch.Config{}, "sleep 60")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	pid := p.PID()
	began := time.Now()
	if _, err := p.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("cancelling took %v", took)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	gone(t, pid)
}

// TestOrphans: what a payload leaves behind, in a session of its own too, ends
// with Close, without any cgroup.
func TestOrphans(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pid")
	p := start(t, launch.Config{}, "setsid sh -c 'echo $$ >"+file+"; exec sleep 60' & while [ ! -s "+file+" ]; do sleep 0.01; done")
	if _, err := p.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	pid := 0
	for _, c := range strings.TrimSpace(string(text)) {
		pid = 10*pid + int(c-'0')
	}
	if err := syscall.Kill(pid, 0); err != nil {
		t.Fatalf("the orphan %d does not run: %v", pid, err)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	gone(t, pid)
}

// TestKilledLaboratory closes all ends of the launcher's pipes at once, as a kill does: the
// payload ends, and so does what it has left.
func TestKilledLaboratory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pid")
	orphan := "setsid sh -c 'echo $$ >" + file + "; exec sleep 60' & while [ ! -s " + file + " ]; do sleep 0.01; done; echo left; exec sleep 60"
	launcher := exec.CommandContext(t.Context(), drivertest.New(t).LaunchPath,
		"-pre", "-go", "-child", "-spawn", "0", "", "", "--", "/bin/sh", "-c", orphan)
	pipe := func() (r, w *os.File) {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		return r, w
	}
	goRead, goWrite := pipe()
	report, reportWrite := pipe()
	pid, pidWrite := pipe()
	said, saidWrite := pipe()
	launcher.ExtraFiles, launcher.Stdout = []*os.File{goRead, reportWrite, pidWrite}, saidWrite
	if err := launcher.Start(); err != nil {
		t.Fatal(err)
	}
	for _, f := range []*os.File{goRead, reportWrite, pidWrite, saidWrite} {
		f.Close()
	}
	defer said.Close()
	if _, err := goWrite.WriteString("g"); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(said).ReadString('\n'); line != "left\n" {
		t.Fatalf("%q, %v", line, err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	left, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range []*os.File{goWrite, report, pid} {
		f.Close()
	}
	if err := launcher.Wait(); err != nil {
		t.Errorf("the launcher: %v", err)
	}
	gone(t, left)
}

// TestReap plays OCI runtimes: one that leaves a container and ends, and those
// that fail.
func TestReap(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pid")
	cfg := launch.Config{Reap: true, PidFile: file}
	for _, leaves := range []string{
		"sh -c 'sleep 0.1; exit 7' & echo $! >" + file,
		// It ends as the launcher's child while the runtime still runs: once its own
		// parent is gone, which would reap it.
		"sh -c '(while kill -0 $$ 2>/dev/null; do :; done; exit 7) & echo $! >" + file + "'; sleep 0.3",
	} {
		p := start(t, cfg, leaves)
		r, err := p.Wait(t.Context())
		if err != nil || r.Payload.Code != 7 || r.Runtime == nil || r.Runtime.Code != 0 || p.PID() == 0 {
			t.Errorf("%s: got %+v, runtime %+v, pid %d, %v", leaves, r.Payload, r.Runtime, p.PID(), err)
		}
	}
	for script, want := range map[string]string{
		"exit 3":             "sh exited with code 3",
		"kill -9 $$":         "killed by signal 9",
		"rm -f " + file:      "left no pid",
		"echo 1 >" + file:    "not its descendant",
		"echo x >" + file:    "left no pid",
		"echo '-1' >" + file: "left no pid",
	} {
		_, err := start(t, cfg, script).Wait(t.Context())
		var failed *launch.RuntimeError
		if !errors.As(err, &failed) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", script, err, want)
		}
	}
}

// TestHang: a runtime that hangs is killed with the context.
func TestHang(t *testing.T) {
	p := start(t, launch.Config{Reap: true, PidFile: "/nowhere"}, "sleep 60")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := p.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

// A warm launch has made its process before the clock, which ends with its launcher
// where the start never comes.
func TestWarm(t *testing.T) {
	if r, err := start(t, launch.Config{Warm: true}, "exit 42").Wait(t.Context()); err != nil || r.Payload.Code != 42 {
		t.Errorf("got %+v, %v", r, err)
	}
	for name, end := range map[string]func(*launch.Process){
		"closed": func(*launch.Process) {},
		"killed": func(p *launch.Process) {
			if err := p.Kill(); err != nil {
				t.Error(err)
			}
			if r, err := p.Wait(t.Context()); !errors.Is(err, syscall.ECANCELED) {
				t.Errorf("killed before the start: %+v, %v", r, err)
			}
		},
	} {
		p, err := launch.New(t.Context(), launch.Config{Launcher: drivertest.New(t).LaunchPath, Args: []string{"/bin/false"}, Warm: true})
		if err != nil {
			t.Fatal(err)
		}
		children, err := sys.Children(p.LauncherPID())
		if err != nil || len(children) != 1 {
			t.Fatalf("%s: processes %v wait for the start, %v", name, children, err)
		}
		end(p)
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		gone(t, children[0])
	}
}
