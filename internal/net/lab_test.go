package net

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/tarelab/tare/internal/net/nettest"
)

func TestMain(m *testing.M) { nettest.Main(m) }

func root(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("not root: network namespaces cannot be made")
	}
}

// build makes a laboratory that is gone after the test.
func build(t *testing.T, o Options) *Lab {
	t.Helper()
	root(t)
	before := nettest.State(t)
	l, err := Build(t.Context(), o)
	var lacks *UnsupportedError
	if errors.As(err, &lacks) {
		t.Skipf("%v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if after := nettest.State(t); after != before {
			t.Errorf("the machine's own network was changed:\n%s\nbefore:\n%s", after, before)
		}
	})
	return l
}

// talk sends a line from the client to the server and back.
func talk(t *testing.T, l *Lab) {
	t.Helper()
	var listener net.Listener
	err := l.Server.Namespace.Do(func() (err error) {
		listener, err = net.Listen("tcp", ":4000")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		if c, err := listener.Accept(); err == nil {
			io.Copy(c, c)
			c.Close()
		}
	}()
	var conn net.Conn
	err = l.Client.Namespace.Do(func() (err error) {
		conn, err = net.DialTimeout("tcp", net.JoinHostPort(l.Dial.String(), "4000"), 5*time.Second)
		return err
	})
	if err != nil {
		t.Fatalf("%v (%s)", err, l.Describe())
	}
	defer conn.Close()
	big := strings.Repeat("x", 100_000)
	go func() {
		io.WriteString(conn, big)
		conn.(*net.TCPConn).CloseWrite()
	}()
	got, err := io.ReadAll(conn)
	if err != nil || string(got) != big {
		t.Errorf("%d bytes came back, %v", len(got), err)
	}
}

const six = "fd74:6172:6500::/112"

func TestEveryPathCarries(t *testing.T) {
	for _, p := range Paths() {
		for _, of := range []string{defaultRange, six} {
			t.Run(string(p)+" in "+of, func(t *testing.T) {
				l := build(t, Options{Path: p, Range: of})
				if l.Dial.Is6() != IsIPv6(of) {
					t.Errorf("the client dials %s", l.Dial)
				}
				if p == Proxy {
					l.Dial = l.Server.Address.Addr() // nobody copies here
				}
				talk(t, l)
			})
		}
	}
}

// A usual client gets its end's address and default route; a stranger gets none.
func TestLease(t *testing.T) {
	l := build(t, Options{Path: Bridge})
	server, err := l.Client.Lease()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	script := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(script, []byte("#!/bin/sh\necho $1 $ip/$mask by $router\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	ask := func(e *End) string {
		var text []byte
		err := e.Namespace.Do(func() error {
			c := exec.CommandContext(t.Context(), "busybox", "udhcpc", "-f", "-q", "-n", "-t", "2", "-T", "1", "-i", e.Link, "-s", script)
			text, _ = c.Output() // it ends with 1 where nobody answers
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if got, want := ask(l.Client), fmt.Sprintf("bound %s by %s\n", l.Client.Address, l.Client.Gateway); !strings.HasSuffix(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := ask(l.Server); !strings.Contains(got, "leasefail") {
		t.Errorf("a stranger got %q", got)
	}
}

func TestFactorsCarry(t *testing.T) {
	// Without checksums the kernel takes TSO and GSO away as well.
	wanted := map[Offload][4]bool{OffloadOff: {}, OffloadOn: {true, true, true, true}, OffloadNoTSO: {true, false, true, false}, OffloadNoGSO: {true, true, false, false}}
	for name, o := range map[string]Options{
		"mtu 9000": {Path: Bridge, MTU: 9000}, "mtu 65535": {Path: Bridge, MTU: 65535}, "no offload": {Path: Bridge, Offload: OffloadOff}, "all offloads": {Path: Bridge, Offload: OffloadOn},
		"no checksums": {Path: Bridge, Offload: OffloadNoChecksums}, "no TSO": {Path: Bridge, Offload: OffloadNoTSO}, "no GSO": {Path: Bridge, Offload: OffloadNoGSO},
		"steered": {Path: Bridge, RPS: true}, "chatter": {Path: Bridge, Containers: 12, Chatter: true}, "vxlan": {Path: VXLAN, MTU: 9000},
		"learned": {Path: Bridge, Containers: 20, Neighbours: Learned}, "learned by IPv6": {Path: Bridge, Containers: 20, Neighbours: Learned, Range: six},
		"chatter by IPv6": {Path: Bridge, Containers: 12, Chatter: true, Range: six}, "rules of IPv6": {Path: Bridges, Rules: 10, Range: six},
	} {
		t.Run(name, func(t *testing.T) {
			l := build(t, o)
			talk(t, l)
			link, err := l.Server.Namespace.nl.LinkByName(l.Server.Link)
			if err != nil {
				t.Fatal(err)
			}
			want := o.MTU
			if o.Path == VXLAN {
				want -= vxlanHeader(l.prefix.Addr())
			}
			if got := link.Attrs().MTU; o.MTU > 0 && got != want {
				t.Errorf("MTU %d, want %d", got, want)
			}
			if want, ok := wanted[o.Offload]; ok {
				if got := offloadsOf(t, l.Server); got != want {
					t.Errorf("offloads %v, want %v", got, want)
				}
			}
		})
	}
}

// offloadsOf reads what an end's link does: checksums, TSO, GSO, GRO.
func offloadsOf(t *testing.T, e *End) (got [4]bool) {
	t.Helper()
	for i, command := range []uint32{unix.ETHTOOL_GTXCSUM, unix.ETHTOOL_GTSO, unix.ETHTOOL_GGSO, unix.ETHTOOL_GGRO} {
		value := struct{ command, data uint32 }{command: command}
		if err := e.Namespace.Do(func() error { return ethtool(e.Link, unsafe.Pointer(&value)) }); err != nil {
			t.Fatal(err)
		}
		got[i] = value.data != 0
	}
	return got
}

func TestFiveHundred(t *testing.T) {
	began := time.Now()
	l := build(t, Options{Path: Bridge, Containers: 500, Neighbours: Permanent})
	t.Logf("built in %v", time.Since(began))
	for _, e := range []*End{l.Client, l.Server} {
		if n, err := e.Namespace.countNeighbours(); err != nil || n != 499 {
			t.Errorf("%d neighbours, %v", n, err)
		}
	}
	talk(t, l)
	began = time.Now()
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	t.Logf("gone in %v", time.Since(began))
}

func TestLimits(t *testing.T) {
	root(t)
	var full *FullError
	if _, err := Build(t.Context(), Options{Path: Bridge, Containers: maxPorts + 1}); !errors.As(err, &full) || !strings.Contains(err.Error(), "1023") {
		t.Errorf("too many: %v", err)
	}
	for _, bad := range []string{"10.0.0.0/24", "10.0.0.1/16", "fd00::/120", "x"} {
		if _, err := Build(t.Context(), Options{Path: Veth, Range: bad}); err == nil {
			t.Errorf("range %q was taken", bad)
		}
	}
	if _, err := Build(t.Context(), Options{Path: "pigeon"}); err == nil {
		t.Error("an unknown path was built")
	}
	if _, err := Build(t.Context(), Options{Path: Veth, Containers: 3}); err == nil {
		t.Error("three containers on one veth pair")
	}
}

// A table that is full is told of, by the kernel's own words where its log can be
// read. The limit is one for all namespaces, so that the machine's own is not touched
// here: more entries are asked for than any default takes.
// TestHeldNamespace closes a laboratory while a socket holds one end's namespace,
// as a connection does that the kernel still tries to end.
func TestHeldNamespace(t *testing.T) {
	usual := heldFor
	heldFor = 100 * time.Millisecond
	t.Cleanup(func() { heldFor = usual })
	l := build(t, Options{Path: Bridge})
	var socket int
	if err := l.Client.Namespace.Do(func() (err error) {
		socket, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(socket)
	began := time.Now()
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > goneWithin/2 {
		t.Errorf("it took %v", took)
	}
}

// neighbourLimit is the machine's, as the kernel prints it.
func neighbourLimit(t *testing.T) (text []byte) {
	t.Helper()
	var err error
	nettest.Machine(t, func() { text, err = os.ReadFile("/proc/sys/net/ipv4/neigh/default/gc_thresh3") })
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestOverflow(t *testing.T) {
	root(t)
	text := neighbourLimit(t)
	limit, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || limit > 1500 {
		t.Skipf("the machine's limit of neighbours is %d: filling it takes too many containers", limit)
	}
	var full *OverflowError
	_, err = Build(t.Context(), Options{Path: Bridge, Containers: min(limit/2+100, maxPorts), Neighbours: Learned})
	if string(neighbourLimit(t)) != string(text) {
		t.Skip("somebody has changed the machine's limit of neighbours meanwhile")
	}
	if !errors.As(err, &full) || full.Entries == 0 {
		t.Fatalf("got %v", err)
	}
	if log, err := os.Open("/dev/kmsg"); err == nil {
		log.Close()
		if !strings.Contains(full.Kernel, "table overflow") {
			t.Errorf("the kernel's message was not found: %v", full)
		}
	}
}

// Containers that send a little take nothing of the machine's one table of learned
// neighbours, however many they are.
func TestChatterLearnsNothing(t *testing.T) {
	l := build(t, Options{Path: Bridge, Containers: 20, Chatter: true})
	received := func() uint64 {
		link, err := l.bridges[0].host.nl.LinkByName(l.bridges[0].link.Name)
		if err != nil {
			t.Fatal(err)
		}
		return link.Attrs().Statistics.RxPackets
	}
	began, last := received(), time.Now().Add(20*time.Second)
	for ; received() < began+40; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(last) {
			t.Fatal("nobody sends")
		}
	}
	permanent := 0
	for _, n := range l.all {
		entries, err := n.nl.NeighList(0, netlink.FAMILY_V4)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			switch e.State {
			case netlink.NUD_PERMANENT:
				permanent++
			case netlink.NUD_NOARP: // multicast
			default:
				t.Errorf("learned: %+v", e)
			}
		}
	}
	if permanent != 2*18 {
		t.Errorf("%d permanent entries, want two of each that sends", permanent)
	}
}

// TestRangeInUse builds a laboratory inside another's namespace, which routes the range.
func TestRangeInUse(t *testing.T) {
	l := build(t, Options{Path: Veth})
	err := l.Client.Namespace.Do(func() error {
		_, err := Unused("")
		return err
	})
	if err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("got %v", err)
	}
}

func TestCancelled(t *testing.T) {
	root(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Build(ctx, Options{Path: Bridge, Containers: 100}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestCPUMask(t *testing.T) {
	for want, cpus := range map[string][]int{"00000001": {0}, "0000010f": {0, 1, 2, 3, 8}, "00000002,80000000": {31, 33}} {
		if got := cpuMask(cpus); got != want {
			t.Errorf("%v is %s, want %s", cpus, got, want)
		}
	}
}
