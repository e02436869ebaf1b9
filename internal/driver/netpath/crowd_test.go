package netpath

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/driver/engine"
	"github.com/tarelab/tare/internal/driver/host"
	"github.com/tarelab/tare/internal/driver/native"
	"github.com/tarelab/tare/internal/driver/oci"
	"github.com/tarelab/tare/internal/net"
	"github.com/tarelab/tare/internal/net/nettest"
	"github.com/tarelab/tare/internal/probe"
	"github.com/tarelab/tare/internal/sample"
)

// meet runs a client among a crowd. It returns what it said, the phases that were
// marked, and what was counted after its end.
func meet(t *testing.T, d *Driver, spec driver.Spec) (said string, phases []driver.Phase, counted map[string]float64) {
	t.Helper()
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	spec.ID = fmt.Sprintf("tare-test-%d", os.Getpid())
	spec.Rootfs, spec.Env = d.lab.TestRootfs, []string{"PATH=/bin"}
	spec.Args = append([]string{driver.Mark, "--"}, spec.Args...)
	spec.Stdio = driver.Stdio{Stdout: in, Stderr: in}
	i, err := d.Prepare(t.Context(), spec, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := i.Close(); err != nil {
			t.Error(err)
		}
	}()
	end, err := probe.Counts{}.Begin(t.Context(), i.Watch())
	if err != nil {
		t.Fatal(err)
	}
	if err := i.Start(t.Context(), func(p driver.Phase) { phases = append(phases, p) }); err != nil {
		t.Fatal(err)
	}
	exit, err := i.Wait(t.Context())
	if err != nil || exit.Code != 0 {
		t.Errorf("%+v, %v", exit, err)
	}
	values, err := end()
	if err != nil {
		t.Error(err)
	}
	counted = map[string]float64{}
	for _, v := range values {
		counted[v.Metric] = v.Value
	}
	in.Close()
	text, err := io.ReadAll(out)
	if err != nil {
		t.Fatal(err)
	}
	return string(text), phases, counted
}

// crowdSize is how many containers are on the network in these tests.
const crowdSize = 8

// Containers of a target that joins namespaces are alive on the bridge, silent, talking
// and working, and nothing of them stays.
func TestCrowd(t *testing.T) {
	lab := laboratory(t)
	drivers := []driver.Driver{native.New(lab)}
	for _, r := range oci.Runtimes() {
		if d := oci.New(lab, r); r.Name == "runc" {
			if _, err := d.Locate(); err == nil {
				drivers = append(drivers, d)
			}
		}
	}
	for _, inner := range drivers {
		for name, c := range map[string]struct {
			path    net.Path
			network driver.Network
		}{
			"silent":   {net.Bridge, driver.Network{}},
			"chatter":  {net.Bridges, driver.Network{Chatter: true}},
			"pairs":    {net.Bridge, driver.Network{Pairs: 3}},
			"policies": {net.Bridge, driver.Network{Rules: 1200}},
			"routed":   {net.Bridges, driver.Network{Rules: 3, Qdisc: "pfifo"}},
		} {
			d := New(lab, inner, host.New(lab), c.path)
			t.Run(d.Name()+"/"+name, func(t *testing.T) {
				c.network.Containers, c.network.Others = crowdSize, driver.OthersAreContainers
				before := nettest.State(t)
				said, _, counted := meet(t, d, driver.Spec{Args: ask, Peer: serve, Network: c.network})
				if !strings.Contains(said, "p999_ns") || counted[sample.OnNetwork] != crowdSize || counted[sample.NFTRules] != float64(c.network.Rules) {
					t.Errorf("%v: %s", counted, said)
				}
				if after := nettest.State(t); after != before {
					t.Errorf("the machine was changed:\n%s\nbefore:\n%s", after, before)
				}
			})
		}
	}
}

// Without the crowd the others are bare namespaces, which no one counts as containers.
func TestBareNamespaces(t *testing.T) {
	lab := laboratory(t)
	d := New(lab, native.New(lab), host.New(lab), net.Bridge)
	_, _, counted := meet(t, d, driver.Spec{Args: ask, Peer: serve, Network: driver.Network{Containers: crowdSize}})
	if counted[sample.OnNetwork] != 2 {
		t.Errorf("%v", counted)
	}
}

// All containers of an engine's network are its own, each with what the engine makes
// for it; one is taken away and attached again inside the clock.
func TestEngineCrowds(t *testing.T) {
	lab := engineLab(t)
	for _, inner := range engine.Drivers(lab) {
		if !slices.Contains([]string{"docker", "podman", "containerd"}, inner.Name()) {
			continue
		}
		tearDown(t, inner)
		for _, c := range []struct {
			path    net.Path
			spec    driver.Spec
			network driver.Network
		}{
			{net.Bridge, driver.Spec{Args: ask, Peer: serve}, driver.Network{Containers: crowdSize, Chatter: true}},
			{net.Bridge, driver.Spec{Args: ask, Peer: serve}, driver.Network{Containers: 4, Pairs: 2}},
			{net.NAT, driver.Spec{Args: ask, Peer: serve}, driver.Network{Containers: 4}},
			{Attach, driver.Spec{Args: []string{"/bin/busybox", "true"}}, driver.Network{Containers: 2}},
		} {
			d := New(lab, inner, host.New(lab), c.path)
			own := inner.Properties().Networks
			if own == nil {
				c.network.Others = driver.OthersAreContainers
			}
			t.Run(fmt.Sprintf("%s/%d-%d", d.Name(), c.network.Containers, c.network.Pairs), func(t *testing.T) {
				c.spec.Network = c.network
				said, phases, counted := meet(t, d, c.spec)
				t.Log(counted)
				if c.path != Attach && !strings.Contains(said, "p999_ns") {
					t.Error(said)
				}
				want := float64(c.network.Containers)
				if own != nil && c.path == net.NAT {
					want-- // the client is a process of the host
				}
				if counted[sample.OnNetwork] != want {
					t.Errorf("%v containers, want %v", counted[sample.OnNetwork], want)
				}
				if own != nil && counted[sample.NFTRules]+counted[sample.IPTablesRules] == 0 {
					t.Errorf("an engine without rules: %v", counted)
				}
				if own != nil && own.Proxy != "" && (counted[sample.Proxies] > 0) != (c.path == net.NAT) {
					t.Errorf("%v proxies", counted[sample.Proxies])
				}
				if attached := slices.Contains(phases, driver.PhaseDetached) && slices.Contains(phases, driver.PhaseAttached); attached != (c.path == Attach) {
					t.Errorf("phases %v", phases)
				}
			})
		}
	}
}
