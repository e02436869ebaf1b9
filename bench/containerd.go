package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	containerd "github.com/containerd/containerd/v2/client"
	metadata "github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/containerd/v2/pkg/cio"
	"github.com/containerd/containerd/v2/pkg/oci"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sync/errgroup"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/sys"
)

// The bar over containerd: so many containers in a trial, so many at once, and so
// long a run of containerd-stress beside it.
const (
	containerdEach, containerdWidth = 64, 8
	stressTime                      = "5s"
)

// containerdStarts pairs the containers that tare starts and removes in a second
// with those of containerd-stress, in the same containerd, of the same image.
func containerdStarts(ctx context.Context) (result, error) {
	stress := filepath.Join(toolsDir(), "containerd-stress")
	if _, err := exec.LookPath(stress); err != nil {
		return result{}, fmt.Errorf("%w: scripts/setup.sh bench builds it", err)
	}
	return besideContainerd(ctx, 1, func(ctx context.Context, e daemon, ref string) (float64, error) {
		return stressed(ctx, []string{stress, "--address", e.socket, "--image", ref, "--concurrent", strconv.Itoa(containerdWidth), "--duration", stressTime, "--json"})
	})
}

// containerdLoop does so with those of a plain loop of containerd's own client, whose
// containers have what tare's have.
func containerdLoop(ctx context.Context) (result, error) {
	return besideContainerd(ctx, 0.9, looped)
}

// besideContainerd pairs tare's rate in a containerd with another client's of the same
// one, which is given the name of an image that it can pull. bar is the least ratio. The
// daemon's files are in memory: it syncs its database for each container, and how long
// the disk takes for that is neither client's.
func besideContainerd(ctx context.Context, bar float64, other func(ctx context.Context, e daemon, ref string) (float64, error)) (r result, err error) {
	dir, err := os.MkdirTemp("/dev/shm", "tare-bench-")
	if err != nil {
		return result{}, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	e, err := startContainerd(ctx, dir)
	if err != nil {
		return result{}, err
	}
	defer func() { err = errors.Join(err, e.stop()) }()
	file := filepath.Join(dir, "image.tar")
	image, err := benchImage(file)
	if err != nil {
		return result{}, err
	}
	registry := httptest.NewServer(serving(image))
	defer registry.Close()
	ref := strings.Replace(strings.TrimPrefix(registry.URL, "http://"), "127.0.0.1", "localhost", 1) + "/bench:latest"
	restore, err := setenv("CONTAINERD_ADDRESS", e.socket)
	if err != nil {
		return result{}, err
	}
	defer func() { err = errors.Join(err, restore()) }()
	return paired(analysis.AtLeast, bar, func() (float64, error) {
		s, err := report(ctx, "run", "concurrent-start", "--on", "containerd", "--workloads", "start", "--probes=", "--no-counters", "--no-aa", "--blocks", "1",
			"--instances", strconv.Itoa(containerdEach), "--concurrency", strconv.Itoa(containerdWidth), "--image", file)
		if err != nil {
			return 0, err
		}
		elapsed, err := s.sample("containerd", sample.Elapsed)
		if err != nil {
			return 0, err
		}
		removal, err := s.sample("containerd", sample.Removal)
		return containerdEach / (elapsed + removal), err
	}, func() (float64, error) {
		return other(ctx, e, ref)
	})
}

// toolsDir is where scripts/setup.sh keeps what it has built.
func toolsDir() string {
	cache, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(cache, "tare", "tools")
}

// stressed gives the containers a second of a run of containerd-stress.
func stressed(ctx context.Context, argv []string) (float64, error) {
	out, err := output(ctx, argv)
	if err != nil {
		return 0, err
	}
	var result struct {
		Total               int     `json:"total"`
		Failures            int     `json:"failures"`
		ContainersPerSecond float64 `json:"containersPerSecond"`
	}
	if err := json.Unmarshal(out, &result); err != nil {
		return 0, fmt.Errorf("containerd-stress printed %q: %w", out, err)
	}
	if result.Total == 0 || result.Failures > 0 {
		return 0, fmt.Errorf("containerd-stress: %d of %d containers failed", result.Failures, result.Total)
	}
	return result.ContainersPerSecond, nil
}

// looped gives the containers a second of a loop that starts and ends as many containers,
// as many at once, and then removes them: with fifos on a disk, a group for the container
// and one for its shim, as deep as tare's, which go in the time of the removal.
func looped(ctx context.Context, e daemon, ref string) (rate float64, err error) {
	dir, err := os.MkdirTemp(state(), "tare-bench-")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	client, err := containerd.New(e.socket, containerd.WithDefaultNamespace(driver.Label+"-bench"))
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	image, err := client.Pull(ctx, ref, containerd.WithPullUnpack, containerd.WithPullSnapshotter(loopSnapshotter))
	if err != nil {
		return 0, err
	}
	trees, err := sys.Cgroups()
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, trees.Remove(bareGroup(dir))) }()
	all := make([]loopContainer, containerdEach)
	for i := range all {
		all[i] = loopContainer{client, image, fmt.Sprintf("%s-%d", filepath.Base(dir), i), filepath.Join(dir, strconv.Itoa(i)), path.Join(bareGroup(dir), strconv.Itoa(i)), nil}
		if err := os.Mkdir(all[i].dir, 0o700); err != nil {
			return 0, err
		}
		if err := trees.Make(all[i].role(driver.RoleRuntime)); err != nil {
			return 0, err
		}
	}
	var took time.Duration
	for _, step := range []func(*loopContainer) error{
		func(c *loopContainer) error { return c.run(ctx) },
		func(c *loopContainer) error { return c.remove(ctx) },
	} {
		began := time.Now()
		var at errgroup.Group
		at.SetLimit(containerdWidth)
		for i := range all {
			at.Go(func() error { return step(&all[i]) })
		}
		if err := at.Wait(); err != nil {
			return 0, err
		}
		took += time.Since(began)
	}
	return containerdEach / took.Seconds(), nil
}

// loopSnapshotter is containerd's default, which tare takes too.
const loopSnapshotter = "overlayfs"

// loopContainer is a container of the loop.
type loopContainer struct {
	client         *containerd.Client
	image          containerd.Image
	id, dir, group string
	container      containerd.Container
}

func (c *loopContainer) role(r driver.Role) string { return path.Join(c.group, string(r)) }

// run starts the container and waits until it has ended, and its output.
func (c *loopContainer) run(ctx context.Context) (err error) {
	version := func(_ context.Context, _ oci.Client, _ *metadata.Container, s *oci.Spec) error {
		s.Version = "1.0.2" // newer ones are refused by Debian's runc
		return nil
	}
	if c.container, err = c.client.NewContainer(ctx, c.id, containerd.WithSnapshotter(loopSnapshotter), containerd.WithImage(c.image), containerd.WithNewSnapshot(c.id, c.image),
		containerd.WithNewSpec(oci.WithoutRunMount, oci.WithProcessArgs("/mark"), oci.WithCgroup("/"+c.role(driver.RolePayload)), version)); err != nil {
		return err
	}
	task, err := c.container.NewTask(ctx, cio.NewCreator(cio.WithStreams(nil, io.Discard, io.Discard), cio.WithFIFODir(c.dir)), containerd.WithShimCgroup("/"+c.role(driver.RoleRuntime)))
	if err != nil {
		return err
	}
	ended, err := task.Wait(ctx)
	if err != nil {
		return err
	}
	if err := task.Start(ctx); err != nil {
		return err
	}
	if code, _, err := (<-ended).Result(); err != nil || code != 0 {
		return fmt.Errorf("a container of the loop ended with %d: %w", code, err)
	}
	task.IO().Wait()
	return task.IO().Close()
}

func (c *loopContainer) remove(ctx context.Context) error {
	task, err := c.container.Task(ctx, nil)
	if err != nil {
		return err
	}
	if _, err := task.Delete(ctx); err != nil {
		return err
	}
	if err := c.container.Delete(ctx, containerd.WithSnapshotCleanup); err != nil {
		return err
	}
	_, err = sys.RemoveCgroups(c.group)
	return errors.Join(err, os.RemoveAll(c.dir))
}

// startContainerd starts a containerd as a user's own.
func startContainerd(ctx context.Context, dir string) (daemon, error) {
	socket := filepath.Join(dir, "socket")
	config := filepath.Join(dir, "config.toml")
	text := fmt.Sprintf("version = 2\nroot = %q\nstate = \"/run/containerd\"\ndisabled_plugins = [\"io.containerd.grpc.v1.cri\"]\n[grpc]\naddress = %q\n",
		filepath.Join(dir, "root"), socket)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return daemon{}, err
	}
	return startEngine(ctx, socket, []string{"containerd", "--config", config}, []string{"ctr", "--address", socket, "version"})
}

// serving is a registry with one image, of which everything is read.
func serving(image v1.Image) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var data []byte
		var err error
		switch kind, last := path.Base(path.Dir(r.URL.Path)), path.Base(r.URL.Path); kind {
		case "manifests":
			data, err = image.RawManifest()
			if kind, digest, unknown := describeImage(image); unknown == nil {
				w.Header().Set("Content-Type", kind)
				w.Header().Set("Docker-Content-Digest", digest)
			}
		case "blobs":
			data, err = blob(image, last)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusNotFound)
			return
		}
		if _, err := w.Write(data); err != nil {
			return // who has asked is gone, and says so
		}
	}
}

func describeImage(image v1.Image) (kind, digest string, err error) {
	media, err := image.MediaType()
	if err != nil {
		return "", "", err
	}
	hash, err := image.Digest()
	return string(media), hash.String(), err
}

func blob(image v1.Image, digest string) ([]byte, error) {
	hash, err := v1.NewHash(digest)
	if err != nil {
		return nil, err
	}
	if config, err := image.ConfigName(); err == nil && config == hash {
		return image.RawConfigFile()
	}
	layer, err := image.LayerByDigest(hash)
	if err != nil {
		return nil, err
	}
	content, err := layer.Compressed()
	if err != nil {
		return nil, err
	}
	defer content.Close()
	return io.ReadAll(content)
}
