package engine

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"time"

	"github.com/tarelab/tare/internal/driver"
)

// docker is the engine that most people use.
func docker() flavor {
	return flavor{name: "docker", program: "dockerd", daemons: []string{"dockerd", containerdProgram}, remedy: "tare setup installs it",
		variable: "DOCKER_HOST", sockets: sockets(os.Geteuid() == 0, "docker.sock", "/var/run/docker.sock"), own: &userEngine{}, runtimes: true, proxy: "docker-proxy", daemon: dockerd()}
}

// Threads of containerd's shim for runc, and of a client that waits, and that one's
// memory; they and the drivers' descriptors are what 4 to 20 containers took at once
// of dockerd 20.10, containerd 1.6 and Podman 4.3, rounded up.
const (
	shimTasks    = 12
	clientTasks  = 10
	clientMemory = 10 << 20
)

// dockers are the drivers that one dockerd serves, and another one where crun
// needs other surroundings.
func dockers(lab driver.Lab, f flavor) []driver.Driver {
	usual := newEngine(lab, f, "docker")
	covered := usual
	if hybrid() {
		covered = newEngine(lab, f, "docker-crun")
		covered.hide = true
	}
	d := &apiDriver{engine: usual, name: "docker", start: 250 * time.Millisecond, order: 320,
		takes: driver.Footprint{Tasks: shimTasks, DaemonFiles: 7}}
	command := *d
	command.name, command.start, command.order = "docker/cli", 300*time.Millisecond, 325
	command.takes.Tasks, command.takes.Memory, command.takes.LabFiles = shimTasks+clientTasks, clientMemory, 4
	apart := *d
	apart.name, apart.network, apart.order = "docker/no-network", noNetwork, 327
	open := *d
	open.name, open.security, open.order = "docker/no-seccomp", []string{"seccomp=unconfined"}, 328
	return []driver.Driver{d, clientDriver{&command}, &apart, &open,
		d.with("docker/crun", covered, "crun", "tare setup installs it", 330),
		d.with("docker/runsc", usual, "runsc", "make tools", 340),
	}
}

// stockRuntime is the name of dockerd's own runtime, by which it takes no other.
const stockRuntime = "runc"

// socketName is how long the name of a socket may be (unix(7), sun_path).
const socketName = 107

// containerLog bounds what dockerd keeps of a container's output, by default all.
const containerLog = "16m"

// dockerPlace is where dockerd keeps its configuration and, until version 24, a key
// that it makes at its start.
const dockerPlace = "/etc/docker"

// dockerd has no name of its own among the parts of its version, "Engine", by which it
// could be known.
func dockerd() apiDaemon {
	return apiDaemon{target: "docker", title: "Docker", start: startDockerd}
}

// startDockerd starts it with nothing of the machine's configuration. It starts a
// containerd itself.
func startDockerd(e *engine, program, socket string) (daemonCommand, error) {
	dir := filepath.Dir(socket)
	// The longest that it makes; when it cannot, it waits for containerd in vain.
	if longest := filepath.Join(dir, "exec", containerdProgram, containerdProgram+".sock.ttrpc"); len(longest) > socketName {
		return daemonCommand{}, driver.Labf("a private dockerd's socket %s is %d letters long, and the kernel takes %d: choose a shorter place with --state",
			longest, len(longest), socketName)
	}
	config := filepath.Join(dir, "daemon.json")
	if err := os.WriteFile(config, []byte("{}\n"), 0o600); err != nil {
		return daemonCommand{}, driver.Labf("configuration of the engine: %w", err)
	}
	args := []string{program, "--config-file", config, "--host", "unix://" + socket,
		"--data-root", filepath.Join(dir, "root"), "--exec-root", filepath.Join(dir, "exec"), "--pidfile", filepath.Join(dir, "pid"),
		"--exec-opt", "native.cgroupdriver=cgroupfs", "--log-opt", "max-size=" + containerLog, "--cgroup-parent", "/" + path.Join(e.lab.Cgroup, e.name, "containers")}
	for name, runtime := range e.more {
		if name == stockRuntime {
			continue
		}
		if binary, err := e.find(runtime); err == nil {
			args = append(args, "--add-runtime", fmt.Sprintf("%s=%s", name, binary))
		}
	}
	return daemonCommand{args: args, starts: []string{containerdProgram}, hides: []string{containerdPrograms, dockerPlace}}, nil
}
