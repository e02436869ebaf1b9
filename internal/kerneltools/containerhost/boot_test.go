package containerhost_test

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/driver/drivertest"
	"github.com/tarelab/tare/internal/driver/vm"
	"github.com/tarelab/tare/internal/kerneltools/containerhost"
)

var bootHost = flag.Bool("host", false, "make the disk of container hosts, and boot the stock one")

// layoutOf packs a directory as an OCI layout, the same bytes each time, so that
// the container host's disk is made once.
func layoutOf(t *testing.T, rootfs string) string {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "layer.tar")
	if out, err := exec.Command("tar", "-C", rootfs, "--mtime=@0", "--sort=name", "--numeric-owner", "-cf", file, ".").CombinedOutput(); err != nil {
		t.Fatalf("tar: %v: %s", err, out)
	}
	layer, err := tarball.LayerFromFile(file)
	if err != nil {
		t.Fatal(err)
	}
	img, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		t.Fatal(err)
	}
	to, err := layout.Write(filepath.Join(dir, "layout"), empty.Index)
	if err == nil {
		err = to.AppendImage(img)
	}
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "layout")
}

// The stock container host boots to a container: its milestones come, the payload
// acts, and its exit code comes back. The first run makes the disk, which takes
// another boot; no kernel is built and nothing is proven, both of which take
// minutes more.
func TestContainerHost(t *testing.T) {
	if !*bootHost {
		t.Skip("two boots of a container host take minutes where the CPU is emulated: go test ./internal/kerneltools/containerhost -run TestContainerHost -host")
	}
	if _, err := exec.LookPath("mmdebstrap"); err != nil {
		t.Skip("mmdebstrap is not installed")
	}
	lab := drivertest.New(t)
	if !lab.Root {
		t.Skip("not root: mmdebstrap makes a system's files")
	}
	lab.TestImage = layoutOf(t, lab.TestRootfs)
	drivers := containerhost.Add(vm.Drivers)(lab)
	i := slices.IndexFunc(drivers, func(d driver.Driver) bool { return d.Name() == "vm/stock" })
	if i < 0 {
		t.Skip("container hosts are made for x86-64 alone")
	}
	stock := drivers[i]
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	var mu sync.Mutex
	var lines []string
	console := func(line string) {
		mu.Lock()
		defer mu.Unlock()
		lines = append(lines, line)
	}
	inst, err := stock.Prepare(t.Context(), driver.Spec{ID: "tare-test-host", Rootfs: lab.TestRootfs, Image: lab.TestImage,
		Args: []string{driver.Mark, "--", "/bin/busybox", "sh", "-c", "exit 7"}, Env: []string{"PATH=/bin"},
		Stdio: driver.Stdio{Stdout: out, Stderr: out}, Console: console}, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := inst.Close(); err != nil {
			t.Error(err)
		}
	}()
	if facts, err := stock.Check(t.Context()); err != nil || facts.Notes["kernel"] == "" || facts.Notes["initrd-bytes"] == "0" {
		t.Errorf("facts %v, %v", facts.Notes, err)
	}
	var marks []driver.Phase
	if err := inst.Start(t.Context(), func(p driver.Phase) {
		mu.Lock()
		defer mu.Unlock()
		marks = append(marks, p)
	}); err != nil {
		t.Fatal(err)
	}
	exit, err := inst.Wait(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	said, err := os.ReadFile(out.Name())
	if err != nil || exit.Code != 7 || !bytes.Contains(said, []byte(driver.Acted)) {
		t.Errorf("exit %+v, it said %q, %v", exit, said, err)
	}
	mu.Lock()
	defer mu.Unlock()
	for _, want := range []driver.Phase{"kernel", "initrd-freed", "kernel-up", "init", "root", "modules", "docker0", "docker0-up", "engine", "agent", "off"} {
		if !slices.Contains(marks, want) {
			t.Errorf("no mark %q among %q", want, marks)
		}
	}
	if !slices.ContainsFunc(lines, func(l string) bool { return strings.Contains(l, "Linux version") }) {
		t.Errorf("the console told %d lines, and no kernel's banner", len(lines))
	}
	for _, want := range []string{"dockerd", "systemd"} {
		if !slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, "tare: process ") && strings.HasSuffix(l, " "+want) }) {
			t.Errorf("the agent told of no process %s", want)
		}
	}
}
