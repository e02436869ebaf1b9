package engine

import (
	"errors"
	"fmt"
	"path"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/driver/drivertest"
	"github.com/tarelab/tare/internal/sys"
)

// laboratory is one with a session's group, in which engines that run on the
// machine are left alone.
func laboratory(t *testing.T) driver.Lab {
	t.Helper()
	lab := drivertest.New(t)
	lab.PrivateEngines = true
	trees, err := sys.Cgroups()
	if err != nil {
		t.Fatal(err)
	}
	if lab.Root && trees.Usable() {
		lab.Cgroup = path.Join(driver.Label, drivertest.Token(t))
		if err := trees.Make(lab.Cgroup); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if _, err := sys.RemoveCgroups(lab.Cgroup); err != nil {
				t.Error(err)
			}
		})
	}
	return lab
}

// named is the driver of that name.
func named(t *testing.T, lab driver.Lab, name string) driver.Driver {
	t.Helper()
	for _, d := range Drivers(lab) {
		if d.Name() == name {
			return d
		}
	}
	t.Fatalf("no driver %q", name)
	return nil
}

// prepareIn prepares a payload in a group of its own below the laboratory's, which is
// made for it.
func prepareIn(t *testing.T, d driver.Driver, lab driver.Lab, spec driver.Spec) driver.Instance {
	t.Helper()
	trees, err := sys.Cgroups()
	if err != nil {
		t.Fatal(err)
	}
	spec.Rootfs, spec.Image, spec.Env, spec.Cgroup = lab.TestRootfs, lab.TestImage, []string{"PATH=/bin"}, path.Join(lab.Cgroup, spec.ID)
	if err := trees.Make(spec.Cgroup); err != nil {
		t.Fatal(err)
	}
	inst, err := d.Prepare(t.Context(), spec, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return inst
}

// contract runs the suite on the driver of that name. Its engine is up before
// the suite looks at what is on the machine, and is taken away after it.
func contract(t *testing.T, name, missing string, skip map[string]string) {
	t.Helper()
	lab := laboratory(t)
	d := named(t, lab, name)
	t.Cleanup(func() {
		if err := d.(driver.SessionDriver).Teardown(); err != nil {
			t.Error(err)
		}
	})
	if _, err := d.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	drivertest.Run(t, d, drivertest.Options{Lab: lab, Missing: without(lab, missing, name), MissingName: missing, Skip: skip,
		Again: func(err error) bool { return fixedUpstream(t, d, err) }})
}

// fixedUpstream reports whether a check failed for a fault of the engine that its later
// versions do not have: containerd loses an output's end, or dockerd hangs for good,
// see hungTime. A private engine that has hung is replaced before the check is made
// again, which would else find a daemon that was not there before.
func fixedUpstream(t *testing.T, d driver.Driver, err error) bool {
	if !strings.Contains(err.Error(), "dockerd hangs: ") {
		return strings.Contains(err.Error(), lost)
	}
	facts, err := d.Check(t.Context())
	return err == nil && strings.HasPrefix(facts.Version, "20.10.")
}

// ownKernel are the checks of the machine's own kernel: what is behind gVisor's paths
// and device nodes is gVisor. The engine does not know which runtime a name means.
var ownKernel = map[string]string{
	"kernel's paths":  "gVisor's payloads have a kernel of their own",
	"foreign devices": "gVisor's payloads have a kernel of their own",
}

func TestDocker(t *testing.T)    { contract(t, "docker", "no-such-dockerd", nil) }
func TestDockerCLI(t *testing.T) { contract(t, "docker/cli", "no-such-dockerd", nil) }
func TestDockerWithoutNetwork(t *testing.T) {
	lab := laboratory(t)
	d := named(t, lab, "docker/no-network").(*apiDriver)
	o, err := (&instance{driver: d, spec: driver.Spec{ID: "x", Args: []string{"true"}}}).options()
	if err != nil || o.HostConfig.NetworkMode != "none" {
		t.Errorf("network %q: %v", o.HostConfig.NetworkMode, err)
	}
	if n := d.Properties().Ports; n != 0 {
		t.Errorf("it takes %d instances at once, and no bridge", n)
	}
	if n := named(t, lab, "docker").Properties().Ports; n != bridgePorts {
		t.Errorf("the bridge takes %d instances at once", n)
	}
}

// Docker's payload has a filter of system calls, and without it everything else.
func TestDockerWithoutSeccomp(t *testing.T) {
	lab := laboratory(t)
	modes := map[string]string{"docker": "2", "docker/no-seccomp": "0"}
	for _, d := range Drivers(lab) {
		mode, wanted := modes[d.Name()]
		if !wanted {
			continue
		}
		t.Cleanup(func() {
			if err := d.(driver.SessionDriver).Teardown(); err != nil {
				t.Error(err)
			}
		})
		if _, err := d.Check(t.Context()); err != nil {
			t.Fatal(err)
		}
		inst := prepareIn(t, d, lab, driver.Spec{ID: "tare-filter-" + mode, Args: []string{"/bin/busybox", "sh", "-c", `exit $(sed -n "s/^Seccomp:[^0-9]*//p" /proc/self/status)`}})
		err := inst.Start(t.Context(), func(driver.Phase) {})
		var exit driver.Exit
		if err == nil {
			exit, err = inst.Wait(t.Context())
		}
		if err = errors.Join(err, inst.Close()); err != nil || fmt.Sprint(exit.Code) != mode {
			t.Errorf("%s: seccomp mode %d, want %s: %v", d.Name(), exit.Code, mode, err)
		}
	}
}

func TestDockerCrun(t *testing.T)  { contract(t, "docker/crun", "no-such-dockerd", nil) }
func TestDockerRunsc(t *testing.T) { contract(t, "docker/runsc", "no-such-dockerd", ownKernel) }
func TestPodman(t *testing.T)      { contract(t, "podman", "no-such-podman", nil) }

func TestContainerd(t *testing.T)     { contract(t, "containerd", "no-such-containerd", nil) }
func TestContainerdCrun(t *testing.T) { contract(t, "containerd/crun", "no-such-containerd", nil) }

func TestContainerdRunsc(t *testing.T) {
	contract(t, "containerd/runsc", "no-such-containerd", ownKernel)
}

func TestPodRunc(t *testing.T) { contract(t, "cri/runc", "no-such-containerd", nil) }
func TestPodCrun(t *testing.T) { contract(t, "cri/crun", "no-such-containerd", nil) }

func TestPodYouki(t *testing.T) {
	if _, err := sys.FindProgram(laboratory(t).ToolDirs, "youki"); err != nil {
		t.Skipf("youki is not installed (make tools, with cargo): %v", err)
	}
	contract(t, "cri/youki", "no-such-containerd", nil)
}

// gVisor's shim gives itself an OOM score that takes CAP_SYS_RESOURCE.
func TestPodRunsc(t *testing.T) {
	lab := laboratory(t)
	d := named(t, lab, "cri/runsc")
	if _, err := sys.FindProgram(lab.ToolDirs, runscShim); err != nil {
		cannotWith(t, d, runscShim+" is not installed (make tools)")
		return
	}
	if has, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, unix.CAP_SYS_RESOURCE, 0, 0, 0); err != nil || has == 0 {
		cannotWith(t, d, "failed to set OOM Score on shim")
		return
	}
	contract(t, "cri/runsc", "no-such-containerd", ownKernel)
}

// startedBy is a daemon that a test starts in its own way.
type startedBy struct {
	daemon
	start func(e *engine, program, socket string) (daemonCommand, error)
}

func (d startedBy) command(e *engine, program, socket string) (daemonCommand, error) {
	return d.start(e, program, socket)
}

// without is the driver of that name, whose engine's program does not exist.
func without(lab driver.Lab, program, name string) driver.Driver {
	gone := docker()
	all := dockers
	switch {
	case name == "podman":
		gone, all = podman(), podmans
	case strings.HasPrefix(name, "containerd"):
		gone, all = containerdFlavor(), containerds
	case strings.HasPrefix(name, "cri/"):
		gone, all = criFlavor(), pods
	}
	gone.program = program
	for _, d := range all(lab, gone) {
		if d.Name() == name {
			return d
		}
	}
	return nil
}
