package engine

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/moby/moby/api/types/container"
	"golang.org/x/sys/unix"

	"github.com/tarelab/tare/internal/driver"
)

// podman speaks Docker's API beside its own.
func podman() flavor {
	return flavor{name: "podman", program: "podman", daemons: []string{"podman"}, remedy: "tare setup installs it",
		variable: "CONTAINER_HOST", sockets: sockets(os.Geteuid() == 0, "podman/podman.sock", "/run/podman/podman.sock"), own: &userEngine{}, daemon: podmanService(), monitor: "conmon"}
}

func podmans(lab driver.Lab, f flavor) []driver.Driver {
	e := newEngine(lab, f, "podman")
	e.hide = hybrid() // its own choice is crun where that is installed
	return []driver.Driver{&apiDriver{engine: e, name: "podman", adds: []string{"container", "HOSTNAME", "TERM"}, limits: ownLimits(), start: 400 * time.Millisecond, order: 350,
		takes: driver.Footprint{Tasks: 1, DaemonFiles: 7}}} // conmon
}

// podmanConfig has the monitor of an exec stay for a second after it, not for five minutes:
// it is in the container's group, and with it there Podman cannot remove the container. It
// does not have published ports bound by the engine as well: Podman 5 does so before the
// first container of a network has brought up its address.
const podmanConfig = "[engine]\nexit_command_delay = 1\nenable_port_reservation = false\n"

// podmanState is where Podman keeps what lasts until a boot.
const podmanState = "/run/containers"

func podmanService() apiDaemon {
	return apiDaemon{target: "podman", title: "Podman", component: "Podman Engine", start: startPodman}
}

// startPodman starts the service with places of its own for all that it keeps; /run is the
// engine's own, and paths in it are short, as Podman demands. Its cache and that
// of its network plugins have fixed places in /var/lib. Files that it names in its
// environment stand for the machine's configuration (containers.conf(5),
// containers-storage.conf(5)); who may be trusted for images (policy.json) is the
// machine's, for which there is no such name.
func startPodman(_ *engine, program, socket string) (daemonCommand, error) {
	dir := filepath.Dir(socket)
	root, temporary := filepath.Join(dir, "root"), filepath.Join(dir, "tmp")
	env := []string{"TMPDIR=" + temporary}
	for _, file := range []struct{ variable, name, text string }{
		{"CONTAINERS_CONF", "containers.conf", podmanConfig},
		{"CONTAINERS_STORAGE_CONF", "storage.conf", fmt.Sprintf("[storage]\ngraphroot = %q\nrunroot = %q\n", root, podmanState)},
	} {
		path := filepath.Join(dir, file.name)
		if err := os.WriteFile(path, []byte(file.text), 0o600); err != nil {
			return daemonCommand{}, driver.Labf("configuration of the engine: %w", err)
		}
		env = append(env, file.variable+"="+path)
	}
	if err := os.Mkdir(temporary, 0o700); err != nil {
		return daemonCommand{}, driver.Labf("temporary files of the engine: %w", err)
	}
	return daemonCommand{covers: []string{"/var/lib"}, env: env, args: []string{program, "--root", root,
		"--runroot", podmanState, "--tmpdir", "/run/libpod",
		"--network-config-dir", filepath.Join(dir, "net"), "--cgroup-manager", "cgroupfs", "--events-backend", "file", "--log-level", "info",
		"system", "service", "--time", "0", "unix://" + socket}}, nil
}

// ownLimits are the limits of open files and processes that tare itself has, and
// every other target with it. Podman would raise them to values that not every
// root may set. It bounds its own number of processes by the machine's process
// ids, and so what its containers may have.
func ownLimits() []*container.Ulimit {
	most := int64(math.MaxInt64)
	if text, err := os.ReadFile("/proc/sys/kernel/pid_max"); err == nil {
		if n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil {
			most = n
		}
	}
	var files, processes unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &files) != nil || unix.Getrlimit(unix.RLIMIT_NPROC, &processes) != nil {
		return nil // then they are Podman's
	}
	limit := func(name string, l unix.Rlimit, most int64) *container.Ulimit {
		bound := func(n uint64) int64 { return int64(min(n, uint64(most))) }
		return &container.Ulimit{Name: name, Soft: bound(l.Cur), Hard: bound(l.Max)}
	}
	return []*container.Ulimit{limit("nofile", files, math.MaxInt64), limit("nproc", processes, most)}
}
