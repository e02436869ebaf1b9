package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/tarelab/tare/internal/driver"
)

// withGroups is a socket before an engine's, at which the engine says that its cgroup
// driver is another one. With "none", as without root, it makes containers' groups
// where it likes, whatever it is asked.
func withGroups(t *testing.T, socket, driver string) string {
	t.Helper()
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: "engine"})
	proxy.FlushInterval = -1
	proxy.Transport = &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}
	proxy.ModifyResponse = func(r *http.Response) error {
		if !strings.HasSuffix(r.Request.URL.Path, "/info") {
			return nil
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return err
		}
		body = bytes.Replace(body, []byte(`"CgroupDriver":"cgroupfs"`), []byte(`"CgroupDriver":"`+driver+`"`), 1)
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		r.Header.Set("Content-Length", fmt.Sprint(len(body)))
		return nil
	}
	return serve(t, func(w http.ResponseWriter, r *http.Request) {
		if driver == "none" && strings.HasSuffix(r.URL.Path, "/containers/create") {
			withoutParent(t, r)
		}
		proxy.ServeHTTP(w, r)
	})
}

// withoutParent takes the parent of the container's group out of a request.
func withoutParent(t *testing.T, r *http.Request) {
	t.Helper()
	var body map[string]any
	from := json.NewDecoder(r.Body)
	from.UseNumber()
	if err := from.Decode(&body); err != nil {
		t.Error(err)
	}
	if host, ok := body["HostConfig"].(map[string]any); ok {
		delete(host, "CgroupParent")
	}
	text, err := json.Marshal(body)
	if err != nil {
		t.Error(err)
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
	r.Header.Set("Content-Length", fmt.Sprint(len(text)))
}

// holdings are the names of all containers and images of an engine.
func holdings(t *testing.T, c *client.Client) (names []string) {
	t.Helper()
	containers, err := c.ContainerList(t.Context(), client.ContainerListOptions{All: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range containers.Items {
		names = append(names, one.Names...)
	}
	images, err := c.ImageList(t.Context(), client.ImageListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range images.Items {
		names = append(names, one.RepoTags...)
	}
	slices.Sort(names)
	return names
}

// A user's own engine is used through its API alone: what is made in it carries
// our label and goes, and what was there stays.
func TestUsersOwnEngine(t *testing.T) {
	users := newTrouble(t, laboratory(t), "docker")
	if err := users.engine.up(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := users.load(t.Context(), driver.Spec{Rootfs: users.engine.lab.TestRootfs, Image: users.engine.lab.TestImage}); err != nil {
		t.Fatal(err)
	}
	socket := users.engine.socket
	c, err := connect(socket)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ours := users.engine.images[users.engine.lab.TestRootfs]
	if _, err := c.ImageTag(t.Context(), client.ImageTagOptions{Source: ours, Target: "users/own:1"}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.ContainerCreate(t.Context(), client.ContainerCreateOptions{Name: "users",
		Config: &container.Config{Image: "users/own:1", Cmd: []string{"/bin/busybox"}}}); err != nil {
		t.Fatal(err)
	}
	if err := dockerd().removeAll(t.Context(), socket, owner()); err != nil {
		t.Fatal(err)
	}
	before := holdings(t, c)
	if !slices.Equal(before, []string{"/users", "users/own:1"}) {
		t.Fatalf("the user has %q", before)
	}
	for _, name := range []string{"docker", "docker/cli"} {
		for driver, at := range map[string]string{"cgroupfs": socket, "systemd": withGroups(t, socket, "systemd"), "none": withGroups(t, socket, "none")} {
			t.Run(strings.ReplaceAll(name, "/", "-")+"-"+driver, func(t *testing.T) {
				t.Setenv("DOCKER_HOST", "unix://"+at)
				inOwn(t, c, name, driver)
				if after := holdings(t, c); !slices.Equal(after, before) {
					t.Errorf("the user has %q now, and had %q", after, before)
				}
			})
		}
	}
}

// inOwn proves a target in the engine that DOCKER_HOST names, and runs a payload
// with a limit and a group.
func inOwn(t *testing.T, c *client.Client, name, groups string) {
	t.Helper()
	lab := laboratory(t)
	lab.PrivateEngines = false
	d := named(t, lab, name)
	facts, err := d.Check(t.Context())
	if err != nil || !strings.HasPrefix(facts.Notes["engine"], "the user's own at ") || facts.Notes["cgroups"] != groups || facts.Notes[driver.NoteUnread] == "" {
		t.Fatalf("%v: %v", facts.Notes, err)
	}
	if elsewhere := strings.HasPrefix(facts.Notes[driver.NoteUnread], "containers, "); elsewhere != (groups != "cgroupfs") {
		t.Errorf("with %s nobody can read %s", groups, facts.Notes[driver.NoteUnread])
	}
	note := filepath.Join(lab.RunDir, "docker.json")
	if _, err := os.Stat(note); err != nil {
		t.Errorf("a sweep after a kill would not find what is made there: %v", err)
	}
	const id = "tare-in-own"
	inst := prepareIn(t, d, lab, driver.Spec{ID: id, Args: []string{"/bin/busybox", "sh", "-c", "exit 7"}, Limits: driver.Limits{Pids: 50}})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var shared []string
	for _, w := range inst.Watch() {
		if w.Role == driver.RoleShared {
			shared = append(shared, comm(w.PID))
		}
		if w.Role == driver.RolePayload && (w.Cgroup != "") != (groups == "cgroupfs") {
			t.Errorf("with %s the payload is watched in the group %q", groups, w.Cgroup)
		}
	}
	if !slices.Contains(shared, "dockerd") {
		t.Errorf("of the user's daemons %q are watched", shared)
	}
	err = inst.Start(ctx, func(driver.Phase) {})
	var exit driver.Exit
	if err == nil {
		exit, err = inst.Wait(ctx)
	}
	if err != nil || exit.Code != 7 {
		t.Errorf("%+v, %v", exit, err)
	}
	made, err := c.ContainerInspect(ctx, id, client.ContainerInspectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := made.Container.Config.Labels[labelKey]; got != owner() {
		t.Errorf("it carries the label %q", got)
	}
	if placed := made.Container.HostConfig.CgroupParent != ""; placed != (groups == "cgroupfs") {
		t.Errorf("with %s its group's parent is %q", groups, made.Container.HostConfig.CgroupParent)
	}
	for _, end := range []func() error{inst.Close, d.(driver.SessionDriver).Teardown} {
		if err := end(); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(note); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("nothing is left there, and the note of it is: %v", err)
	}
}

// Without root an engine of the user's own listens below $XDG_RUNTIME_DIR.
func TestSocketsWithoutRoot(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", "/run/user/7")
	if got := sockets(false, "docker.sock", "/usual"); !slices.Equal(got, []string{"/run/user/7/docker.sock", "/usual"}) {
		t.Errorf("without root: %q", got)
	}
	if got := sockets(true, "docker.sock", "/usual"); !slices.Equal(got, []string{"/usual"}) {
		t.Errorf("as root: %q", got)
	}
	t.Setenv("XDG_RUNTIME_DIR", "")
	if got := sockets(false, "docker.sock", "/usual"); !slices.Equal(got, []string{"/usual"}) {
		t.Errorf("without a directory: %q", got)
	}
}

// A socket that is there and does not serve is asked once, and who looks for an
// engine is told why it was not taken.
func TestSocketThatDoesNotServe(t *testing.T) {
	var asked atomic.Int64
	f := docker()
	t.Setenv(f.variable, "")
	f.program = "no-such-dockerd"
	f.sockets = []string{filepath.Join(t.TempDir(), "nothing"), serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		http.NotFound(w, r)
	})}
	all := dockers(driver.Lab{}, f)
	_, err := all[0].Check(t.Context())
	if err == nil || !strings.Contains(err.Error(), "no-such-dockerd is not installed, and ") || !strings.Contains(err.Error(), f.sockets[1]) {
		t.Errorf("%v; want why %s does not serve", err, f.sockets[1])
	}
	for _, d := range all {
		d.(driver.Staler).Stale(driver.Facts{Notes: map[string]string{noteEngine: privateEngine}})
	}
	if n := asked.Load(); n == 0 || n > 4 { // a ping is up to two requests, of two versions
		t.Errorf("it was asked %d times", n)
	}
}
