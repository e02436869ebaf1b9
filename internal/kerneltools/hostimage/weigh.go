package hostimage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/prometheus/procfs"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/kerneltools/containerhost"
	"github.com/tarelab/tare/internal/stats"
	"github.com/tarelab/tare/internal/sys"
)

// Weight is one system next to another: sizes in bytes, and its boots.
type Weight struct {
	Kernel int64 `json:"kernel_bytes"` // packed
	Initrd int64 `json:"initrd_bytes"` // 0: none
	Disk   int64 `json:"disk_bytes"`   // the file, in the image's format
	Used   int64 `json:"used_bytes"`   // what the raw disk takes
	// Boot is the time from QEMU's start until SSH answers, in seconds, and Memory
	// QEMU's peak until then, in bytes: medians over the boots.
	Boot   stats.Estimate `json:"boot_seconds"`
	Memory stats.Estimate `json:"memory_bytes"`
	// Less is how many times less of both the image takes than stock, by pairs of boots.
	LessBoot   stats.Estimate `json:"times_less_boot"`
	LessMemory stats.Estimate `json:"times_less_memory"`
}

// Weighed is an image next to the same packages with Debian's own kernel, initramfs
// and units.
type Weighed struct {
	Image Weight `json:"image"`
	Stock Weight `json:"stock"`
	Boots int    `json:"boots"` // of each
}

// Weigh makes the stock system that belongs to an image, and boots both in turns, the
// order changing from pair to pair; what they write is lost. Each boot is a first boot,
// by the disk's own loader.
func Weigh(ctx context.Context, lab driver.Lab, o Options, b Built, boots int, s Start, tell func(string)) (w Weighed, err error) {
	work, err := os.MkdirTemp(lab.RunDir, driver.Label+"-stock-")
	if err != nil {
		return w, driver.Labf("%w", err)
	}
	defer func() { err = errors.Join(err, sys.RemoveTree(work)) }()
	w.Boots = boots
	w.Image = Weight{Kernel: b.Bytes["kernel"], Disk: b.Bytes["disk"], Used: b.Bytes["used"]}
	disk := filepath.Join(work, "stock")
	if w.Stock, err = stock(ctx, lab, o, work, disk, tell); err != nil {
		return w, err
	}
	seconds, memory := map[string][]float64{}, map[string][]float64{}
	for i := range boots {
		pair := []string{b.Disk, disk}
		if i%2 == 1 {
			slices.Reverse(pair)
		}
		for _, d := range pair {
			tell(fmt.Sprintf("boot %d of %d: %s", i+1, boots, map[bool]string{true: "the image", false: "stock"}[d == b.Disk]))
			b, err := bootOnce(ctx, lab, s, d)
			if err != nil {
				return w, err
			}
			seconds[d], memory[d] = append(seconds[d], b.took.Seconds()), append(memory[d], float64(b.peak))
		}
	}
	for at, weight := range map[string]*Weight{b.Disk: &w.Image, disk: &w.Stock} {
		weight.Boot, weight.Memory = stats.OverBlocks(seconds[at]), stats.OverBlocks(memory[at])
	}
	w.Image.LessBoot, w.Image.LessMemory = timesLess(seconds[disk], seconds[b.Disk]), timesLess(memory[disk], memory[b.Disk])
	return w, nil
}

// timesLess is the ratio of pairs.
func timesLess(stock, image []float64) stats.Estimate {
	ratios := make([]float64, len(stock))
	for i := range stock {
		ratios[i] = stock[i] / image[i]
	}
	return stats.OverBlocks(ratios)
}

// stock makes the disk of the stock system, in the image's format.
func stock(ctx context.Context, lab driver.Lab, o Options, work, disk string, tell func(string)) (w Weight, err error) {
	tree, err := containerhost.Stock(ctx, lab, slices.Concat(packages, engines[o.Engine].packages), tell)
	if err != nil {
		return w, err
	}
	tell("making the stock disk to compare with")
	o.stock = true
	raw, err := assembled(ctx, work, tree, o, "")
	if err != nil {
		return w, err
	}
	if err := converted(ctx, raw, disk, o.Format); err != nil {
		return w, err
	}
	for file, size := range map[string]*int64{raw: &w.Used, disk: &w.Disk, filepath.Join(work, "tree/boot/vmlinuz"): &w.Kernel, filepath.Join(work, "tree/boot/initrd"): &w.Initrd} {
		if *size, err = allocated(file); err != nil {
			return w, driver.Labf("%w", err)
		}
	}
	return w, nil
}

// boot is one that came as far as SSH.
type boot struct {
	took time.Duration // from QEMU's start
	peak int64         // of QEMU's memory so far, in bytes
	err  error         // why that is not known
}

// bootOnce boots a disk until SSH answers, and ends it.
func bootOnce(ctx context.Context, lab driver.Lab, s Start, disk string) (boot, error) {
	running, cancel := context.WithTimeout(ctx, mostBoot)
	defer cancel()
	answered := make(chan boot, 1)
	s.Disk, s.Snapshot, s.Abrupt, s.Port = disk, true, true, 0
	s.Ready = func(u Up) {
		peak, err := peakMemory(u.PID)
		answered <- boot{u.Took, peak, err}
		cancel()
	}
	err := Run(running, lab, s)
	if ctx.Err() != nil {
		return boot{}, ctx.Err()
	}
	select {
	case b := <-answered:
		return b, b.err
	default:
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return boot{}, driver.Labf("%s: SSH did not answer in %v", filepath.Base(disk), mostBoot)
	}
	return boot{}, errors.Join(driver.Labf("%s ended before SSH answered", filepath.Base(disk)), err)
}

// peakMemory is the most that a process has had resident, in bytes.
func peakMemory(pid int) (int64, error) {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return 0, driver.Labf("memory of QEMU: %w", err)
	}
	status, err := p.NewStatus()
	if err != nil {
		return 0, driver.Labf("memory of QEMU: %w", err)
	}
	return int64(status.VmHWM), nil
}

// mostBoot is for a machine that hangs.
const mostBoot = 10 * time.Minute
