package netpath

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/driver/drivertest"
	"github.com/tarelab/tare/internal/driver/engine"
	"github.com/tarelab/tare/internal/driver/host"
	"github.com/tarelab/tare/internal/driver/launch"
	"github.com/tarelab/tare/internal/driver/native"
	"github.com/tarelab/tare/internal/driver/oci"
	"github.com/tarelab/tare/internal/driver/vm"
	"github.com/tarelab/tare/internal/net"
	"github.com/tarelab/tare/internal/net/nettest"
	"github.com/tarelab/tare/internal/sys"
)

// laboratory is a test's, with the helper of both ends in its root file system.
func laboratory(t *testing.T) driver.Lab {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("not root: network namespaces cannot be made")
	}
	lab := drivertest.New(t)
	data, err := os.ReadFile(filepath.Join(filepath.Dir(lab.LaunchPath), "net"))
	if err == nil {
		err = os.WriteFile(filepath.Join(lab.TestRootfs, program), data, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	return lab
}

func TestContract(t *testing.T) {
	lab := laboratory(t)
	drivertest.Run(t, New(lab, native.New(lab), host.New(lab), net.Veth), drivertest.Options{Lab: lab})
}

func TestMain(m *testing.M) { nettest.Main(m) }

// talk runs a client against its peer, and checks that nothing is left.
func talk(t *testing.T, ctx context.Context, d *Driver, spec driver.Spec) (said string, exit driver.Exit, err error) {
	t.Helper()
	before := nettest.State(t)
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	spec.ID = fmt.Sprintf("tare-test-%d", os.Getpid())
	spec.Rootfs, spec.Env = d.lab.TestRootfs, []string{"PATH=/bin"}
	spec.Args = append([]string{driver.Mark, "--"}, spec.Args...)
	spec.Stdio = driver.Stdio{Stdout: in, Stderr: in}
	exit, err = launch.Run(ctx, d, t.TempDir(), spec)
	in.Close()
	text, readErr := io.ReadAll(out)
	if readErr != nil {
		t.Fatal(readErr)
	}
	if after := nettest.State(t); after != before {
		t.Errorf("the machine was changed:\n%s\nbefore:\n%s", after, before)
	}
	return string(text), exit, err
}

var (
	serve = []string{program, "serve", "0.0.0.0:" + driver.PeerPort}
	ask   = []string{program, "rtt", "tcp", driver.PeerAddress + ":" + driver.PeerPort, "1", "20"}

	askUDP = []string{program, "rtt", "udp", driver.PeerAddress + ":" + driver.PeerPort, "1", "20"}
)

// ranges are of both kinds of addresses.
var ranges = []string{"", "fd74:6172:6500::/112"}

// Every path of every kind of target carries a byte there and back.
func TestPaths(t *testing.T) {
	lab := laboratory(t)
	drivers := []driver.Driver{host.New(lab), native.New(lab)}
	for _, r := range oci.Runtimes() {
		if d := oci.New(lab, r); r.Name == "runc" {
			if _, err := d.Locate(); err != nil {
				t.Log(err)
				continue
			}
			drivers = append(drivers, d)
		}
	}
	for _, inner := range drivers {
		for _, p := range Paths() {
			if p == IdleEngine {
				continue // an engine's
			}
			d := New(lab, inner, host.New(lab), p)
			if d.Remote() {
				continue // TestMachines
			}
			for _, of := range ranges {
				t.Run(d.Name()+" "+of, func(t *testing.T) {
					spec := driver.Spec{Args: ask, Peer: serve, Network: driver.Network{Pin: "same", Range: of}}
					said, exit, err := talk(t, t.Context(), d, spec)
					var lacks *net.UnsupportedError
					if errors.As(err, &lacks) {
						t.Skip(err)
					}
					if err != nil || exit.Code != 0 || !strings.Contains(said, "p999_ns") {
						t.Errorf("%v, %+v: %s", err, exit, said)
					}
				})
			}
		}
	}
}

// engineLab is a laboratory with engines of its own.
func engineLab(t *testing.T) driver.Lab {
	t.Helper()
	lab := laboratory(t)
	lab.PrivateEngines = true
	trees, err := sys.Cgroups()
	if err != nil {
		t.Fatal(err)
	}
	lab.Cgroup = path.Join(driver.Label, drivertest.Token(t))
	if err := trees.Make(lab.Cgroup); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := sys.RemoveCgroups(lab.Cgroup); err != nil {
			t.Error(err)
		}
	})
	return lab
}

// tearDown stops a driver's engine when the test has ended.
func tearDown(t *testing.T, d driver.Driver) {
	t.Helper()
	if s, ok := driver.As[driver.SessionDriver](d); ok {
		t.Cleanup(func() {
			if err := s.Teardown(); err != nil {
				t.Error(err)
			}
		})
	}
}

// Engines make the network themselves, guests stand on taps.
func TestEnginesAndGuests(t *testing.T) {
	lab := engineLab(t)
	paths := map[string][]net.Path{
		"docker":       {net.HostNetwork, net.Bridge, FromHost, net.NAT, net.Proxy, IdleEngine},
		"docker/cli":   {net.Proxy},
		"podman":       {net.Bridge, net.NAT},
		"containerd":   {net.Bridge},
		"qemu/microvm": {net.Bridge, FromHost},
	}
	for _, inner := range slices.Concat(engine.Drivers(lab), vm.Drivers(lab)) {
		tearDown(t, inner)
		for _, p := range paths[inner.Name()] {
			d := New(lab, inner, host.New(lab), p)
			t.Run(d.Name(), func(t *testing.T) {
				if n := inner.Properties().Networks; n != nil {
					if _, err := n.Host(t.Context()); err != nil { // it starts before anything is compared
						t.Fatal(err)
					}
				}
				for _, of := range ranges {
					network := driver.Network{Range: of}
					should := of == "" || p == net.Bridge || inner.Properties().Joins == driver.JoinsTap
					if err := d.Takes(network); (err == nil) != should {
						t.Errorf("%q: %v; should it take that: %t", of, err, should)
					}
					if !should {
						continue
					}
					said, exit, err := talk(t, t.Context(), d, driver.Spec{Args: ask, Peer: serve, Network: network})
					if err != nil || exit.Code != 0 || !strings.Contains(said, "p999_ns") {
						t.Errorf("%q: %v, %+v: %s", of, err, exit, said)
					}
					if p != net.NAT && p != net.Proxy {
						continue
					}
					// A published port takes datagrams, too.
					said, exit, err = talk(t, t.Context(), d, driver.Spec{Args: askUDP, Peer: serve, Network: network})
					if err != nil || exit.Code != 0 || !strings.Contains(said, "p999_ns") {
						t.Errorf("%q: UDP: %v, %+v: %s", of, err, exit, said)
					}
				}
			})
		}
	}
}

// What a target cannot stand on says so before anything is made.
func TestCannot(t *testing.T) {
	lab := laboratory(t)
	for _, d := range engine.Drivers(lab) {
		if d.Name() != "docker" {
			continue
		}
		var cannot *driver.CannotError
		if err := New(lab, d, host.New(lab), net.VXLAN).fits(); !errors.As(err, &cannot) {
			t.Errorf("got %v", err)
		}
		for _, n := range []driver.Network{{MTU: 9000}, {Containers: 3, Others: driver.OthersAreNamespaces}, {Containers: 2000}, {Rules: 1}} {
			if err := New(lab, d, host.New(lab), net.Bridge).Takes(n); err == nil {
				t.Errorf("an engine's network took %+v", n)
			}
		}
	}
}

func TestFaults(t *testing.T) {
	lab := laboratory(t)
	for name, c := range map[string]struct {
		peer, args []string
		says       string
	}{
		"never listens":     {peer: []string{"/bin/busybox", "sleep", "100"}, args: ask, says: "client has 10.213."},
		"ends at once":      {peer: []string{"/bin/busybox", "sh", "-c", "echo no disk; exit 3"}, args: ask, says: "it said: no disk"},
		"does not exist":    {peer: []string{"/no/such/server"}, args: ask, says: "No such file"},
		"ends in the midst": {peer: []string{"/bin/busybox", "sh", "-c", program + " serve 0.0.0.0:" + driver.PeerPort + " & sleep 1; exit 9"}, args: []string{program, "rtt", "tcp", driver.PeerAddress + ":" + driver.PeerPort, "1", "60000"}, says: "was gone when the client failed"},
		"too many":          {peer: serve, args: ask, says: "one takes 1023 links"},
	} {
		t.Run(name, func(t *testing.T) {
			d := New(lab, native.New(lab), host.New(lab), net.Bridge)
			d.within = time.Second
			spec := driver.Spec{Args: c.args, Peer: c.peer}
			if name == "too many" {
				spec.Network.Containers = 1024
			}
			_, _, err := talk(t, t.Context(), d, spec)
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want %q", err, c.says)
			}
			if driver.IsLab(err) {
				t.Errorf("blamed on the laboratory: %v", err)
			}
		})
	}
}

// Cancelling with many containers attached ends soon and leaves none.
func TestCancelled(t *testing.T) {
	lab := laboratory(t)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	d := New(lab, native.New(lab), host.New(lab), net.Bridge)
	began := time.Now()
	_, _, err := talk(t, ctx, d, driver.Spec{Args: []string{program, "rtt", "tcp", driver.PeerAddress + ":" + driver.PeerPort, "1", "600000"}, Peer: serve,
		Network: driver.Network{Containers: 300, Neighbours: "permanent"}})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("it took %v", took)
	}
}

// TestAttachTakesStarts sees that the path whose clock holds the attaching takes no
// workload that talks to a peer.
func TestAttachTakesStarts(t *testing.T) {
	lab := laboratory(t)
	d := New(lab, native.New(lab), host.New(lab), Attach)
	if err := d.Carries(serve); err == nil || !strings.Contains(err.Error(), "without a peer") {
		t.Errorf("with a peer: %v", err)
	}
	if err := d.Carries(nil); err != nil {
		t.Errorf("a start: %v", err)
	}
}

// Who prints a line without end must not come to wait for its reader.
func TestLongLineOfAServer(t *testing.T) {
	s, err := listen()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.in.Write(append(bytes.Repeat([]byte("x"), 1<<20), "\nmore\n"...)); err != nil {
		t.Error(err)
	}
	if err := s.close(); err != nil {
		t.Error(err)
	}
}
