package engine

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"golang.org/x/sys/unix"

	"github.com/tarelab/tare/internal/driver"
)

// source is the image of a Spec, ready to be handed to an engine.
type source struct {
	image  v1.Image
	tag    name.Tag
	config v1.Hash   // digest of the image's configuration: what engines call the image's id
	diffs  []v1.Hash // digests of the unpacked layers
	remove func() error
	late   *time.Timer // runs while an engine does not take what is written to it; nil for none
}

// openSource finds the image that a Spec's root file system was unpacked from,
// or makes one of the directory: a layer in a file below dir.
func openSource(ctx context.Context, spec driver.Spec, dir string) (source, error) {
	s := source{remove: func() error { return nil }}
	var err error
	if spec.Image != "" {
		s.image, err = onlyImage(spec.Image)
	} else {
		s.image, err = packed(ctx, spec.Rootfs, dir)
		s.remove = func() error { return os.RemoveAll(dir) }
	}
	if err != nil {
		return s, driver.Labf("image of %s: %w", spec.Rootfs, err)
	}
	if s.config, err = s.image.ConfigName(); err != nil {
		return s, driver.Labf("image of %s: %w", spec.Rootfs, err)
	}
	config, err := s.image.ConfigFile()
	if err != nil {
		return s, driver.Labf("image of %s: %w", spec.Rootfs, err)
	}
	s.diffs = config.RootFS.DiffIDs
	s.tag, err = name.NewTag(fmt.Sprintf("%s:%s", repository(owner()), s.config.Hex[:12]))
	return s, err
}

// onlyImage is the image of a layout that holds one.
func onlyImage(dir string) (v1.Image, error) {
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return nil, err
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return nil, err
	}
	if len(manifest.Manifests) != 1 {
		return nil, fmt.Errorf("%s holds %d images, want 1", dir, len(manifest.Manifests))
	}
	return index.Image(manifest.Manifests[0].Digest)
}

// archive writes the image as docker save does. Every engine reads that, old
// ones nothing else; layers and configuration are the same bytes in it.
func (s source) archive(w io.Writer) error {
	if s.late != nil {
		w = taking{w, s.late}
	}
	return tarball.Write(s.tag, s.image, w)
}

// taking is an engine that an image is written to.
type taking struct {
	to   io.Writer
	late *time.Timer
}

func (t taking) Write(p []byte) (int, error) {
	t.late.Reset(stallTime)
	defer t.late.Stop()
	return t.to.Write(p)
}

// packed is an image of one layer, the directory as it is.
func packed(ctx context.Context, rootfs, dir string) (v1.Image, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "layer.tar")
	if err := packFile(ctx, rootfs, file); err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromFile(file)
	if err != nil {
		return nil, err
	}
	image, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{Architecture: runtime.GOARCH, OS: "linux",
		RootFS: v1.RootFS{Type: "layers"}, Config: v1.Config{Cmd: []string{"/bin/sh"}}})
	if err != nil {
		return nil, err
	}
	return mutate.AppendLayers(image, layer)
}

func packFile(ctx context.Context, rootfs, file string) (err error) {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := tar.NewWriter(f)
	links := map[inode]string{}
	err = filepath.WalkDir(rootfs, func(path string, d fs.DirEntry, err error) error {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil || path == rootfs {
			return err
		}
		return pack(w, rootfs, path, d, links)
	})
	return errors.Join(err, w.Close())
}

type inode struct{ device, number uint64 }

// pack writes one entry; a file that was packed under another name is a link.
func pack(w *tar.Writer, rootfs, path string, d fs.DirEntry, links map[inode]string) error {
	info, err := d.Info()
	if err != nil {
		return err
	}
	if info.Mode()&fs.ModeSocket != 0 {
		return nil // a tar has none, and nobody could connect to a copy
	}
	text := ""
	if info.Mode()&fs.ModeSymlink != 0 {
		if text, err = os.Readlink(path); err != nil {
			return err
		}
	}
	header, err := tar.FileInfoHeader(info, text)
	if err != nil {
		return err
	}
	header.Name, err = filepath.Rel(rootfs, path)
	if err != nil {
		return err
	}
	header.Uname, header.Gname, header.Format = "", "", tar.FormatPAX
	var stat unix.Stat_t
	if err := unix.Lstat(path, &stat); err != nil {
		return err
	}
	if info.Mode().IsRegular() && stat.Nlink > 1 {
		at := inode{uint64(stat.Dev), stat.Ino} //nolint:unconvert // 32 bits wide on mips64le
		if first, ok := links[at]; ok {
			header.Typeflag, header.Linkname, header.Size = tar.TypeLink, first, 0
			return w.WriteHeader(header)
		}
		links[at] = header.Name
	}
	if err := w.WriteHeader(header); err != nil || !info.Mode().IsRegular() {
		return err
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(w, f)
	return err
}
