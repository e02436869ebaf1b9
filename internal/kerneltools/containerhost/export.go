package containerhost

import (
	"context"
	"slices"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/kerneltools/trim"
	"github.com/tarelab/tare/internal/vmm"
)

// Parts are what an image for other people is made of, kept below lab.CacheDir by
// what they are made of.
type Parts struct {
	Tree   string     // directory of a Debian system, which nobody may write to
	Kernel vmm.Kernel // packed, as a bzImage
	ELF    vmm.Kernel // the same kernel for monitors that load an ELF image
}

// Stock is a Debian system of these packages as it comes, with the distribution's
// kernel for virtual machines and its initramfs: the tree of Make without trimming.
func Stock(ctx context.Context, lab driver.Lab, packages []string, tell func(string)) (tree string, err error) {
	m := newHostParts(lab, nil)
	err = m.locked(ctx, tell, func() (err error) {
		tree, err = m.tree(ctx, append(slices.Clone(packages), "linux-image-cloud-amd64", "initramfs-tools", "zstd", "apparmor"), nil, tell)
		return err
	})
	return tree, err
}

// Order is what such an image is to hold.
type Order struct {
	Packages []string // Debian's
	Options  []string // of mmdebstrap
	Needs    []string // of the kernel, beside those of every container host
}

// Make gives the parts of an order, and makes those that are not kept: some ten
// minutes the first time. tell receives what is under way. Where a tool or Debian's
// archive is missing, the error is a *driver.CannotError.
func Make(ctx context.Context, lab driver.Lab, o Order, tell func(string)) (p Parts, err error) {
	m := newHostParts(lab, nil)
	err = m.locked(ctx, tell, func() (err error) {
		if err := m.sweep(); err != nil {
			return driver.Labf("container host: %w", err)
		}
		if p.Tree, err = m.tree(ctx, o.Packages, o.Options, tell); err != nil {
			return err
		}
		// The need hardening changes every object's flags: apart, neither kernel makes
		// the other one's build start from nothing.
		a := arm{name: "image", packed: "lz4", needs: o.Needs, objects: []string{"image"}}
		if p.Kernel, err = m.trimmed(ctx, a, tell); err != nil {
			return err
		}
		a.packed = trim.Compression("none")
		p.ELF, err = m.trimmed(ctx, a, tell)
		return err
	})
	return p, err
}
