package cni

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
)

// configured gives the machine a network of its own, in a namespace that stands for the
// machine's, and tells where the network keeps its addresses. The test's thread stays in
// that namespace, and ends with the test.
func configured(t *testing.T) (addresses string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("this test makes network namespaces: run it as root")
	}
	runtime.LockOSThread()
	machine, err := netns.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { machine.Close() })
	addresses = t.TempDir()
	configDir = t.TempDir()
	t.Cleanup(func() { configDir = "/etc/cni/net.d" })
	write(t, "10-own.conflist", fmt.Sprintf(`{"cniVersion": "0.4.0", "name": "own", "plugins": [
		{"type": "ptp", "ipam": {"type": "host-local", "subnet": "198.51.100.0/24", "dataDir": %q}},
		{"type": "tuning"}]}`, addresses))
	write(t, "99-other.conflist", `{"cniVersion": "0.4.0", "name": "other", "plugins": [{"type": "none"}]}`)
	return addresses
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(configDir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// end makes a namespace for a container, and gives the path that leads to it.
func end(t *testing.T) (netns.NsHandle, string) {
	t.Helper()
	machine, err := netns.Get()
	if err != nil {
		t.Fatal(err)
	}
	defer machine.Close()
	n, err := netns.New()
	if err == nil {
		err = netns.Set(machine)
	}
	if err != nil {
		t.Fatal(err)
	}
	return n, fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), int(n))
}

// taken are the addresses that the network has given away.
func taken(t *testing.T, addresses string) (names []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(addresses, "own", "198.51.100.*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		names = append(names, filepath.Base(f))
	}
	return names
}

func TestAttach(t *testing.T) {
	addresses := configured(t)
	n, err := Default()
	if err != nil || n.String() != "own (ptp, tuning)" {
		t.Fatalf("%v, %v", n, err)
	}
	runDir := t.TempDir()
	place, path := end(t)
	defer place.Close()
	a, err := n.Attach(t.Context(), runDir, "tare-one", path)
	if err != nil {
		t.Fatal(err)
	}
	nl, err := netlink.NewHandleAt(place)
	if err != nil {
		t.Fatal(err)
	}
	defer nl.Close()
	link, err := nl.LinkByName("eth0")
	if err != nil {
		t.Fatal(err)
	}
	has, err := nl.AddrList(link, netlink.FAMILY_V4)
	if err != nil || len(has) != 1 || has[0].IPNet.String() != a.Address.String() || !netip.MustParsePrefix("198.51.100.0/24").Contains(a.Address.Addr()) {
		t.Errorf("the link has %v, want %s: %v", has, a.Address, err)
	}
	if got := taken(t, addresses); !slices.Equal(got, []string{a.Address.Addr().String()}) {
		t.Errorf("the network has given away %v, want %s", got, a.Address)
	}
	for range 2 {
		if err := a.Detach(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if got := taken(t, addresses); len(got) > 0 {
		t.Errorf("the network still keeps %v", got)
	}
	if _, err := nl.LinkByName("eth0"); err == nil {
		t.Error("the link is still there")
	}
}

// An attachment of a killed process is taken away by its note alone: the namespace is gone.
func TestSweep(t *testing.T) {
	addresses := configured(t)
	n, err := Default()
	if err != nil {
		t.Fatal(err)
	}
	runDir := t.TempDir()
	place, path := end(t)
	if _, err := n.Attach(t.Context(), runDir, "tare-two", path); err != nil {
		t.Fatal(err)
	}
	place.Close()
	early := filepath.Join(notes(runDir), "tare-three") // killed while it wrote its note
	if err := errors.Join(os.Mkdir(early, 0o700), os.WriteFile(filepath.Join(early, unfinished), []byte(`{"cni`), 0o600)); err != nil {
		t.Fatal(err)
	}
	did, err := Sweep(t.Context(), runDir)
	if want := []string{"took tare-two off the CNI network own"}; err != nil || !slices.Equal(did, want) {
		t.Errorf("%v, %v, want %v", did, err, want)
	}
	if got := taken(t, addresses); len(got) > 0 {
		t.Errorf("the network still keeps %v", got)
	}
	if did, err := Sweep(t.Context(), filepath.Join(runDir, "gone")); did != nil || err != nil {
		t.Errorf("%v, %v", did, err)
	}
}

// A network that fails leaves nothing.
func TestFailingPlugin(t *testing.T) {
	addresses := configured(t)
	write(t, "05-bad.conflist", fmt.Sprintf(`{"cniVersion": "0.4.0", "name": "own", "plugins": [
		{"type": "ptp", "ipam": {"type": "host-local", "subnet": "198.51.100.0/24", "dataDir": %q}},
		{"type": "tuning", "sysctl": {"net.ipv4.no_such_setting": "1"}}]}`, addresses))
	n, err := Default()
	if err != nil {
		t.Fatal(err)
	}
	runDir := t.TempDir()
	place, path := end(t)
	defer place.Close()
	if _, err := n.Attach(t.Context(), runDir, "tare-four", path); err == nil || !strings.Contains(err.Error(), "own (ptp, tuning)") || !strings.Contains(err.Error(), "no_such_setting") {
		t.Errorf("%v", err)
	}
	if got := taken(t, addresses); len(got) > 0 {
		t.Errorf("the network still keeps %v", got)
	}
	if left, err := os.ReadDir(notes(runDir)); err != nil || len(left) > 0 {
		t.Errorf("left are %v, %v", left, err)
	}
}

func TestNoNetwork(t *testing.T) {
	configDir = t.TempDir()
	t.Cleanup(func() { configDir = "/etc/cni/net.d" })
	var none *NoneError
	if _, err := Default(); !errors.As(err, &none) || !strings.Contains(err.Error(), configDir) {
		t.Errorf("an empty directory: %v", err)
	}
	write(t, "10-bad.conflist", "{")
	if _, err := Default(); !errors.As(err, &none) || !strings.Contains(err.Error(), "10-bad.conflist") {
		t.Errorf("a file that is no network: %v", err)
	}
}
