package main

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"runtime"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// imageName is the name of the image that the other tools start.
const imageName = "localhost/tare-bench:latest"

// benchImage is an image whose command is the mark. It is there as "true" too,
// and the user games is known, which containerd-stress asks for. It is written to
// file as docker save does.
func benchImage(file string) (v1.Image, error) {
	program, err := os.ReadFile(filepath.Join("helpers/bin", "linux_"+runtime.GOARCH, "mark"))
	if err != nil {
		return nil, err
	}
	var files bytes.Buffer
	w := tar.NewWriter(&files)
	for _, f := range []struct {
		name string
		data []byte
	}{{"mark", program}, {"bin/true", program}, {"etc/passwd", []byte("games:x:5:60:games:/:/bin/true\n")}} {
		if err := w.WriteHeader(&tar.Header{Name: f.name, Mode: 0o755, Size: int64(len(f.data)), Typeflag: tar.TypeReg}); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.data); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(files.Bytes())), nil })
	if err != nil {
		return nil, err
	}
	image, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{Architecture: runtime.GOARCH, OS: "linux", RootFS: v1.RootFS{Type: "layers"},
		Config: v1.Config{Cmd: []string{"/mark"}, Env: []string{"PATH=/bin"}}})
	if err == nil {
		image, err = mutate.AppendLayers(image, layer)
	}
	if err != nil {
		return nil, err
	}
	tag, err := name.NewTag(imageName)
	if err != nil {
		return nil, err
	}
	return image, tarball.WriteToFile(file, tag, image)
}
