package engine

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
	"golang.org/x/sys/unix"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/sys"
)

// serve answers at a socket as it is told.
func serve(t *testing.T, answer http.HandlerFunc) (socket string) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "socket")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: answer, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }() // ends with Close
	t.Cleanup(func() { server.Close() })
	return socket
}

// cannotWith sees that the driver refuses, as one that cannot work here, with
// these words.
func cannotWith(t *testing.T, d driver.Driver, words string) {
	t.Helper()
	_, err := d.Check(t.Context())
	var cannot *driver.CannotError
	if !errors.As(err, &cannot) || !strings.Contains(err.Error(), words) {
		t.Errorf("%s: %v; want that it cannot run here, with %q", d.Name(), err, words)
	}
	if err := d.(driver.SessionDriver).Teardown(); err != nil {
		t.Error(err)
	}
}

func TestNoEngine(t *testing.T) {
	socket := serve(t, http.NotFound)
	for variable, name := range map[string]string{"DOCKER_HOST": "docker", "CONTAINER_HOST": "podman", "CONTAINERD_ADDRESS": "containerd", "CONTAINER_RUNTIME_ENDPOINT": "cri/runc"} {
		lab := laboratory(t)
		lab.PrivateEngines = false
		t.Setenv(variable, "unix://"+socket)
		cannotWith(t, named(t, lab, name), "at "+variable+"=unix://"+socket)
		t.Setenv(variable, "unix://"+filepath.Join(t.TempDir(), "nothing"))
		cannotWith(t, named(t, lab, name), "at "+variable)
	}
}

func TestOldEngine(t *testing.T) {
	lab := laboratory(t)
	lab.PrivateEngines = false
	t.Setenv("DOCKER_HOST", "unix://"+serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Api-Version", "1.12")
		w.Header().Set("Server", "Docker/1.0.0 (linux)")
		if !strings.HasSuffix(r.URL.Path, "/_ping") {
			w.WriteHeader(http.StatusBadRequest)
		}
	}))
	cannotWith(t, named(t, lab, "docker"), "1.12")
}

// saying is an engine that answers everything with the same text.
func saying(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Api-Version", "1.44")
		fmt.Fprint(w, text)
	}
}

// Podman in Docker's place is not weighed as Docker, nor Docker as Podman.
func TestPodmanIsNoDocker(t *testing.T) {
	podman := serve(t, saying(`{"Components":[{"Name":"Podman Engine","Version":"4.3.1"},{"Name":"Conmon"}]}`))
	docker := serve(t, saying(`{"Components":[{"Name":"Engine","Version":"20.10.24"},{"Name":"containerd"}]}`))
	for _, c := range []struct{ variable, name, socket, words string }{
		{"DOCKER_HOST", "docker", podman, podman + " is Podman"},
		{"CONTAINER_HOST", "podman", docker, docker + " is another engine than Podman"},
	} {
		lab := laboratory(t)
		lab.PrivateEngines = false
		t.Setenv(c.variable, "unix://"+c.socket)
		cannotWith(t, named(t, lab, c.name), c.words)
	}
	if err := dockerd().answers(t.Context(), docker); err != nil {
		t.Error(err)
	}
	if err := podmanService().answers(t.Context(), podman); err != nil {
		t.Error(err)
	}
}

// A kept check holds for the engine that it was made with: a private one of the same
// binary, as long as no engine of the user's own answers.
func TestChecksOfAnotherEngineAreStale(t *testing.T) {
	private := func(daemon, digest string) driver.Facts {
		return driver.Facts{Notes: map[string]string{noteEngine: privateEngine, "daemon": daemon, noteDaemonDigest: digest}}
	}
	program, err := sys.FindProgram(nil, "sh")
	if err != nil {
		t.Fatal(err)
	}
	digest, err := sys.FileDigest(program)
	if err != nil {
		t.Fatal(err)
	}
	answers := serve(t, saying(`{}`))
	for name, c := range map[string]struct {
		found   driver.Facts
		socket  string // at which the user's own answers
		private bool   // as the user asks
		stale   bool   // of the engine's API, of its client
	}{
		"the same private engine":           {private(program, digest), "", false, false},
		"the user's own answers now":        {private(program, digest), answers, false, true},
		"the user's own is named, and dead": {private(program, digest), "/no/socket", false, true},
		"the user's own is left alone":      {private(program, digest), answers, true, false},
		"it was the user's own":             {driver.Facts{Notes: map[string]string{noteEngine: "the user's own at /run/s"}}, "", true, true},
		"nothing is known of it":            {driver.Facts{}, "", false, true},
	} {
		t.Setenv("DOCKER_HOST", "")
		if c.socket != "" {
			t.Setenv("DOCKER_HOST", "unix://"+c.socket)
		}
		f := docker()
		f.program, f.sockets = "sh", nil
		for _, d := range dockers(driver.Lab{PrivateEngines: c.private}, f) {
			if got := d.(driver.Staler).Stale(c.found); got != c.stale {
				t.Errorf("%s, %s: stale is %t", name, d.Name(), got)
			}
		}
	}
	t.Setenv("DOCKER_HOST", "")
	f := docker()
	f.program, f.sockets = "sh", nil
	for _, found := range []driver.Facts{private(program, "another"), private("/another/dockerd", digest)} {
		if d := dockers(driver.Lab{}, f)[1].(clientDriver); !d.Stale(found) {
			t.Errorf("%s with another daemon: %v", d.Name(), found.Notes)
		}
	}
}

// Containers are removed some at once, and all of them, whatever the engine says of
// one.
func TestTidyingRemovesSomeAtOnce(t *testing.T) {
	const containers = 3 * tidyWidth
	var list []string
	for i := range containers {
		list = append(list, fmt.Sprintf(`{"Id":"%d"}`, i))
	}
	var under, most, removed atomic.Int64
	var once sync.Once
	full := make(chan struct{}) // closed when as many are under way as may be
	socket := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Api-Version", "1.44")
		switch {
		case strings.HasSuffix(r.URL.Path, "/containers/json"):
			fmt.Fprintf(w, "[%s]", strings.Join(list, ","))
		case r.Method != http.MethodDelete:
			fmt.Fprint(w, "[]")
		case removed.Add(1) == containers:
			http.Error(w, `{"message":"it is stuck"}`, http.StatusInternalServerError)
		default:
			n := under.Add(1)
			for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
			}
			if n == tidyWidth {
				once.Do(func() { close(full) })
			}
			select {
			case <-full:
			case <-time.After(10 * time.Second): // one after another
			}
			under.Add(-1)
		}
	})
	if err := dockerd().removeAll(t.Context(), socket, "nobody"); err == nil || !strings.Contains(err.Error(), "it is stuck") {
		t.Errorf("%v; want what the engine said of one", err)
	}
	if removed.Load() != containers || most.Load() != tidyWidth {
		t.Errorf("%d were removed, at most %d at once", removed.Load(), most.Load())
	}
}

// What an engine does not remove is its fault, not the laboratory's.
func TestUnremoved(t *testing.T) {
	e := newEngine(driver.Lab{}, docker(), "docker")
	e.socket = serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Api-Version", "1.44")
		if r.Method == http.MethodDelete {
			http.Error(w, `{"message":"it is stuck"}`, http.StatusInternalServerError)
		}
	})
	c, err := clientOf(e, connect)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := clientOf(e, connect); err != nil || again != c {
		t.Errorf("the second container is asked for by another client: %v", err)
	}
	err = (&instance{driver: &apiDriver{engine: e}, client: c, spec: driver.Spec{ID: "tare-stuck"}, created: true}).remove()
	if !errors.As(err, new(*driver.RemovalError)) {
		t.Errorf("%v is no RemovalError", err)
	}
	blamed(t, err, "it is stuck")
}

// A user's own engine that has hung has another chance when it removes what is left
// of the trial that met it.
func TestRenewedOwnEngine(t *testing.T) {
	var stuck atomic.Bool
	var removed atomic.Int64
	e := newEngine(driver.Lab{}, docker(), "docker")
	e.socket = serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Api-Version", "1.44")
		switch {
		case stuck.Load():
			http.Error(w, `{"message":"it is stuck"}`, http.StatusInternalServerError)
		case r.Method == http.MethodDelete:
			removed.Add(1)
		case strings.HasSuffix(r.URL.Path, "/containers/json"):
			fmt.Fprint(w, `[{"Id":"left"}]`)
		}
	})
	e.watchdog.hang(errors.New("it sleeps"))
	stuck.Store(true)
	blamed(t, e.up(t.Context()), "it is stuck")
	stuck.Store(false)
	if err := e.up(t.Context()); err != nil || removed.Load() != 1 {
		t.Errorf("%v, %d containers removed", err, removed.Load())
	}
}

// trouble is a private dockerd, and payloads that sleep in it.
type trouble struct {
	*apiDriver
	of driver.Driver // by which the payload is started
}

func newTrouble(t *testing.T, lab driver.Lab, name string) trouble {
	t.Helper()
	of := named(t, lab, name)
	t.Cleanup(func() {
		if err := of.(driver.SessionDriver).Teardown(); err != nil {
			t.Error(err)
		}
	})
	if cli, ok := of.(clientDriver); ok {
		return trouble{cli.apiDriver, of}
	}
	return trouble{of.(*apiDriver), of}
}

func (d trouble) prepare(t *testing.T, id string) driver.Instance {
	t.Helper()
	dir := t.TempDir()
	inst, err := d.of.Prepare(t.Context(), driver.Spec{ID: id, Rootfs: d.engine.lab.TestRootfs, Image: d.engine.lab.TestImage,
		Args: []string{"/bin/busybox", "sleep", "600"}, Env: []string{"PATH=/bin"}}, dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := inst.Close(); err != nil {
			t.Errorf("close %s: %v", id, err)
		}
	})
	return inst
}

// run is what the start and the end of a payload tell.
func run(ctx context.Context, inst driver.Instance) error {
	err := inst.Start(ctx, func(driver.Phase) {})
	if err == nil {
		_, err = inst.Wait(ctx)
	}
	return err
}

// blamed sees that an error is the target's and has these words.
func blamed(t *testing.T, err error, words string) {
	t.Helper()
	if err == nil || driver.IsLab(err) || !strings.Contains(err.Error(), words) {
		t.Errorf("%v; want an error of the target's with %q", err, words)
	}
}

func TestEngineDies(t *testing.T) {
	trees, err := sys.Cgroups()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"docker", "docker/cli"} {
		d := newTrouble(t, laboratory(t), name)
		inst := d.prepare(t, "tare-dies")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		ended := make(chan error, 1)
		go func() { ended <- run(ctx, inst) }()
		if err := unix.Kill(d.engine.private.pid, unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
		blamed(t, <-ended, "the dockerd that tare has started has ended (killed by signal 9)")
		p := d.engine.private
		p.awaited.Wait()
		if pids, err := trees.PIDs(path.Dir(p.cgroup)); err != nil || len(pids) > 0 {
			t.Errorf("%s: its containerd and shims go on after it: %v, %v", name, pids, err)
		}
		if _, err := d.of.Prepare(ctx, driver.Spec{ID: "tare-later", Rootfs: d.engine.lab.TestRootfs}, t.TempDir()); err == nil || driver.IsLab(err) {
			t.Errorf("after its engine's death: %v", err)
		}
	}
}

func TestNameAndImage(t *testing.T) {
	lab := laboratory(t)
	for _, name := range []string{"docker", "docker/cli"} {
		d := newTrouble(t, lab, name)
		inst := d.prepare(t, "tare-clash")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		c, err := connect(d.engine.socket)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		made, err := c.ContainerCreate(ctx, client.ContainerCreateOptions{Name: "tare-clash",
			Config: &container.Config{Image: d.engine.images[lab.TestRootfs], Cmd: []string{"/bin/busybox"}}})
		if err != nil {
			t.Fatal(err)
		}
		if err := run(ctx, inst); err == nil || driver.IsLab(err) {
			t.Errorf("%s: a start under a name that is taken: %v", name, err)
		}
		if err := inst.Close(); err != nil {
			t.Error(err)
		}
		if _, err := c.ContainerInspect(ctx, made.ID, client.ContainerInspectOptions{}); err != nil {
			t.Errorf("%s: the user's container of this name: %v", name, err)
		}
		inst = d.prepare(t, "tare-imageless")
		if _, err := c.ContainerRemove(ctx, made.ID, client.ContainerRemoveOptions{Force: true}); err != nil {
			t.Fatal(err)
		}
		if _, err := c.ImageRemove(ctx, d.engine.images[lab.TestRootfs], client.ImageRemoveOptions{Force: true}); err != nil {
			t.Fatal(err)
		}
		if err := run(ctx, inst); err == nil || driver.IsLab(err) {
			t.Errorf("%s: a start without its image: %v", name, err)
		}
		if err := inst.Close(); err != nil {
			t.Error(err)
		}
		if err := d.of.(driver.SessionDriver).Teardown(); err != nil {
			t.Error(err)
		}
	}
}

// The root is on a file system that takes the engine's own files and half of
// the image.
func TestFullDisk(t *testing.T) {
	f := docker()
	f.daemon = startedBy{f.daemon, func(e *engine, program, socket string) (daemonCommand, error) {
		root := filepath.Join(filepath.Dir(socket), "root")
		if err := errors.Join(os.Mkdir(root, 0o700), unix.Mount("tare", root, "tmpfs", 0, "size=1500k")); err != nil {
			return daemonCommand{}, err
		}
		return startDockerd(e, program, socket)
	}}
	d := dockers(laboratory(t), f)[0]
	_, err := d.Check(t.Context())
	var cannot *driver.CannotError
	if !errors.As(err, &cannot) || !strings.Contains(cannot.Lacks, notLoaded) || !strings.Contains(cannot.Lacks, "no space left on device") {
		t.Errorf("on a full disk: %v; want that docker cannot run here, since it could not load the image", err)
	}
	if err := d.(driver.SessionDriver).Teardown(); err != nil {
		t.Error(err)
	}
}

// A place whose sockets' names would be too long is refused before the daemon starts.
func TestLongNamesOfSockets(t *testing.T) {
	socket := filepath.Join("/", strings.Repeat("a", 80), "socket")
	if _, err := startDockerd(&engine{}, "dockerd", socket); err == nil || !strings.Contains(err.Error(), "choose a shorter place with --state") {
		t.Errorf("a directory of 81 letters: %v", err)
	}
}

// A private engine that does not come up cannot run here, by the table of exit codes.
func TestEngineThatDoesNotComeUp(t *testing.T) {
	f := docker()
	f.daemon = startedBy{f.daemon, func(*engine, string, string) (daemonCommand, error) {
		return daemonCommand{args: []string{"/bin/sh", "-c", "echo it failed >&2; exit 1"}}, nil
	}}
	d := dockers(laboratory(t), f)[0]
	cannotWith(t, d, "a private dockerd: it ended before it answered; it said: it failed")
}
