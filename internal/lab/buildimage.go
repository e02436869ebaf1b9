package lab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/tarelab/tare/internal/debian"
	"github.com/tarelab/tare/internal/image"
	"github.com/tarelab/tare/internal/workload"
)

// ImageOrder is what BuildImage is asked for.
type ImageOrder struct {
	Arch          string   // as Go calls it
	Suite, Mirror string   // of Debian; "" for the port's suite, and for $DEBIAN_MIRROR or Debian's own
	Packages      []string // of Debian, for the workbench, besides those that it always has
	Cache         string   // directory that keeps what was fetched
}

// ImageDigests are those of the images that BuildImage made.
type ImageDigests struct{ Workbench, Base string }

// BuildImage writes a workbench and the slim Debian below it, for any architecture, to a
// file, and their bill of materials to another. Nothing is written before all packages
// are there; what cannot be had is a LackError.
func BuildImage(ctx context.Context, o ImageOrder, file, bill string) (d ImageDigests, err error) {
	archive, err := o.archive()
	if err != nil {
		return d, err
	}
	guest, err := inRootfs(o.Arch)
	if err != nil {
		return d, fmt.Errorf("helpers: %w", err)
	}
	guest["/usr/bin/tare-index"] = []byte(workload.UnixIndexScript())
	from, err := archive.Open(ctx)
	if err != nil {
		return d, o.lacking(err)
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	built, err := image.Build(ctx, image.Ingredients{Architecture: o.Arch, From: from, Packages: o.Packages, Guest: guest})
	if err != nil {
		return d, o.lacking(err)
	}
	if d.Base, d.Workbench, err = built.Digests(); err != nil {
		return d, err
	}
	if err := WriteOutput(bill, built.Bill); err != nil {
		return d, err
	}
	return d, WriteOutput(file, func(w io.Writer) error { return built.Save(w) })
}

// lacking is an error as exit codes tell it.
func (o ImageOrder) lacking(err error) error {
	if lack := (*debian.LackError)(nil); errors.As(err, &lack) {
		return &LackError{lack.What}
	}
	return fmt.Errorf("image for %s: %w", o.Arch, err)
}

// archive is where the packages come from; an error is one of the input.
func (o ImageOrder) archive() (debian.Archive, error) {
	port, ok := debian.PortOf(o.Arch)
	if !ok {
		return debian.Archive{}, &InputError{Err: fmt.Errorf("architecture %q: choose one of %s", o.Arch, strings.Join(debian.Architectures(), ", "))}
	}
	a := debian.Archive{Port: port, Mirror: cmp.Or(o.Mirror, debian.Mirror()), Dir: filepath.Join(o.Cache, "debian")}
	a.Suite = cmp.Or(o.Suite, port.Suite)
	if err := a.Check(o.Packages); err != nil {
		return a, &InputError{Err: err}
	}
	return a, nil
}
