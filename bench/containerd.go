package main

import (
	"bytes"
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
	"regexp"
	"strconv"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/sample"
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
	return besideContainerd(ctx, func(ctx context.Context, e daemon, ref string) (float64, error) {
		return stressed(ctx, []string{stress, "--address", e.socket, "--image", ref, "--concurrent", strconv.Itoa(containerdWidth), "--duration", stressTime, "--json"})
	})
}

// containerdBucket does so with those of bucketbench, whose module cannot be had by its
// name: it has to be in PATH.
func containerdBucket(ctx context.Context) (result, error) {
	if _, err := exec.LookPath("bucketbench"); err != nil {
		return result{}, fmt.Errorf("%w: it is built with go build in github.com/estesp/bucketbench", err)
	}
	return besideContainerd(ctx, bucketed)
}

// besideContainerd pairs tare's rate in a containerd with another client's of the same
// one, which is given the name of an image that it can pull.
func besideContainerd(ctx context.Context, other func(ctx context.Context, e daemon, ref string) (float64, error)) (r result, err error) {
	dir, err := os.MkdirTemp("", "tare-bench-")
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
	return paired(analysis.AtLeast, 1, func() (float64, error) {
		s, err := report(ctx, "run", "concurrent-start", "--on", "containerd", "--workloads", "start", "--probes=", "--no-counters", "--blocks", "1",
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

// bucketRate is how bucketbench tells what it measured, in its log.
var bucketRate = regexp.MustCompile(`level=info msg=".* rate: +([0-9.]+)"`)

// bucketed gives the containers a second of a run of bucketbench: started, stopped and
// deleted, as many and as many at once as tare's. It warns of commands that failed, and
// goes on. Its streams are fifos in /run, which has to be the daemon's.
func bucketed(ctx context.Context, e daemon, ref string) (rate float64, err error) {
	dir, err := os.MkdirTemp("", "tare-bench-")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	file := filepath.Join(dir, "bench.yaml")
	plan := fmt.Sprintf("name: bench\nimage: %s\ndetached: true\ndrivers:\n  - {type: Containerd, clientpath: %s, threads: %d, iterations: %d}\ncommands: [run, stop, delete]\n",
		ref, e.socket, containerdWidth, containerdEach/containerdWidth)
	if err := os.WriteFile(file, []byte(plan), 0o600); err != nil {
		return 0, err
	}
	said, err := exec.CommandContext(ctx, "nsenter", "--target", strconv.Itoa(e.pid), "--mount", "--", "bucketbench", "--log-level", "info", "run", "--skip-limit", "--benchmark", file).CombinedOutput()
	if err == nil && bytes.Contains(said, []byte("level=warning")) {
		err = errors.New("a command of it failed")
	}
	if err != nil {
		return 0, fmt.Errorf("bucketbench: %w: %s", err, said)
	}
	told := bucketRate.FindSubmatch(said)
	if told == nil {
		return 0, fmt.Errorf("bucketbench told no rate: %s", said)
	}
	return strconv.ParseFloat(string(told[1]), 64)
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
