package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/sample"
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
	e, err := startDocker(ctx, dir)
	if err != nil {
		return result{}, err
	}
	defer func() { err = errors.Join(err, e.stop()) }()
	host := "unix://" + e.socket
	file := filepath.Join(dir, "image.tar")
	if _, err := benchImage(file); err != nil {
		return result{}, err
	}
	if _, err := output(ctx, []string{"docker", "--host", host, "load", "--input", file}); err != nil {
		return result{}, err
	}
	restore, err := setenv("DOCKER_HOST", host)
	if err != nil {
		return result{}, err
	}
	defer func() { err = errors.Join(err, restore()) }()
	return paired(analysis.AtLeast, 1, func() (float64, error) {
		s, err := report(ctx, "run", "concurrent-start", "--on", "docker/cli", "--workloads", "start", "--probes=", "--no-counters", "--no-aa", "--blocks", "1",
			"--instances", strconv.Itoa(dockerEach), "--concurrency", strconv.Itoa(dockerWidth), "--image", file)
		if err != nil {
			return 0, err
		}
		return s.sample("docker/cli", sample.StartsPerSecond)
	}, func() (float64, error) {
		took, err := bareDocker(ctx)
		return dockerEach / took, err
	})
}

// setenv sets a variable for tare; restore puts back what was, for the bars that
// follow, when the engine that it names is gone.
func setenv(name, value string) (restore func() error, err error) {
	before, was := os.LookupEnv(name)
	return func() error {
		if was {
			return os.Setenv(name, before)
		}
		return os.Unsetenv(name)
	}, os.Setenv(name, value)
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

// startDocker starts a dockerd as a user's own engine.
func startDocker(ctx context.Context, dir string) (daemon, error) {
	if err := os.WriteFile(filepath.Join(dir, "daemon.json"), []byte("{}\n"), 0o600); err != nil {
		return daemon{}, err
	}
	socket := filepath.Join(dir, "socket")
	host := "unix://" + socket
	return startEngine(ctx, socket, []string{"dockerd", "--config-file", filepath.Join(dir, "daemon.json"), "--host", host,
		"--data-root", filepath.Join(dir, "root"), "--exec-root", filepath.Join(dir, "exec"), "--pidfile", filepath.Join(dir, "pid"),
		"--exec-opt", "native.cgroupdriver=cgroupfs"}, []string{"docker", "--host", host, "version"})
}

// daemon is an engine that a bar has started.
type daemon struct {
	socket string
	stop   func() error
}

// startEngine starts a daemon in a mount and a network namespace of its own, with
// its own /run and, since daemons make files at fixed places, with overlays over /opt
// and /etc, and waits until asking it works.
func startEngine(ctx context.Context, socket string, argv, ask []string) (daemon, error) {
	const script = `mount --make-rprivate / && mount -t tmpfs tmpfs /run && ip link set lo up && cd /run && for d in opt etc; do
mkdir -p $d/upper $d/work && mount -t overlay -o lowerdir=/$d,upperdir=/run/$d/upper,workdir=/run/$d/work overlay /$d || exit; done && exec "$@"`
	cmd := exec.Command("sh", append([]string{"-c", script, "sh"}, argv...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWNET}
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		return daemon{}, err
	}
	stop := func() error {
		err := cmd.Process.Signal(syscall.SIGTERM)
		if ended := cmd.Wait(); cmd.ProcessState.ExitCode() > 0 {
			err = errors.Join(err, ended)
		}
		return err
	}
	for until := time.Now().Add(30 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		_, err := output(ctx, ask)
		if err == nil {
			return daemon{socket, stop}, nil
		}
		if time.Now().After(until) {
			stopped := stop() // said is written to until then
			return daemon{}, errors.Join(fmt.Errorf("%s does not answer: %w: %s", argv[0], err, said.String()), stopped)
		}
	}
}
