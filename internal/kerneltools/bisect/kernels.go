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
// directories of images, in the order in which they lie between; of a directory the images
// are taken whose versions lie between those of the ends, in the direction from good to bad.
// Without any, they are Debian's releases between two releases, which releases gives. The
// ends are left out of between.
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
		files, err := named(name, ends[0], ends[1])
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

// named are the kernels that a name means: one, or the images in a directory that lie
// between two kernels.
func named(name, good, bad string) ([]string, error) {
	if info, err := os.Stat(name); err == nil && info.IsDir() && !driver.IsRelease(name) {
		return imagesIn(name, good, bad)
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

// versionOf is what a kernel is ordered by.
func versionOf(kernel string) (string, error) {
	if driver.IsRelease(kernel) {
		return kernel, nil
	}
	k, err := vmm.Inspect(kernel)
	return k.Version, err
}

// imagesIn are the kernels in a directory by their versions, in the direction from good to
// bad. Those beyond the two are left out, where these are of different versions. Its other
// files are not kernels, and its directories are not entered.
func imagesIn(dir, good, bad string) ([]string, error) {
	low, err := versionOf(good)
	if err != nil {
		return nil, err
	}
	high, err := versionOf(bad)
	if err != nil {
		return nil, err
	}
	direction := 0
	if low != "" && high != "" { // an image need not tell its version
		direction = vmm.CompareVersions(low, high)
	}
	if direction > 0 {
		low, high = high, low
	}
	dir, err = filepath.Abs(dir)
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
	if direction != 0 {
		found = slices.DeleteFunc(found, func(k vmm.Kernel) bool {
			return vmm.CompareVersions(k.Version, low) < 0 || vmm.CompareVersions(k.Version, high) > 0
		})
	}
	if direction > 0 {
		slices.Reverse(found)
	}
	paths := make([]string, len(found))
	for i, k := range found {
		paths[i] = k.Path
	}
	return paths, nil
}
