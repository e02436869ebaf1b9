package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/tarelab/tare/internal/debian"
	"github.com/tarelab/tare/internal/image"
	"github.com/tarelab/tare/internal/workload"
)

// ImageOrder is what BuildImage is asked for.
type ImageOrder struct {
	Arch          string   // as Go calls it
	Suite, Mirror string   // of Debian; "" for the port's suite and Debian's own mirror
	Packages      []string // of Debian, for the workbench, besides those that it always has
	Cache         string   // directory that keeps what was fetched
}

// ImageDigests are those of the images that BuildImage made.
type ImageDigests struct{ Workbench, Base string }

// BuildImage writes a workbench and the slim Debian below it, for any architecture, to a
// file, and their bill of materials to another. Nothing is written before all packages
// are there; what cannot be had is a LackError.
func BuildImage(ctx context.Context, o ImageOrder, file, bill string) (d ImageDigests, err error) {
	made, err := o.ingredients()
	if err != nil {
		return d, err
	}
	tmp, err := os.MkdirTemp(filepath.Dir(file), "."+filepath.Base(file)+"-")
	if err != nil {
		return d, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(tmp)) }()
	built, err := image.Build(ctx, made, tmp)
	if lack := (*debian.LackError)(nil); errors.As(err, &lack) {
		return d, &LackError{lack.What}
	}
	if err != nil {
		return d, fmt.Errorf("image for %s: %w", o.Arch, err)
	}
	if d.Base, d.Workbench, err = built.Digests(); err != nil {
		return d, err
	}
	if err := WriteReport(bill, built.Bill); err != nil {
		return d, err
	}
	return d, WriteReport(file, func(w io.Writer) error { return built.Save(w, tmp) })
}

// ingredients are what the images are made of; an error is one of the input.
func (o ImageOrder) ingredients() (image.Ingredients, error) {
	port, ok := debian.PortOf(o.Arch)
	if !ok {
		return image.Ingredients{}, &InputError{Err: fmt.Errorf("architecture %q: choose one of %s", o.Arch, strings.Join(debian.Architectures(), ", "))}
	}
	archive := debian.Archive{Port: port, Mirror: debian.DefaultMirror, Dir: filepath.Join(o.Cache, "debian")}
	if o.Suite != "" {
		archive.Suite = o.Suite
	}
	if o.Mirror != "" {
		archive.Mirror = o.Mirror
	}
	if err := archive.Check(o.Packages); err != nil {
		return image.Ingredients{}, &InputError{Err: err}
	}
	guest, err := inRootfs(o.Arch)
	if err != nil {
		return image.Ingredients{}, fmt.Errorf("helpers: %w", err)
	}
	guest["/usr/bin/tare-index"] = []byte(workload.UnixIndexScript())
	return image.Ingredients{Architecture: o.Arch, Archive: archive, Packages: o.Packages, Guest: guest}, nil
}
