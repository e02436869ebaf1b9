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
	marks := map[string][]float64{}
	for _, name := range names {
		if marks[name], err = s.samples(machine, name, false); err != nil {
			return nil, err
		}
	}
	return marks, nil
}

// vmRequest is how long it takes from the request until the VMM's program runs.
func vmRequest(ctx context.Context) (result, error) {
	marks, err := bootMarks(ctx, boots, "vmm")
	if err != nil {
		return result{}, err
	}
	took := median(marks["vmm"])
	return below(took, 0.020, fmt.Sprintf("%.1f ms, median of %d", 1e3*took, boots))
}

// vmShare is the time that is tare's own between request and payload: until the
// VMM runs, and from the agent's hello until the payload acted.
func vmShare(ctx context.Context) (result, error) {
	marks, err := bootMarks(ctx, boots, "vmm", "agent", "ready")
	if err != nil {
		return result{}, err
	}
	var own []float64
	for i, ready := range marks["ready"] {
		own = append(own, marks["vmm"][i]+ready-marks["agent"][i])
	}
	share := median(own) / median(marks["ready"])
	shown := fmt.Sprintf("%.1f ms, %.1f %% of %.2f s", 1e3*median(own), 100*share, median(marks["ready"]))
	if median(own) > 0.005 {
		return result{shown, analysis.BarNotMet}, nil
	}
	return below(share, 0.03, shown)
}

// vmInit pairs the time to /init with that of a command line written by hand
// over the same kernel, unpacked as tare has it, and the same initial file system.
func vmInit(ctx context.Context) (result, error) {
	var ratios []float64
	for range boots {
		marks, err := bootMarks(ctx, 1, "vmm", "init")
		if err != nil {
			return result{}, err
		}
		bare, err := bareInit(ctx)
		if err != nil {
			return result{}, err
		}
		ratios = append(ratios, (marks["init"][0]-marks["vmm"][0])/bare)
	}
	return describe(analysis.AtMost(ratios, 1.3)), nil
}

// bareInit is the seconds from the start of QEMU until its kernel runs /init.
func bareInit(ctx context.Context) (float64, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return 0, err
	}
	kernel, err := newest(filepath.Join(cache, "tare/guests/kernels/*.unpacked"))
	if err != nil {
		return 0, err
	}
	initrd, err := newest(filepath.Join(cache, "tare/guests/roots/*.cpio"))
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "qemu-system-x86_64", "-M", "microvm,acpi=on,rtc=on", "-accel", "tcg", "-cpu", "max", "-m", "512M",
		"-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-serial", "stdio", "-kernel", kernel, "-initrd", initrd,
		"-append", "console=ttyS0 loglevel=6 panic=-1 tsc=reliable no_timer_check rdinit=/.tare/init")
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
