package kubernetes

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// images writes the images that nodes have: that of sandboxes, and tare's as make dist
// makes it, with what it weighs: this machine's busybox and runc.
func images(t *testing.T, dir string) (archives []string, ref string) {
	t.Helper()
	pause := plain(t, "/bin/busybox")
	pause, err := mutate.Config(pause, v1.Config{Entrypoint: []string{"/bin/busybox", "sleep", "1000000"}})
	if err != nil {
		t.Fatal(err)
	}
	image, err := mutate.AppendLayers(distributed(t, dir), layerOf(t, tools(t)))
	if err != nil {
		t.Fatal(err)
	}
	digest, err := image.Digest()
	if err != nil {
		t.Fatal(err)
	}
	archives = []string{archive(t, dir, "pause", "localhost/pause:1", pause), archive(t, dir, "tare", "localhost/tare:test", image)}
	return archives, "localhost/tare@" + digest.String()
}

func plain(t *testing.T, file string) v1.Image {
	t.Helper()
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err := mutate.AppendLayers(image, layerOf(t, map[string]string{file: file}))
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	config.OS, config.Architecture = "linux", runtime.GOARCH
	if image, err = mutate.ConfigFile(image, config); err != nil {
		t.Fatal(err)
	}
	return image
}

// distributed is tare's image, of this tree.
func distributed(t *testing.T, dir string) v1.Image {
	t.Helper()
	folder := filepath.Join(dir, "files")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	output(t, "cp", *tare, filepath.Join(folder, "tare"))
	output(t, "cp", "../../../LICENSE", folder)
	t.Setenv("SOURCE_DATE_EPOCH", "0")
	into := filepath.Join(dir, "oci")
	output(t, "go", "run", "../../../scripts/oci", into, "test", "test", runtime.GOARCH+"="+folder)
	index, err := layout.ImageIndexFromPath(into)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the layout's index has one, which has an image for each architecture
		manifest, err := index.IndexManifest()
		if err != nil {
			t.Fatal(err)
		}
		digest := manifest.Manifests[0].Digest
		if manifest.Manifests[0].MediaType.IsImage() {
			image, err := index.Image(digest)
			if err != nil {
				t.Fatal(err)
			}
			return image
		}
		if index, err = index.ImageIndex(digest); err != nil {
			t.Fatal(err)
		}
	}
	t.Fatal("scripts/oci made no image")
	return nil
}

var library = regexp.MustCompile(`(?m)(?:=> |^\t)(/\S+) \(0x`)

// tools are files of this machine, by their place in the image.
func tools(t *testing.T) map[string]string {
	t.Helper()
	runc, err := exec.LookPath("runc")
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{"/bin/busybox": "/bin/busybox", "/usr/sbin/runc": runc}
	for _, found := range library.FindAllStringSubmatch(output(t, "ldd", runc), -1) {
		files[found[1]] = found[1]
	}
	for _, applet := range []string{"sh", "true", "sleep", "yes", "head", "cat", "kill"} {
		files["/bin/"+applet] = ""
	}
	return files
}

// layerOf packs files of this machine, by their place; one without a file is an applet.
func layerOf(t *testing.T, files map[string]string) v1.Layer {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for place, from := range files {
		h := &tar.Header{Typeflag: tar.TypeSymlink, Name: place[1:], Linkname: "/bin/busybox", Mode: 0o777}
		var data []byte
		if from != "" {
			var err error
			if data, err = os.ReadFile(from); err != nil {
				t.Fatal(err)
			}
			h = &tar.Header{Typeflag: tar.TypeReg, Name: place[1:], Mode: 0o755, Size: int64(len(data))}
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(data); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(out.Bytes())), nil },
		tarball.WithMediaType(types.OCILayer), tarball.WithCompressionLevel(1))
	if err != nil {
		t.Fatal(err)
	}
	return layer
}

// archive writes an image as containerd imports it.
func archive(t *testing.T, dir, name, tag string, image v1.Image) string {
	t.Helper()
	into := filepath.Join(dir, name)
	path, err := layout.Write(into, empty.Index)
	if err != nil {
		t.Fatal(err)
	}
	if err := path.AppendImage(image, layout.WithAnnotations(map[string]string{"io.containerd.image.name": tag})); err != nil {
		t.Fatal(err)
	}
	output(t, "tar", "-C", into, "-cf", into+".tar", ".")
	return into + ".tar"
}

// output is what a program writes.
func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).Output()
	if err != nil {
		var failed *exec.ExitError
		if errors.As(err, &failed) {
			out = failed.Stderr
		}
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	return string(out)
}
