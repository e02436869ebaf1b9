package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/driver/launch"
	"github.com/tarelab/tare/internal/driver/native"
	"github.com/tarelab/tare/internal/lab"
	"github.com/tarelab/tare/internal/net"
	"github.com/tarelab/tare/internal/workload"
)

// containers is how many are attached to one bridge for the bars.
const containers = 500

// attach builds and removes a bridge with all containers, some times; it gives
// the median of each, in seconds.
func attach(ctx context.Context) (built, gone float64, err error) {
	var builds, ends []float64
	for range 7 {
		began := time.Now()
		lab, err := net.Build(ctx, net.Options{Path: net.Bridge, Containers: containers})
		if err != nil {
			return built, gone, err
		}
		builds = append(builds, time.Since(began).Seconds())
		began = time.Now()
		if err := lab.Close(); err != nil {
			return built, gone, err
		}
		ends = append(ends, time.Since(began).Seconds())
	}
	return median(builds), median(ends), nil
}

func networkAttach(ctx context.Context) (result, error) {
	built, _, err := attach(ctx)
	if err != nil {
		return result{}, err
	}
	return below(built, 3, fmt.Sprintf("%.2f s, median of 7", built))
}

func networkRemove(ctx context.Context) (result, error) {
	_, gone, err := attach(ctx)
	if err != nil {
		return result{}, err
	}
	return below(gone, 2, fmt.Sprintf("%.2f s, median of 7", gone))
}

// networkThroughput pairs iperf3 as a cell runs it, in two bare containers, with
// one that is started by hand, all in the same two namespaces on one bridge.
func networkThroughput(ctx context.Context) (r result, err error) {
	state, err := os.MkdirTemp("", "tare-bench-")
	if err != nil {
		return result{}, err
	}
	defer os.RemoveAll(state)
	laboratory, err := lab.Open(ctx, lab.Config{StateDir: state, Drivers: native.Drivers})
	if err != nil {
		return result{}, err
	}
	defer func() { err = errors.Join(err, laboratory.Close()) }()
	bridge, err := net.Build(ctx, net.Options{Path: net.Bridge, Neighbours: net.Permanent})
	if err != nil {
		return result{}, err
	}
	defer func() { err = errors.Join(err, bridge.Close()) }()
	job, err := workload.Resolve("net-tcp", map[string]string{"time": "1s"}, nil)
	if err != nil {
		return result{}, err
	}
	fill := strings.NewReplacer(driver.PeerAddress, bridge.Dial.String(), driver.PeerPort, "5201")
	by := func(run func(ctx context.Context, end *net.End, argv []string) ([]byte, error)) (float64, error) {
		return iperf(ctx, bridge, job, fill, run)
	}
	return paired(analysis.AtLeast, 0.98, func() (float64, error) {
		return by(func(ctx context.Context, end *net.End, argv []string) ([]byte, error) {
			return inContainer(ctx, laboratory, end, argv)
		})
	}, func() (float64, error) { return by(byHand) })
}

// iperf gives the bits a second of one iperf3 across the bridge, whose two
// programs are run as run does.
func iperf(ctx context.Context, bridge *net.Lab, job workload.Job, fill *strings.Replacer, run func(context.Context, *net.End, []string) ([]byte, error)) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	served := make(chan error, 1)
	go func() {
		_, err := run(ctx, bridge.Server, filled(fill, job.Peer))
		served <- err
	}()
	if err := bridge.Server.Namespace.Do(func() error { return listens(ctx, served) }); err != nil {
		return 0, err
	}
	said, err := run(ctx, bridge.Client, append([]string{"/usr/bin/iperf3"}, filled(fill, job.Args)[1:]...))
	if err != nil {
		return 0, err
	}
	if err := <-served; err != nil {
		return 0, err
	}
	values, err := job.Parse(said)
	if err != nil {
		return 0, err
	}
	return values[0].Value, nil
}

func filled(fill *strings.Replacer, argv []string) []string {
	var out []string
	for _, a := range argv {
		out = append(out, fill.Replace(a))
	}
	return out
}

// listens waits for a socket of this namespace that listens: /proc/net is the
// thread's own, and a connection would use the server up.
func listens(ctx context.Context, ended chan error) error {
	for {
		for _, table := range []string{"/proc/thread-self/net/tcp", "/proc/thread-self/net/tcp6"} {
			text, err := os.ReadFile(table)
			if err == nil && strings.Contains(string(text), ":1451 ") && strings.Contains(string(text), " 0A ") {
				return nil
			}
		}
		select {
		case err := <-ended:
			return fmt.Errorf("the server ended before it listened: %w", err)
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
}

func byHand(ctx context.Context, end *net.End, argv []string) ([]byte, error) {
	return exec.CommandContext(ctx, "nsenter", append([]string{"--net=" + end.Namespace.Path()}, argv...)...).Output()
}

func inContainer(ctx context.Context, laboratory *lab.Lab, end *net.End, argv []string) ([]byte, error) {
	native, err := laboratory.Drivers(ctx, "native")
	if err != nil {
		return nil, err
	}
	exit, said, err := launch.Try(ctx, native[0], laboratory.Place(), driver.Spec{Args: argv, Join: driver.Join{Namespace: end.Namespace.Path()}})
	if err == nil && exit.Code != 0 {
		err = fmt.Errorf("%s ended with code %d: %s", argv[0], exit.Code, said)
	}
	return said, err
}
