package image

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"runtime"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/tarelab/tare/internal/limit"
	"github.com/tarelab/tare/internal/sys"
)

// foreign is a directory that others made: an image layout, or an unpacked archive.
// Its files are opened below root, which no link leads out of; each must be a
// regular file, and what describes the image is short and has its digest. Its layers are
// read until ctx ends: the libraries that copy them know no context.
type foreign struct {
	ctx  context.Context
	root *os.Root
}

func openForeign(ctx context.Context, dir string) (foreign, error) {
	root, err := os.OpenRoot(dir)
	return foreign{ctx, root}, err
}

// close does nothing to one that was never opened.
func (f foreign) close() {
	if f.root != nil {
		f.root.Close()
	}
}

// has reports whether there is something of that name.
func (f foreign) has(file string) bool {
	_, err := f.root.Lstat(file)
	return err == nil
}

// document reads a short file, which is JSON that can be decoded.
func (f foreign) document(file string) ([]byte, error) {
	data, err := sys.ReadForeignIn(f.root, file, limit.ImageDocument)
	if err != nil {
		return nil, err
	}
	if err := limit.ImageJSON.CheckJSON(data); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return data, nil
}

// blobPath is where a layout keeps a blob.
func blobPath(h v1.Hash) (string, error) {
	raw, err := hex.DecodeString(h.Hex)
	if err != nil || h.Algorithm != "sha256" || len(raw) != sha256.Size {
		return "", fmt.Errorf("%q is not a sha256 digest", h.String())
	}
	return path.Join("blobs", h.Algorithm, h.Hex), nil
}

// blob reads an index, a manifest or a config, and checks its digest.
func (f foreign) blob(h v1.Hash) ([]byte, error) {
	file, err := blobPath(h)
	if err != nil {
		return nil, err
	}
	data, err := f.document(file)
	if err != nil {
		return nil, err
	}
	if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != h.Hex {
		return nil, fmt.Errorf("%s does not have the digest that is its name: the image is damaged", file)
	}
	return data, nil
}

// layout gives the image of an OCI image layout.
func (f foreign) layout(tag string) (v1.Image, error) {
	raw, err := f.document("index.json")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("it is no OCI image layout (for a root file system use --rootfs): %w", err)
	}
	if err != nil {
		return nil, err
	}
	c := chooser{from: f, tag: tag}
	img, err := c.choose(raw, tag == "", 1)
	if err != nil || img != nil {
		return img, err
	}
	if tag != "" && len(c.platforms) == 0 {
		return nil, fmt.Errorf("no image is named %q in it; there are: %s", tag, list(c.tags))
	}
	return nil, fmt.Errorf("it has no image for linux/%s; there are: %s", runtime.GOARCH, list(c.platforms))
}

// chooser picks one image of an index and remembers what it passed over.
type chooser struct {
	from            foreign
	tag             string
	tags, platforms []string
	seen            int // descriptors, over all indexes
}

// choose gives the first image that fits, nil where none does. named says that
// the tag has matched already, further out.
func (c *chooser) choose(raw []byte, named bool, depth int) (v1.Image, error) {
	if err := limit.ImageDocument.CheckDepth(depth); err != nil {
		return nil, err
	}
	index, err := v1.ParseIndexManifest(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("index: %w", err)
	}
	for _, d := range index.Manifests {
		if c.seen++; limit.ImageDocument.CheckItems(c.seen) != nil {
			return nil, limit.ImageDocument.CheckItems(c.seen)
		}
		tag := d.Annotations[refName]
		if tag != "" {
			c.tags = append(c.tags, tag)
		}
		fits := named || tag == c.tag
		switch {
		case d.MediaType.IsIndex():
			inner, err := c.from.blob(d.Digest)
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
			return c.from.image(d)
		}
	}
	return nil, nil
}

func (f foreign) image(d v1.Descriptor) (v1.Image, error) {
	raw, err := f.blob(d.Digest)
	if err != nil {
		return nil, fmt.Errorf("manifest: %w", err)
	}
	manifest, err := v1.ParseManifest(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("manifest: %w", err)
	}
	if err := limit.ImageLayers.CheckItems(len(manifest.Layers)); err != nil {
		return nil, err
	}
	return partial.CompressedToImage(ociImage{f, d.MediaType, raw, manifest})
}

// ociImage is an image of a layout: what partial completes to a v1.Image.
type ociImage struct {
	from     foreign
	kind     types.MediaType
	raw      []byte
	manifest *v1.Manifest
}

func (i ociImage) MediaType() (types.MediaType, error) { return i.kind, nil }
func (i ociImage) RawManifest() ([]byte, error)        { return i.raw, nil }
func (i ociImage) RawConfigFile() ([]byte, error)      { return i.from.blob(i.manifest.Config.Digest) }

func (i ociImage) LayerByDigest(h v1.Hash) (partial.CompressedLayer, error) {
	for _, d := range i.manifest.Layers {
		if d.Digest == h {
			return ociLayer{i.from, d}, nil
		}
	}
	return nil, fmt.Errorf("the manifest names no layer %s", h)
}

// ociLayer is a layer as a layout keeps it. The digest of its contents is checked
// when it is unpacked.
type ociLayer struct {
	from foreign
	v1.Descriptor
}

func (l ociLayer) Digest() (v1.Hash, error)            { return l.Descriptor.Digest, nil }
func (l ociLayer) MediaType() (types.MediaType, error) { return l.Descriptor.MediaType, nil }
func (l ociLayer) Size() (int64, error)                { return l.Descriptor.Size, nil }

func (l ociLayer) Compressed() (io.ReadCloser, error) {
	file, err := blobPath(l.Descriptor.Digest)
	if err != nil {
		return nil, err
	}
	f, err := sys.OpenForeignIn(l.from.root, file, limit.Limit{})
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || info.Size() != l.Descriptor.Size {
		f.Close()
		return nil, errors.Join(fmt.Errorf("%s has another size than the manifest says: the image is damaged", file), err)
	}
	return archive{contextReader{l.from.ctx, io.LimitReader(f, l.Descriptor.Size)}, f}, nil // it may grow
}

// docker gives the image of an unpacked archive of docker save.
func (f foreign) docker(tag string) (v1.Image, error) {
	raw, err := f.document("manifest.json")
	if err != nil {
		return nil, err
	}
	var entries []load
	if err := json.Unmarshal(raw, &entries); err != nil {
		return nil, fmt.Errorf("manifest.json: %w", err)
	}
	if err := limit.ImageDocument.CheckItems(len(entries)); err != nil {
		return nil, err
	}
	e, err := entryOf(entries, tag)
	if err != nil {
		return nil, err
	}
	if err := limit.ImageLayers.CheckItems(len(e.Layers)); err != nil {
		return nil, err
	}
	config, err := f.document(e.Config)
	if err != nil {
		return nil, err
	}
	parsed, err := v1.ParseConfigFile(bytes.NewReader(config))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", e.Config, err)
	}
	if len(parsed.RootFS.DiffIDs) != len(e.Layers) {
		return nil, fmt.Errorf("the image has %d layers, and its config names %d", len(e.Layers), len(parsed.RootFS.DiffIDs))
	}
	return partial.UncompressedToImage(dockerImage{f, config, parsed.RootFS.DiffIDs, e.Layers})
}

// entryOf is the image of that tag, or the only one.
func entryOf(entries []load, tag string) (load, error) {
	if tag == "" {
		if len(entries) != 1 {
			return load{}, fmt.Errorf("it holds %d images: name one as FILE:TAG", len(entries))
		}
		return entries[0], nil
	}
	want, err := name.NewTag(tag, name.WeakValidation)
	if err != nil {
		return load{}, fmt.Errorf("tag %q: %w", tag, err)
	}
	var tags []string
	for _, e := range entries {
		for _, t := range e.RepoTags {
			if have, err := name.NewTag(t, name.WeakValidation); err == nil && have.Name() == want.Name() {
				return e, nil
			}
			tags = append(tags, t)
		}
	}
	return load{}, fmt.Errorf("no image is named %q in it; there are: %s", tag, list(tags))
}

// dockerImage is an image of docker save: what partial completes to a v1.Image.
type dockerImage struct {
	from   foreign
	config []byte
	ids    []v1.Hash
	files  []string // one for each of ids
}

func (i dockerImage) MediaType() (types.MediaType, error) { return types.DockerManifestSchema2, nil }
func (i dockerImage) RawConfigFile() ([]byte, error)      { return i.config, nil }

func (i dockerImage) LayerByDiffID(h v1.Hash) (partial.UncompressedLayer, error) {
	for n, id := range i.ids {
		if id == h {
			return dockerLayer{i.from, id, i.files[n]}, nil
		}
	}
	return nil, fmt.Errorf("the config names no layer %s", h)
}

// dockerLayer is a layer of docker save: a tar, which newer ones gzip. The digest of
// its contents is checked when it is unpacked.
type dockerLayer struct {
	from foreign
	id   v1.Hash
	file string
}

func (l dockerLayer) DiffID() (v1.Hash, error)            { return l.id, nil }
func (l dockerLayer) MediaType() (types.MediaType, error) { return types.DockerLayer, nil }

func (l dockerLayer) Uncompressed() (io.ReadCloser, error) {
	f, err := sys.OpenForeignIn(l.from.root, l.file, limit.Limit{})
	if err != nil {
		return nil, err
	}
	in, err := gunzip(f)
	if err != nil {
		return nil, err
	}
	return archive{contextReader{l.from.ctx, in}, in}, nil
}

// gunzip reads a file that may be gzipped.
func gunzip(f *os.File) (io.ReadCloser, error) {
	var magic [2]byte
	if _, err := f.ReadAt(magic[:], 0); err != nil || magic != [2]byte{0x1f, 0x8b} {
		return f, nil // too short for gzip: tar will say what is wrong
	}
	z, err := gzip.NewReader(f)
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("gzip: %w", err)
	}
	return archive{z, f}, nil
}

// archive reads a file's contents, such as those that were gzipped.
type archive struct {
	io.Reader
	io.Closer // of the file
}
