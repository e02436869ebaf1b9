package image

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"github.com/tarelab/tare/internal/limit"
	"github.com/tarelab/tare/internal/sys"
)

// refName is the annotation that names an image of a layout (image-spec,
// annotations.md).
const refName = "org.opencontainers.image.ref.name"

// Import gives the root of a user's image: an OCI image layout (a directory, or
// a tar of one) or what docker save writes, each also gzipped. ref is its path;
// ":TAG" behind it chooses one of several images. Of a multi-platform image
// the one for this machine is taken. bench's guest binaries are a layer on top, so
// Digest is not the image's own, which stands in Notes.
func (s *Store) Import(ctx context.Context, ref string, bench Root) (Root, error) {
	file, tag, err := splitRef(ref)
	if err != nil {
		return Root{}, err
	}
	var own string
	var from foreign
	defer func() { from.close() }()
	r, err := s.keep(ctx, func(tmp string) (v1.Image, error) {
		var img v1.Image
		var err error
		if img, from, err = open(ctx, file, tag, tmp); err != nil {
			return nil, err
		}
		digest, err := img.Digest()
		if err != nil {
			return nil, err
		}
		own = digest.String()
		guest := tree{}
		addGuest(guest, bench.guest)
		layer, err := writeLayer(guest, filepath.Join(tmp, "guest.tar"))
		if err != nil {
			return nil, err
		}
		return mutate.Append(img, mutate.Addendum{Layer: layer})
	})
	if err != nil {
		return Root{}, fmt.Errorf("image %s: %w", ref, err)
	}
	r.guest = bench.guest
	r.Notes = append(r.Notes, fmt.Sprintf("%s has the digest %s of its own", ref, own))
	return r, nil
}

// splitRef separates PATH from :TAG. A path that exists wins.
func splitRef(ref string) (file, tag string, err error) {
	_, err = os.Stat(ref)
	if err == nil {
		return ref, "", nil
	}
	for i := range ref {
		if i == 0 || ref[i] != ':' {
			continue
		}
		if _, terr := os.Stat(ref[:i]); terr == nil {
			return ref[:i], ref[i+1:], nil
		}
	}
	return "", "", fmt.Errorf("image %s: %w (give the path of an OCI image layout or of a tar of an image; tare pulls from no registry)", ref, err)
}

// open finds out what kind of image a path is, and refuses one for another machine. The
// image reads from the directory that it returns, which the caller closes.
func open(ctx context.Context, file, tag, tmp string) (v1.Image, foreign, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, foreign{}, err
	}
	dir := file
	if !info.IsDir() {
		if err := checkArchive(file); err != nil {
			return nil, foreign{}, err
		}
		dir = filepath.Join(tmp, "archive")
		if err := unpackArchive(ctx, file, dir); err != nil {
			return nil, foreign{}, err
		}
	}
	from, err := openForeign(ctx, dir)
	if err != nil {
		return nil, from, err
	}
	var img v1.Image
	switch { // newer docker save writes both, and the layout is the better one
	case info.IsDir() || from.has("oci-layout"):
		img, err = from.layout(tag)
	case from.has("manifest.json"):
		img, err = from.docker(tag)
	default:
		err = errors.New("it is no image: it holds neither oci-layout nor manifest.json (for a plain root file system, unpack it and use --rootfs)")
	}
	if err == nil {
		err = platformFits(img)
	}
	return img, from, err
}

// headerBytes is more than the first header of an archive has: archive/tar takes a MiB of a
// name, of a link's text, and of records.
const headerBytes = 4 << 20

// checkArchive refuses a file that does not begin as a tar does. It reads no further: some
// KiB of gzip can hold entries of 400 GiB, which the unpacker does not take.
func checkArchive(file string) error {
	f, err := openArchive(file)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := tar.NewReader(io.LimitReader(f, headerBytes)).Next(); err != nil {
		return fmt.Errorf("it is no tar archive that can be read: %w", err)
	}
	return nil
}

// IsImage reports whether a path is what Import takes, and not a directory of files or a
// disk. Of an archive it reads no more than the first name.
func IsImage(ref string) bool {
	info, err := os.Stat(ref)
	if err != nil {
		return true // PATH:TAG, or nothing, which Import says
	}
	if info.IsDir() {
		index, err := os.Stat(filepath.Join(ref, "index.json"))
		return err == nil && !index.IsDir()
	}
	return checkArchive(ref) == nil
}

func openArchive(file string) (io.ReadCloser, error) {
	f, err := sys.OpenGiven(file, limit.ImageArchive)
	if err != nil {
		return nil, err
	}
	return gunzip(f)
}

func unpackArchive(ctx context.Context, file, dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	u, err := newUnpacker(ctx, dir)
	if err != nil {
		return err
	}
	defer u.root.Close()
	f, err := openArchive(file)
	if err != nil {
		return err
	}
	defer f.Close()
	return u.archive(f)
}

func list(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// platformFits refuses an image for another system or architecture.
func platformFits(img v1.Image) error {
	c, err := img.ConfigFile()
	if err != nil {
		return fmt.Errorf("config: %w", err)
	}
	if c.OS != "" && c.OS != "linux" || c.Architecture != "" && c.Architecture != runtime.GOARCH {
		return fmt.Errorf("it is for %s/%s, and this machine is linux/%s", c.OS, c.Architecture, runtime.GOARCH)
	}
	return nil
}
