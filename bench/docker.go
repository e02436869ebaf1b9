package main

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/tarelab/tare/internal/analysis"
)

// The bar over docker run: so many containers in all, and at once.
const dockerEach, dockerWidth = 16, 8

// dockerStarts pairs the starts a second of docker/cli, in an engine that runs
// already, with those of xargs and the same client, engine and image.
func dockerStarts(ctx context.Context) (r result, err error) {
	dir, err := os.MkdirTemp("", "tare-bench-")
	if err != nil {
		return result{}, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	host, stop, err := startDocker(ctx, dir)
	if err != nil {
		return result{}, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	file := filepath.Join(dir, "image.tar")
	if err := markImage(file); err != nil {
		return result{}, err
	}
	if _, err := output(ctx, []string{"docker", "--host", host, "load", "--input", file}); err != nil {
		return result{}, err
	}
	if err := os.Setenv("DOCKER_HOST", host); err != nil {
		return result{}, err
	}
	var ratios []float64
	for range pairs {
		s, err := report(ctx, "run", "concurrent-start", "--on", "docker/cli", "--workloads", "start", "--blocks", "1",
			"--containers", strconv.Itoa(dockerEach), "--concurrency", strconv.Itoa(dockerWidth), "--image", file)
		if err != nil {
			return result{}, err
		}
		rate, err := s.samples("docker/cli", "starts-per-second", false)
		if err != nil {
			return result{}, err
		}
		bare, err := bareDocker(ctx)
		if err != nil {
			return result{}, err
		}
		ratios = append(ratios, rate[0]*bare/dockerEach)
	}
	return describe(analysis.AtLeast(ratios, 1)), nil
}

// bareDocker gives the seconds that xargs takes over docker run; the containers
// are removed after the clock.
func bareDocker(ctx context.Context) (float64, error) {
	line := fmt.Sprintf("seq %d | xargs -P %d -I{} docker run --name bench-{} --pull never %s", dockerEach, dockerWidth, imageName)
	began := time.Now()
	if _, err := output(ctx, []string{"sh", "-c", line}); err != nil {
		return 0, err
	}
	took := time.Since(began).Seconds()
	_, err := output(ctx, []string{"sh", "-c", fmt.Sprintf("seq %d | xargs -I{} docker rm bench-{}", dockerEach)})
	return took, err
}

// startDocker starts a dockerd in namespaces of its own, as a user's own engine.
func startDocker(ctx context.Context, dir string) (host string, stop func() error, err error) {
	const script = `mount --make-rprivate / && mount -t tmpfs tmpfs /run && ip link set lo up &&
exec dockerd --config-file "$1/daemon.json" --host "unix://$1/socket" --data-root "$1/root" --exec-root "$1/exec" --pidfile "$1/pid" --exec-opt native.cgroupdriver=cgroupfs`
	if err := os.WriteFile(filepath.Join(dir, "daemon.json"), []byte("{}\n"), 0o600); err != nil {
		return "", nil, err
	}
	cmd := exec.Command("sh", "-c", script, "sh", dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWNET}
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	stop = func() error { return errors.Join(cmd.Process.Signal(syscall.SIGTERM), cmd.Wait()) }
	host = "unix://" + filepath.Join(dir, "socket")
	for until := time.Now().Add(30 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		_, err := output(ctx, []string{"docker", "--host", host, "version"})
		if err == nil {
			return host, stop, nil
		}
		if time.Now().After(until) {
			return "", nil, errors.Join(fmt.Errorf("dockerd does not answer: %w: %s", err, said.String()), stop())
		}
	}
}

// imageName is the name of the image that xargs starts.
const imageName = "localhost/tare-bench:latest"

// markImage writes an image with the mark as its command, as docker save does.
func markImage(file string) error {
	program, err := os.ReadFile(filepath.Join("guest/bin", "linux_"+runtime.GOARCH, "mark"))
	if err != nil {
		return err
	}
	var files bytes.Buffer
	w := tar.NewWriter(&files)
	err = w.WriteHeader(&tar.Header{Name: "mark", Mode: 0o755, Size: int64(len(program)), Typeflag: tar.TypeReg})
	if err == nil {
		_, err = w.Write(program)
	}
	if err = errors.Join(err, w.Close()); err != nil {
		return err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(files.Bytes())), nil })
	if err != nil {
		return err
	}
	image, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{Architecture: runtime.GOARCH, OS: "linux",
		RootFS: v1.RootFS{Type: "layers"}, Config: v1.Config{Cmd: []string{"/mark"}}})
	if err == nil {
		image, err = mutate.AppendLayers(image, layer)
	}
	if err != nil {
		return err
	}
	tag, err := name.NewTag(imageName)
	if err != nil {
		return err
	}
	return tarball.WriteToFile(file, tag, image)
}
