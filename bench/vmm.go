package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/sys"
)

// machine is the virtual machine of the bars.
const machine = "qemu/microvm"

// boots is how many boots a bar over virtual machines is made of.
const boots = 7

// bootMarks boots the machine n times and gives its marks in seconds from the
// request, by name.
func bootMarks(ctx context.Context, n int, names ...string) (map[string][]float64, error) {
	s, err := report(ctx, "run", "bench/boot.yaml", "--blocks", fmt.Sprint(n))
	if err != nil {
		return nil, err
	}
	return s.marks(names...)
}

// marks are those of the machine's boots.
func (s seen) marks(names ...string) (map[string][]float64, error) {
	marks := map[string][]float64{}
	for _, name := range names {
		var err error
		if marks[name], err = s.samples(machine, name); err != nil {
			return nil, err
		}
	}
	return marks, nil
}

// vmRequest is how long it takes from the request until the VMM's program runs.
func vmRequest(ctx context.Context) (result, error) {
	marks, err := bootMarks(ctx, boots, sample.VMMExecuted)
	if err != nil {
		return result{}, err
	}
	took := median(marks[sample.VMMExecuted])
	return below(took, 0.020, fmt.Sprintf("%.1f ms, median of %d", 1e3*took, boots))
}

// vmShare is the time that is tare's own between request and payload: until the VMM
// runs, and from the moment at which the agent has been told what to run until it
// executes that. What lies between is the VMM's, the kernel's and the guest's making.
func vmShare(ctx context.Context) (result, error) {
	marks, err := bootMarks(ctx, boots, sample.VMMExecuted, sample.GuestAsked, sample.GuestExecuted, sample.Ready)
	if err != nil {
		return result{}, err
	}
	var own []float64
	for i, executed := range marks[sample.GuestExecuted] {
		own = append(own, marks[sample.VMMExecuted][i]+executed-marks[sample.GuestAsked][i])
	}
	share := median(own) / median(marks[sample.Ready])
	shown := fmt.Sprintf("%.1f ms, %.1f %% of %.2f s", 1e3*median(own), 100*share, median(marks[sample.Ready]))
	if median(own) > 0.005 {
		return result{shown, analysis.LimitBroken}, nil
	}
	return below(share, 0.03, shown)
}

// agentCost is the time that the guest program takes itself, by the guest's clock: from
// the kernel's start of it until its hello, and from the request until it executes the
// payload. Its size is a test's (helpers/helpers_test.go).
func agentCost(ctx context.Context) (result, error) {
	marks, err := bootMarks(ctx, boots, sample.GuestKernel, sample.GuestAgent, sample.GuestAsked, sample.GuestExecuted)
	if err != nil {
		return result{}, err
	}
	var own, hello []float64
	for i, begun := range marks[sample.GuestKernel] {
		hello = append(hello, marks[sample.GuestAgent][i]-begun)
		own = append(own, hello[i]+marks[sample.GuestExecuted][i]-marks[sample.GuestAsked][i])
	}
	took := median(own)
	return below(took, 0.003, fmt.Sprintf("%.1f ms, of which %.1f until its hello, median of %d", 1e3*took, 1e3*median(hello), boots))
}

// vmInit pairs the time to /init with that of a command line written by hand
// over the same kernel, unpacked as tare has it, and the same initial file system,
// whose turn is the first in every other pair.
func vmInit(ctx context.Context) (result, error) {
	s, err := report(ctx, "run", "bench/boot.yaml", "--blocks", "1")
	if err != nil {
		return result{}, err
	}
	kernel, initrd, err := s.booted()
	if err != nil {
		return result{}, err
	}
	return paired(analysis.AtMost, 1.3, func() (float64, error) {
		marks, err := bootMarks(ctx, 1, sample.VMMExecuted, sample.GuestInit)
		if err != nil {
			return 0, err
		}
		return marks[sample.GuestInit][0] - marks[sample.VMMExecuted][0], nil
	}, func() (float64, error) { return bareInit(ctx, kernel, initrd) })
}

// booted are the files of the machine's last boot: the kernel by the digest in the run's
// facts, the initial file system as the one that was used last.
func (s seen) booted() (kernel, initrd string, err error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", "", err
	}
	want := s.Manifest.Targets[machine].Notes[driver.NoteGuestKernel]
	guests := filepath.Join(cache, "tare/guests")
	kernels, err := filepath.Glob(filepath.Join(guests, "kernels/*.unpacked"))
	if err != nil {
		return "", "", err
	}
	for _, file := range kernels {
		if got, err := sys.FileDigest(file); err != nil {
			return "", "", err
		} else if got == want {
			initrd, err = newest(filepath.Join(guests, "roots/*.cpio"))
			return file, initrd, err
		}
	}
	return "", "", fmt.Errorf("no unpacked kernel in %s has the digest %q of the run's facts", guests, want)
}

// bareInit is the seconds from the start of QEMU until its kernel runs /init. Without
// the clock's frequency some boots would hang where the kernel calibrates it, and with
// QEMU's cmpxchg16b some would die (internal/vmm).
func bareInit(ctx context.Context, kernel, initrd string) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "qemu-system-x86_64", "-M", "microvm,acpi=on,rtc=on,pit=off", "-accel", "tcg", "-cpu", "max", "-m", "512M",
		"-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-serial", "stdio", "-kernel", kernel, "-initrd", initrd,
		"-append", fmt.Sprintf("console=ttyS0 loglevel=6 panic=-1 tsc_early_khz=%d tsc=reliable no_timer_check clearcpuid=141 rdinit=/.tare/init", sys.TSC()))
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	took := 0.0
	for lines := bufio.NewScanner(out); took == 0 && lines.Scan(); {
		if strings.Contains(lines.Text(), " as init process") || strings.Contains(lines.Text(), "tare: init") {
			took = time.Since(began).Seconds()
		}
	}
	cancel()
	if err := cmd.Wait(); took == 0 {
		return 0, errors.Join(errors.New("QEMU by hand did not come to /init"), err)
	}
	return took, nil
}

// newest is the file of a pattern that was used last.
func newest(pattern string) (string, error) {
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		return "", errors.Join(err, fmt.Errorf("there is no %s", pattern))
	}
	used := func(file string) int64 {
		info, err := os.Stat(file)
		if err != nil {
			return 0
		}
		return info.ModTime().UnixNano()
	}
	return slices.MaxFunc(files, func(a, b string) int { return int(used(a) - used(b)) }), nil
}
