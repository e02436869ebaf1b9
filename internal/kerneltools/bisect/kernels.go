package bisect

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/vmm"
)

// mostImages is how many files of a directory are looked at.
const mostImages = 1000

// Kernels is the list from a good kernel to a bad one. between are releases, files, and
// directories of images, in the order in which they lie between; the images of a directory
// are taken by their versions. Without any, they are Debian's releases between two
// releases, which releases gives. The ends are left out of between.
func Kernels(ctx context.Context, good, bad string, between []string, releases func(context.Context) ([]string, error)) ([]string, error) {
	ends := []string{good, bad}
	for i, end := range ends {
		var err error
		if ends[i], err = kernelAt(end); err != nil {
			return nil, err
		}
	}
	if ends[0] == ends[1] {
		return nil, fmt.Errorf("%s is named as the good and as the bad kernel", Shown(ends[0]))
	}
	all := []string{ends[0]}
	if len(between) == 0 {
		found, err := releasesBetween(ctx, ends[0], ends[1], releases)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	for _, name := range between {
		files, err := named(name)
		if err != nil {
			return nil, err
		}
		for _, k := range files {
			switch {
			case slices.Contains(ends, k):
			case slices.Contains(all, k):
				return nil, fmt.Errorf("%s is named twice", Shown(k))
			default:
				all = append(all, k)
			}
		}
	}
	return append(all, ends[1]), nil
}

// releasesBetween are Debian's releases between two, in the direction from good to bad.
func releasesBetween(ctx context.Context, good, bad string, releases func(context.Context) ([]string, error)) ([]string, error) {
	if !driver.IsRelease(good) || !driver.IsRelease(bad) {
		return nil, fmt.Errorf("between %s and %s there is no known list: name the kernels between them, or a directory of images, with --between", Shown(good), Shown(bad))
	}
	all, err := releases(ctx)
	if err != nil {
		return nil, err
	}
	low, high := good, bad
	if vmm.CompareVersions(low, high) > 0 {
		low, high = bad, good
	}
	all = slices.DeleteFunc(all, func(r string) bool {
		return vmm.CompareVersions(r, low) <= 0 || vmm.CompareVersions(r, high) >= 0
	})
	if low == bad {
		slices.Reverse(all)
	}
	return all, nil
}

// named are the kernels that a name means: one, or the images in a directory.
func named(name string) ([]string, error) {
	if info, err := os.Stat(name); err == nil && info.IsDir() && !driver.IsRelease(name) {
		return imagesIn(name)
	}
	k, err := kernelAt(name)
	return []string{k}, err
}

// kernelAt is a release, or the absolute path of a kernel for this machine.
func kernelAt(name string) (string, error) {
	if driver.IsRelease(name) {
		return name, nil
	}
	path, err := filepath.Abs(name)
	if err != nil {
		return "", err
	}
	k, err := vmm.Inspect(path)
	if err == nil {
		err = k.Fits()
	}
	return path, err
}

// imagesIn are the kernels in a directory by their versions; its other files are not
// kernels, and its directories are not entered.
func imagesIn(dir string) ([]string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	if len(entries) > mostImages {
		return nil, fmt.Errorf("%s has %d files: at most %d are looked at", dir, len(entries), mostImages)
	}
	var found []vmm.Kernel
	for _, e := range entries {
		if !e.Type().IsRegular() {
			continue
		}
		k, err := vmm.Inspect(filepath.Join(dir, e.Name()))
		if err == nil && k.Fits() == nil {
			found = append(found, k)
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("no kernel for this machine is in %s", dir)
	}
	slices.SortStableFunc(found, func(a, b vmm.Kernel) int { return vmm.CompareVersions(a.Version, b.Version) })
	paths := make([]string, len(found))
	for i, k := range found {
		paths[i] = k.Path
	}
	return paths, nil
}
