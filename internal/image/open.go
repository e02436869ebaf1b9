package image

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
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
	r, err := s.keep(ctx, func(tmp string) (v1.Image, error) {
		img, err := open(ctx, file, tag, tmp)
		if err != nil {
			return nil, err
		}
		if err := platformFits(img); err != nil {
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

// open finds out what kind of image a path is.
func open(ctx context.Context, file, tag, tmp string) (v1.Image, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return fromLayout(file, tag)
	}
	kind, err := archiveKind(file)
	if err != nil {
		return nil, err
	}
	if kind == "docker" {
		return fromDocker(file, tag)
	}
	dir := filepath.Join(tmp, "layout")
	if err := unpackLayout(ctx, file, dir); err != nil {
		return nil, err
	}
	return fromLayout(dir, tag)
}

// archiveKind looks for the file that tells an OCI layout ("oci") from what
// docker save writes ("docker"); newer docker save writes both, and the layout
// is the better one.
func archiveKind(file string) (string, error) {
	f, err := openArchive(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	kind := ""
	in := tar.NewReader(f)
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return "", fmt.Errorf("it is no tar archive that can be read: %w", err)
		}
		switch path.Clean(h.Name) {
		case "oci-layout":
			return "oci", nil
		case "manifest.json":
			kind = "docker"
		}
	}
	if kind == "" {
		return "", errors.New("it is no image: it holds neither oci-layout nor manifest.json (for a plain root file system, unpack it and use --rootfs)")
	}
	return kind, nil
}

// archive is an open tar, which was gzipped or not.
type archive struct {
	io.Reader
	file *os.File
}

func (a archive) Close() error { return a.file.Close() }

func openArchive(file string) (io.ReadCloser, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	buffered := bufio.NewReader(f)
	if magic, err := buffered.Peek(2); err != nil || magic[0] != 0x1f || magic[1] != 0x8b {
		return archive{buffered, f}, nil // too short for gzip: tar will say what is wrong
	}
	z, err := gzip.NewReader(buffered)
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("gzip: %w", err)
	}
	return archive{z, f}, nil
}

func fromDocker(file, tag string) (v1.Image, error) {
	var ref *name.Tag
	if tag != "" {
		t, err := name.NewTag(tag, name.WeakValidation)
		if err != nil {
			return nil, fmt.Errorf("tag %q: %w", tag, err)
		}
		ref = &t
	}
	return tarball.Image(func() (io.ReadCloser, error) { return openArchive(file) }, ref)
}

func unpackLayout(ctx context.Context, file, dir string) error {
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

func fromLayout(dir, tag string) (v1.Image, error) {
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return nil, fmt.Errorf("it is no OCI image layout (for a root file system use --rootfs): %w", err)
	}
	c := chooser{tag: tag}
	img, err := c.choose(index, tag == "", 0)
	if err != nil || img != nil {
		return img, err
	}
	if tag != "" && len(c.platforms) == 0 {
		return nil, fmt.Errorf("no image is named %q in it; there are: %s", tag, list(c.tags))
	}
	return nil, fmt.Errorf("it has no image for linux/%s; there are: %s", runtime.GOARCH, list(c.platforms))
}

func list(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// chooser picks one image of an index and remembers what it passed over.
type chooser struct {
	tag             string
	tags, platforms []string
}

// maxIndexes bounds indexes inside indexes.
const maxIndexes = 4

// choose gives the first image that fits, nil where none does. named says that
// the tag has matched already, further out.
func (c *chooser) choose(index v1.ImageIndex, named bool, depth int) (v1.Image, error) {
	manifest, err := index.IndexManifest()
	if err != nil {
		return nil, fmt.Errorf("index: %w", err)
	}
	for _, d := range manifest.Manifests {
		tag := d.Annotations[refName]
		if tag != "" {
			c.tags = append(c.tags, tag)
		}
		fits := named || tag == c.tag
		switch {
		case d.MediaType.IsIndex() && depth < maxIndexes:
			inner, err := index.ImageIndex(d.Digest)
			if err != nil {
				return nil, fmt.Errorf("index %s: %w", d.Digest, err)
			}
			if img, err := c.choose(inner, fits, depth+1); err != nil || img != nil {
				return img, err
			}
		case d.MediaType.IsImage() && fits:
			if p := d.Platform; p != nil && (p.OS != "linux" || p.Architecture != runtime.GOARCH) {
				c.platforms = append(c.platforms, p.OS+"/"+p.Architecture)
				continue
			}
			return index.Image(d.Digest)
		}
	}
	return nil, nil
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
