package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"time"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/net"
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

// networkThroughput pairs tare's iperf3 across a bridge with one that is started
// by hand in namespaces built in the same way.
func networkThroughput(ctx context.Context) (result, error) {
	var ratios []float64
	for range pairs {
		bare, err := iperfByHand(ctx)
		if err != nil {
			return result{}, err
		}
		s, err := report(ctx, "run", "bench/network.yaml")
		if err != nil {
			return result{}, err
		}
		measured, err := s.samples("host@bridge", "throughput", false)
		if err != nil {
			return result{}, err
		}
		ratios = append(ratios, median(measured)/bare)
	}
	return describe(analysis.AtLeast(ratios, 0.98)), nil
}

// iperfByHand gives the bits a second that iperf3 tells, without tare between.
func iperfByHand(ctx context.Context) (rate float64, err error) {
	lab, err := net.Build(ctx, net.Options{Path: net.Bridge})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, lab.Close()) }()
	server := exec.CommandContext(ctx, "nsenter", "--net="+lab.Server.Namespace.Path(), "iperf3", "-s", "-1")
	if err := server.Start(); err != nil {
		return 0, err
	}
	defer func() {
		_ = server.Process.Kill() // it has ended, or its client has failed
		_ = server.Wait()
	}()
	for listens := false; !listens; {
		if listens, err = lab.Server.Namespace.Listens(5201); err != nil || ctx.Err() != nil {
			return 0, errors.Join(err, ctx.Err())
		}
		time.Sleep(2 * time.Millisecond)
	}
	out, err := exec.CommandContext(ctx, "nsenter", "--net="+lab.Client.Namespace.Path(), "iperf3", "-c", lab.Dial.String(), "-J", "-t", "1").Output()
	if err != nil {
		return 0, err
	}
	var said struct {
		End struct {
			Received struct {
				Rate float64 `json:"bits_per_second"`
			} `json:"sum_received"`
		} `json:"end"`
	}
	if err := json.Unmarshal(out, &said); err != nil {
		return 0, err
	}
	return said.End.Received.Rate, nil
}
