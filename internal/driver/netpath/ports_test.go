package netpath

import (
	"fmt"
	stdnet "net"
	"net/netip"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/driver/fake"
	"github.com/tarelab/tare/internal/net"
	"github.com/tarelab/tare/internal/workload"
)

// own is the path of the helper of both ends, to be run as it is.
func own(t *testing.T) string {
	t.Helper()
	return filepath.Join(filepath.Dir(laboratory(t).LaunchPath), "net")
}

// lastPrepared returns the arguments that a driver's payload on a path gets.
func lastPrepared(t *testing.T, path net.Path, spec driver.Spec) []string {
	t.Helper()
	var args []string
	inner := fake.New("native/pid", func(_ int, s driver.Spec) fake.Script {
		args = s.Args
		return fake.Script{}
	})
	inner.Props.Isolated = true // it has a PID namespace, and the machine's network
	i, err := New(driver.Lab{}, inner, fake.New("host", nil), path).Prepare(t.Context(), spec, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := i.Close(); err != nil {
		t.Error(err)
	}
	return args
}

// commands are all workloads of two ends that meet at a port.
func commands(t *testing.T) map[string]workload.Command {
	t.Helper()
	all := map[string]workload.Command{}
	for _, w := range workload.All() {
		values, err := workload.Check(w.Params(), nil)
		if err != nil {
			continue // it has no usual parameters, and no peer
		}
		if c, err := w.Command(values, nil); err == nil && len(c.Peer) > 0 && localSocket(c.Peer) == "" {
			all[w.Kind()] = c
		}
	}
	if len(all) < 7 {
		t.Fatalf("%d workloads have a peer", len(all))
	}
	return all
}

// Where both ends meet on a loopback, the network may be the machine's own: every server
// listens on the loopback alone, and at a port that no other one has.
func TestServersOnTheLoopback(t *testing.T) {
	for kind, c := range commands(t) {
		spec := driver.Spec{Args: c.Args, Peer: c.Peer}
		first, second := lastPrepared(t, Loopback, spec), lastPrepared(t, Loopback, spec)
		i := &instance{spec: spec, ends: &endpoints{port: "7000", dial: loopback}}
		for _, args := range [][]string{first, i.serving()} {
			if said := strings.Join(args, " "); strings.Contains(said, everyAddress) || !strings.Contains(said, loopback.String()) {
				t.Errorf("%s listens everywhere: %q", kind, args)
			}
		}
		if n := slices.Index(first, "both") + 2; first[n] == port || first[n] == second[n] {
			t.Errorf("%s: the ports %s and %s; %s is what others may use", kind, first[n], second[n], port)
		}
		i.ends.dial = netip.MustParseAddr("10.213.0.3")
		if said := strings.Join(i.serving(), " "); !strings.Contains(said, everyAddress) {
			t.Errorf("%s: in a network of its own it listens at %q", kind, i.serving())
		}
	}
}

// A port is not given twice while its server may not listen yet; a machine with few ports
// gives one again.
func TestPortsDiffer(t *testing.T) {
	var drawn int
	few := func() (string, error) {
		drawn++
		return fmt.Sprint(drawn / 2 % 3), nil
	}
	var p ports
	var got []string
	for range 4 {
		port, err := p.take(few)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, port)
	}
	slices.Sort(got[:3])
	if !slices.Equal(got[:3], []string{"0", "1", "2"}) {
		t.Errorf("got %q", got)
	}
	if len(p.given) != 4 {
		t.Errorf("%d are remembered", len(p.given))
	}
}

// A server of somebody else at the port is not measured.
func TestServerOfSomebodyElse(t *testing.T) {
	helper := own(t)
	theirs, err := stdnet.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	_, number, err := stdnet.SplitHostPort(theirs.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	for name, args := range map[string][]string{
		"both":  {"both", free, number, "--", helper, "serve", "127.0.0.1:" + number, "--", "/bin/echo", "measured"},
		"ready": listening(free, number, []string{helper, "serve", "127.0.0.1:" + number})[1:],
	} {
		c := exec.CommandContext(t.Context(), helper, args...)
		said, err := c.CombinedOutput()
		if err == nil || !strings.Contains(string(said), "the server's port: ") || strings.Contains(string(said), "measured") || strings.Contains(string(said), "net: listening") {
			t.Errorf("%s: %v: %s", name, err, said)
		}
	}
}
