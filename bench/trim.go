package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/kerneltools/bootstudy"
	"github.com/tarelab/tare/internal/kerneltools/trim"
)

// trimStudy runs the study of container hosts once for all bars: it takes most
// of an hour, and longer where the kernel has to be built. $RUN names a run of it
// that there is already.
var trimStudy = sync.OnceValues(func() (*bootstudy.Description, error) {
	call := []string{tare, "run", "container-vm-trim", "--json"}
	if run := os.Getenv("RUN"); run != "" {
		call = []string{tare, "report", run, "--format", "json"}
	}
	s, err := reported(output(context.Background(), call))
	if err != nil {
		return nil, err
	}
	for _, section := range s.Sections {
		if section.ID == "container-vm-trim" {
			found := new(bootstudy.Description)
			return found, json.Unmarshal(section.Data, found)
		}
	}
	return nil, fmt.Errorf("the report holds no boots")
})

// trimSpeedup asks that a stretch of a target's boot takes at least so many times
// less than the stock one's.
func trimSpeedup(stretch, target string, bar float64) func(context.Context) (result, error) {
	return func(context.Context) (result, error) {
		c, err := trimStudy()
		if err != nil {
			return result{}, err
		}
		for _, s := range c.Spans {
			e, ok := s.Speedup[target]
			if s.Name != stretch || !ok {
				continue
			}
			met := analysis.LimitOpen
			switch {
			case e.Interval.Low >= bar:
				met = analysis.LimitMet
			case e.Interval.High < bar:
				met = analysis.LimitBroken
			}
			return result{fmt.Sprintf("%.2f [%.2f, %.2f]", e.Value, e.Interval.Low, e.Interval.High), met}, nil
		}
		return result{}, fmt.Errorf("the run has no %q of %s", stretch, target)
	}
}

// trimInitrd asks that the initramfs is gone, or its stretch at least so many times
// shorter. Without one that stretch is systemd's own way from its exec to its first
// line, which stock's has as well.
func trimInitrd(target string, bar float64) func(context.Context) (result, error) {
	stretch := trimSpeedup("initrd", target, bar)
	return func(ctx context.Context) (result, error) {
		r, err := stretch(ctx)
		if err != nil {
			return r, err
		}
		c, err := trimStudy()
		if err != nil {
			return r, err
		}
		for _, p := range c.Parts {
			if p.Target == target && p.Initrd == 0 {
				return result{"gone; Run init to systemd's first line " + r.seen + " x", analysis.LimitMet}, nil
			}
		}
		return r, nil
	}
}

// trimSize asks for a kernel's size in bytes, and that its proof holds.
func trimSize(target string, most float64) func(context.Context) (result, error) {
	return func(context.Context) (result, error) {
		c, err := trimStudy()
		if err != nil {
			return result{}, err
		}
		for _, p := range c.Parts {
			if p.Target != target {
				continue
			}
			for _, check := range p.Proof {
				if !check.Good() {
					return result{fmt.Sprintf("%.2f MB, and the proof fails: %s", float64(p.Image)/1e6, check.Check), analysis.LimitBroken}, nil
				}
			}
			return below(float64(p.Image), most, fmt.Sprintf("%.2f MB, %d checks", float64(p.Image)/1e6, len(p.Proof)))
		}
		return result{}, fmt.Errorf("the run has no %s", target)
	}
}

// trimBuild asks for a kernel's build with empty directories of objects and output,
// and, with again, for one of the same with another compression (the slowest one).
func trimBuild(again bool, most time.Duration) func(context.Context) (result, error) {
	return func(ctx context.Context) (result, error) {
		cache, err := os.UserCacheDir()
		if err != nil {
			return result{}, err
		}
		// What fetches and unpacks a source once a version is no part of a build.
		source, err := trim.StoreIn(filepath.Join(cache, "tare")).Source(ctx, "linux-source-6.1", func(string) {})
		if err != nil {
			return result{}, err
		}
		dir, err := os.MkdirTemp("", "tare-bench-")
		if err != nil {
			return result{}, err
		}
		defer os.RemoveAll(dir)
		build := func(compression string) (time.Duration, error) {
			began := time.Now()
			_, err := output(ctx, []string{tare, "trim", "build", "--source", source, "--needs", "docker,nftables,ext4,systemd,virtio-pci,virtio-mmio", "--compression", compression,
				"--build", filepath.Join(dir, "objects"), "-o", filepath.Join(dir, compression)})
			return time.Since(began), err
		}
		took, err := build("lz4")
		if err == nil && again {
			took, err = build("xz")
		}
		if err != nil {
			return result{}, err
		}
		return below(took.Seconds(), most.Seconds(), took.Round(time.Second).String())
	}
}

// trimBars are those of container hosts, from one run of the study: they are
// measured where they are named (make bench-trim).
func trimBars() []bar {
	return []bar{
		{"trim-kernel", trimSpeedup("kernel", "vm/trimmed", 5)},
		{"trim-initrd", trimInitrd("vm/trimmed", 10)},
		{"trim-systemd", trimSpeedup("first container", "vm/trimmed-masked", 1.8)},
		{"trim-agent", trimSpeedup("first container", "vm/trimmed-engine", 2.5)},
		{"trim-crun", trimSpeedup("first container", "vm/trimmed-crun", 15)},
		{"trim-memory", trimSpeedup("memory", "vm/trimmed", 2)},
		{"trim-size", trimSize("vm/trimmed", 4.5e6)},
		{"trim-build", trimBuild(false, 6*time.Minute)},
		{"trim-repack", trimBuild(true, 30*time.Second)},
	}
}
