package lab

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/procfs"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/study"
	"github.com/tarelab/tare/internal/sys"
	"github.com/tarelab/tare/internal/target"
	"github.com/tarelab/tare/internal/trial"
	"github.com/tarelab/tare/internal/vmm"
	"github.com/tarelab/tare/published"
)

// BootOptions are machines of the user's own, booted as they are.
type BootOptions struct {
	VM      string       // "qemu/q35"
	Kernels []BootKernel // at least one; the others are compared with the first
	Rootfs  string       // raw image of the root disk, whose writes are kept apart; "" for none
	Append  string       // kernel parameters beside the console's
	Memory  int64        // bytes
	CPUs    int
	Boots   int            // of each kernel
	Until   *regexp.Regexp // the console's line that ends a boot; the machine's own end does so too
	Timeout time.Duration  // of one boot
}

// BootKernel is a kernel with its initramfs.
type BootKernel struct {
	Name   string // unique
	Kernel string // path
	Initrd string // path; "" for none
}

// Boots boots each kernel so many times, in blocks of random order, and says when
// the milestones of the console came and how the kernels compare with the first.
// observe is told of each boot before it begins.
func (l *Lab) Boots(ctx context.Context, o BootOptions, observe func(block int, kernel string)) (*analysis.TrimClaims, error) {
	d, err := published.LoadAs[*published.ContainerVMTrim](trimPublished)
	if err != nil {
		return nil, err
	}
	var cells []study.Cell
	kernels := make([]vmm.Kernel, len(o.Kernels))
	for i, k := range o.Kernels {
		if kernels[i], err = vmm.Inspect(k.Kernel); err == nil {
			err = kernels[i].Fits()
		}
		if err != nil {
			return nil, &InputError{err}
		}
		cells = append(cells, study.Cell{ID: k.Name + "/boot", Target: k.Name, Workload: "boot", Group: "boot", Copies: 1, Control: i == 0})
	}
	base, err := l.bootMachine(ctx, o)
	if err != nil {
		return nil, err
	}
	data := analysis.NewData(cells, o.Boots*len(cells))
	for block := range o.Boots {
		for _, i := range rand.Perm(len(cells)) {
			observe(block, cells[i].Target)
			config := base
			config.Machine.Kernel, config.Machine.Initrd = kernels[i], o.Kernels[i].Initrd
			var values map[string][]float64
			err := vmm.Again(l.config.tell, func() (err error) {
				values, err = l.bootOnce(ctx, o, config)
				return err
			})
			if err != nil {
				return nil, fmt.Errorf("boot %d of %s: %w", block+1, cells[i].Target, err)
			}
			data.Add(&sample.Record{Block: block, Cell: cells[i].ID, Values: values})
		}
	}
	claims := analysis.TrimStudy(analysis.TrimInput{Input: analysis.Input{Cells: cells, Data: data, Blocks: o.Boots}, Control: cells[0].Target, Published: d})
	for i := range claims.Spans {
		if s := &claims.Spans[i]; s.Name == analysis.TrimWhole {
			s.Name, s.Meaning = "until", "exec to the line that matches --until, else to the machine's end"
		}
	}
	return claims, nil
}

// bootMachine is what all boots have in common. Whether the monitor works and how
// it runs guests its own check says.
func (l *Lab) bootMachine(ctx context.Context, o BootOptions) (vmm.Config, error) {
	v, ok := vmm.ByName(o.VM)
	i := slices.IndexFunc(l.drivers, func(d target.Driver) bool { return d.Name() == o.VM })
	if !ok || i < 0 {
		return vmm.Config{}, &InputError{fmt.Errorf("no virtual machine %q; tare check lists them", o.VM)}
	}
	f := l.Check(ctx, []target.Driver{l.drivers[i]}, false)[0]
	if f.Err != nil {
		return vmm.Config{}, f.Err
	}
	m := vmm.Machine{CPUs: o.CPUs, Memory: o.Memory, Accel: vmm.Accel(f.Facts.Notes[target.NoteAccel]), Append: strings.Fields(o.Append)}
	if o.Rootfs != "" {
		m.Disks = []vmm.Disk{{Path: o.Rootfs}}
	}
	return vmm.Config{VMM: v, Path: f.Facts.Path, Machine: m, Launcher: l.Target.LaunchPath}, nil
}

// bootOnce boots until the line that was asked for, or the machine's end.
func (l *Lab) bootOnce(ctx context.Context, o BootOptions, config vmm.Config) (values map[string][]float64, err error) {
	if config.Dir, err = os.MkdirTemp(l.Target.RunDir, target.Label+"-boot-"); err != nil {
		return nil, fmt.Errorf("directory of the machine: %w", err)
	}
	defer func() { err = errors.Join(err, sys.RemoveTree(filepath.Clean(config.Dir))) }()
	var mu sync.Mutex // guards values
	values = map[string][]float64{}
	var from trial.Stamp
	mark := func(name string) {
		now := trial.Now()
		mu.Lock()
		defer mu.Unlock()
		if values[name] == nil {
			values[name] = []float64{now.Sub(from).Seconds()}
		}
	}
	done := make(chan struct{})
	var once sync.Once
	milestone := vmm.Milestones(mark)
	config.Mark = func(m vmm.Mark) { mark(string(m)) }
	config.Line = func(line string) {
		milestone(line)
		if o.Until.MatchString(line) {
			mark("ready")
			once.Do(func() { close(done) })
		}
	}
	config.Patience = map[vmm.Mark]time.Duration{vmm.MarkFirstByte: o.Timeout, vmm.MarkKernel: o.Timeout, vmm.MarkInit: o.Timeout}
	vm, err := vmm.New(ctx, config)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, vm.Close()) }()
	from = trial.Now()
	if err := vm.Start(); err != nil {
		return nil, err
	}
	select {
	case <-done:
	case <-vm.Ended():
		mark("ready")
	case err := <-vm.Failed():
		return nil, vm.Explain(err)
	case <-time.After(o.Timeout):
		mu.Lock()
		stopped := values[string(vmm.MarkKernel)] != nil && values[string(vmm.MarkInit)] == nil
		mu.Unlock()
		if stopped {
			return nil, vm.Explain(&vmm.HangError{After: vmm.MarkKernel, Awaited: vmm.MarkInit, For: o.Timeout})
		}
		return nil, vm.Explain(fmt.Errorf("no line that matches %q came within %v", o.Until, o.Timeout))
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	mu.Lock()
	defer mu.Unlock()
	out := map[string][]float64{}
	for name, v := range values {
		out[name] = v
	}
	if p, err := procfs.NewProc(vm.PID()); err == nil { // a machine that has ended tells no more
		if s, err := p.Stat(); err == nil {
			out["cpu"] = []float64{s.CPUTime()}
		}
	}
	return out, nil
}
