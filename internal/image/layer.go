package image

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// fileLayer is a layer whose tar is a file. It is not compressed: the digest
// then depends on the contents alone, not on a compressor's version.
type fileLayer struct {
	path string
	hash v1.Hash
	size int64
}

// writeLayer writes a tree as a layer to a file.
func writeLayer(t tree, file string) (fileLayer, error) { return createLayer(file, t.write) }

// createLayer makes a layer of what write writes to a new file.
func createLayer(file string, write func(io.Writer) error) (l fileLayer, err error) {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return l, err
	}
	defer func() {
		if cerr := f.Close(); err == nil {
			err = cerr
		}
	}()
	sum := sha256.New()
	if err := write(io.MultiWriter(f, sum)); err != nil {
		return l, err
	}
	info, err := f.Stat()
	if err != nil {
		return l, err
	}
	return fileLayer{file, v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(sum.Sum(nil))}, info.Size()}, nil
}

func (l fileLayer) Digest() (v1.Hash, error)             { return l.hash, nil }
func (l fileLayer) DiffID() (v1.Hash, error)             { return l.hash, nil }
func (l fileLayer) Compressed() (io.ReadCloser, error)   { return os.Open(l.path) }
func (l fileLayer) Uncompressed() (io.ReadCloser, error) { return os.Open(l.path) }
func (l fileLayer) Size() (int64, error)                 { return l.size, nil }
func (l fileLayer) MediaType() (types.MediaType, error)  { return types.OCIUncompressedLayer, nil }

// makeImage is an OCI image of layers for an architecture, as Go calls it.
func makeImage(architecture string, layers ...v1.Layer) (v1.Image, error) {
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	config := &v1.ConfigFile{
		Architecture: architecture,
		OS:           "linux",
		RootFS:       v1.RootFS{Type: "layers"},
		Config:       v1.Config{Env: []string{"PATH=" + searchPath}, Cmd: []string{"/bin/sh"}},
	}
	img, err := mutate.ConfigFile(base, config)
	if err != nil {
		return nil, fmt.Errorf("image config: %w", err)
	}
	for _, l := range layers {
		if img, err = mutate.Append(img, mutate.Addendum{Layer: l}); err != nil {
			return nil, fmt.Errorf("image layer: %w", err)
		}
	}
	return img, nil
}
