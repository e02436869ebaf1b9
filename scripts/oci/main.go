// Command oci writes an OCI image layout that holds tare for several architectures.
//
//	oci DIRECTORY VERSION COMMIT ARCHITECTURE=FOLDER...
//
// Each folder's files are the image's /usr/bin/tare and its documents. $SOURCE_DATE_EPOCH
// is the time that all bears, so that the same files give the same bits.
package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

func main() {
	if len(os.Args) < 5 {
		fmt.Fprintln(os.Stderr, "usage: oci DIRECTORY VERSION COMMIT ARCHITECTURE=FOLDER...")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2], os.Args[3], os.Args[4:]); err != nil {
		fmt.Fprintln(os.Stderr, "oci:", err)
		os.Exit(1)
	}
}

func run(dir, version, commit string, architectures []string) error {
	epoch, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
	}
	b := build{version, commit, time.Unix(epoch, 0).UTC()}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, a := range architectures {
		arch, folder, ok := strings.Cut(a, "=")
		if !ok {
			return fmt.Errorf("%q is not ARCHITECTURE=FOLDER", a)
		}
		image, err := b.image(arch, folder)
		if err != nil {
			return fmt.Errorf("image for %s: %w", arch, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}},
		})
	}
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	// podman load and skopeo take the image's name from here, containerd and docker load
	// from the other.
	return path.AppendIndex(index, layout.WithAnnotations(map[string]string{
		"org.opencontainers.image.ref.name": "tare:" + version,
		"io.containerd.image.name":          "docker.io/library/tare:" + version,
	}))
}

type build struct {
	version, commit string
	created         time.Time
}

// files are what an image has, in the order of its layer.
var files = []struct {
	from, to string
	mode     int64
}{
	{"tare", "usr/bin/tare", 0o755},
	{"LICENSE", "usr/share/doc/tare/LICENSE", 0o644},
}

func (b build) image(arch, folder string) (v1.Image, error) {
	data, err := b.layer(folder)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil },
		tarball.WithMediaType(types.OCILayer), tarball.WithCompressionLevel(9))
	if err != nil {
		return nil, err
	}
	image, err := mutate.ConfigFile(mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON), &v1.ConfigFile{
		OS: "linux", Architecture: arch, Created: v1.Time{Time: b.created},
		RootFS: v1.RootFS{Type: "layers"},
		Config: v1.Config{
			Entrypoint: []string{"/usr/bin/tare"},
			Env:        []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "TARE_STATE=/var/lib/tare"},
			Labels: map[string]string{
				"org.opencontainers.image.title":    "tare",
				"org.opencontainers.image.version":  b.version,
				"org.opencontainers.image.revision": b.commit,
				"org.opencontainers.image.source":   "https://github.com/tarelab/tare",
				"org.opencontainers.image.licenses": "Apache-2.0",
			},
		},
	})
	if err != nil {
		return nil, err
	}
	return mutate.Append(image, mutate.Addendum{
		Layer: layer, MediaType: types.OCILayer,
		History: v1.History{Created: v1.Time{Time: b.created}, CreatedBy: "scripts/dist.sh"},
	})
}

// layer is a tar of the files, with the folders above them.
func (b build) layer(folder string) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, dir := range []string{"tmp/", "usr/", "usr/bin/", "usr/share/", "usr/share/doc/", "usr/share/doc/tare/", "var/", "var/lib/", "var/lib/tare/"} {
		mode := int64(0o755)
		if dir == "tmp/" {
			mode = 0o1777
		}
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir, Mode: mode, ModTime: b.created}); err != nil {
			return nil, err
		}
	}
	for _, f := range files {
		data, err := os.ReadFile(filepath.Join(folder, f.from))
		if err != nil {
			return nil, err
		}
		err = w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: f.to, Mode: f.mode, Size: int64(len(data)), ModTime: b.created})
		if _, werr := w.Write(data); err != nil || werr != nil {
			return nil, errors.Join(err, werr)
		}
	}
	err := w.Close()
	return out.Bytes(), err
}
