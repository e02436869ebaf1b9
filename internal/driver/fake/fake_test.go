package fake

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/driver/drivertest"
)

const execHas = "the fake's Exec has "

// lacks are the checks of the contract that the fake's Exec cannot pass.
var lacks = map[string]string{
	"devices and proc":         execHas + "no /dev and no /proc",
	"mounts":                   execHas + "no mount namespace",
	"rootfs is not written to": execHas + "no private rootfs",
	"payload leaves processes": execHas + "no cgroup to find them by",
	"watch":                    execHas + "no process to show before it has ended",
	"memory limit":             execHas + "no cgroup",
	"pids limit":               execHas + "no cgroup",
	"cpu limit":                execHas + "no cgroup",
	"cpuset":                   execHas + "no cgroup",
	"fork bomb":                execHas + "no cgroup",
	"own devices":              execHas + "no /dev of its own",
}

func TestContract(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("the fake runs real payloads by chroot here: run its tests as root")
	}
	d := New("fake", func(int, driver.Spec) Script { return Script{Payload: Exec} })
	lab := drivertest.New(t)
	// A shell's background jobs read /dev/null, which Exec does not provide.
	if err := syscall.Mknod(filepath.Join(lab.TestRootfs, "dev/null"), syscall.S_IFCHR|0o666, 1<<8|3); err != nil {
		t.Fatal(err)
	}
	drivertest.Run(t, d, drivertest.Options{Lab: lab, Skip: lacks})
}

// play runs one script and gives what it printed, the phases it marked, and
// how it went.
func play(t *testing.T, ctx context.Context, s Script) (stdout string, phases []driver.Phase, exit driver.Exit, err error) {
	t.Helper()
	r, w, perr := os.Pipe()
	if perr != nil {
		t.Fatal(perr)
	}
	defer r.Close()
	i, err := New("fake", func(int, driver.Spec) Script { return s }).Prepare(ctx, driver.Spec{Stdio: driver.Stdio{Stdout: w}}, "")
	if err != nil {
		return "", nil, driver.Exit{}, err
	}
	err = i.Start(ctx, func(p driver.Phase) { phases = append(phases, p) })
	if err == nil {
		exit, err = i.Wait(ctx)
	}
	err = errors.Join(err, i.Close(), i.Close())
	w.Close()
	out, rerr := io.ReadAll(r)
	if rerr != nil {
		t.Fatal(rerr)
	}
	return string(out), phases, exit, err
}

func TestScript(t *testing.T) {
	out, phases, exit, err := play(t, t.Context(), Script{
		Ready: time.Millisecond, Run: time.Millisecond, Stdout: []byte("hello"), Exit: driver.Exit{Code: 3},
		Marks: []Mark{{"kernel", 100 * time.Microsecond}, {"init", 200 * time.Microsecond}},
	})
	if err != nil || out != driver.Acted+"hello" || exit.Code != 3 || !slices.Equal(phases, []driver.Phase{"kernel", "init"}) {
		t.Errorf("got %q, %q, %v, %v", out, phases, exit, err)
	}
}

func TestFailures(t *testing.T) {
	boom := errors.New("boom")
	for name, s := range map[string]Script{
		"prepare": {PrepareErr: boom}, "start": {StartErr: boom}, "wait": {WaitErr: boom}, "close": {CloseErr: boom},
	} {
		if _, _, _, err := play(t, t.Context(), s); !errors.Is(err, boom) {
			t.Errorf("%s: got %v, want boom", name, err)
		}
	}
}

func TestHangEndsWhenCancelled(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, _, _, err := play(t, ctx, Script{Hang: true}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want the context's error", err)
	}
}

func TestTimesAreKept(t *testing.T) {
	const ready, run = 3 * time.Millisecond, 2 * time.Millisecond
	begin := time.Now()
	if _, _, _, err := play(t, t.Context(), Script{Ready: ready, Run: run}); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begin); took < ready+run {
		t.Errorf("took %v, want at least %v", took, ready+run)
	}
}
