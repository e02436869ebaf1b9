package engine

import (
	"path/filepath"
	"time"

	"github.com/tarelab/tare/internal/sys"
	"github.com/tarelab/tare/internal/target"
)

// podman speaks Docker's API beside its own.
func podman() flavor {
	return flavor{name: "podman", program: "podman", remedy: "apt-get install podman",
		variable: "CONTAINER_HOST", sockets: []string{"/run/podman/podman.sock"}, daemon: podmanService}
}

func podmans(lab target.Lab, f flavor) []target.Driver {
	e := newEngine(lab, f, "podman")
	if trees, err := sys.Cgroups(); err == nil && trees.Mode == sys.Hybrid {
		e.hide = true // its own choice is crun where that is installed
	}
	return []target.Driver{&Driver{lab: lab, engine: e, name: "podman", adds: []string{"container"}, start: 400 * time.Millisecond, order: 350}}
}

// podmanService starts with the machine's configuration, which Podman needs for
// its policy of signatures, and with places of its own for all that it keeps.
func podmanService(e *engine, program, socket string) (daemon, error) {
	dir := filepath.Dir(socket)
	return daemon{args: []string{program, "--root", filepath.Join(dir, "root"), "--runroot", filepath.Join(dir, "runroot"),
		"--tmpdir", filepath.Join(dir, "tmp"), "--network-config-dir", filepath.Join(dir, "net"),
		"--cgroup-manager", "cgroupfs", "--events-backend", "file",
		"system", "service", "--time", "0", "unix://" + socket}}, nil
}
