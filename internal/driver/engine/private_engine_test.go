package engine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/driver/drivertest"
	"github.com/tarelab/tare/internal/sys"
)

// engines are what the names of engines' own places hold.
var engines = regexp.MustCompile("containerd|docker|podman|containers|libpod|cni")

// listed are the engines' entries in the places where they keep files, two levels
// deep: others work on this machine, too.
func listed(t *testing.T) (all []string) {
	t.Helper()
	for _, dir := range []string{"/opt", "/etc", "/var/lib", "/run"} {
		for _, pattern := range []string{"*", "*/*"} {
			found, err := filepath.Glob(filepath.Join(dir, pattern))
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, slices.DeleteFunc(found, func(file string) bool { return !engines.MatchString(file) })...)
		}
	}
	return all
}

// A private engine makes no file in the machine's own places, nor does it see what
// lies there: neither programs that would be taken for the runtime, nor a key.
func TestPrivateEnginesLeaveNoFiles(t *testing.T) {
	for name, hidden := range map[string][]string{
		"docker": {containerdPrograms, dockerPlace}, "containerd": {containerdPrograms}, "podman": nil, "cri/runc": {containerdPrograms, cniState},
	} {
		before := listed(t)
		d := named(t, laboratory(t), name)
		if _, err := d.Check(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, dir := range hidden {
			inside, err := os.Stat(fmt.Sprintf("/proc/%d/root%s", privateOf(t, d).pid, dir))
			if err != nil {
				t.Errorf("%s has no %s: %v", name, dir, err)
				continue
			}
			if machines, err := os.Stat(dir); err == nil && os.SameFile(inside, machines) {
				t.Errorf("%s works in the machine's own %s", name, dir)
			}
		}
		if err := d.(driver.SessionDriver).Teardown(); err != nil {
			t.Error(err)
		}
		for _, file := range listed(t) {
			if !slices.Contains(before, file) {
				t.Errorf("%s has left %s", name, file)
			}
		}
	}
}

// engineOf is a driver's.
func engineOf(t *testing.T, d driver.Driver) *engine {
	t.Helper()
	switch d := d.(type) {
	case *apiDriver:
		return d.engine
	case *containerdDriver:
		return d.engine.engine
	case *podDriver:
		return d.engine.engine
	}
	t.Fatalf("%s has no engine", d.Name())
	return nil
}

// privateOf is the private engine that serves a driver.
func privateOf(t *testing.T, d driver.Driver) *private {
	t.Helper()
	p := engineOf(t, d).private
	if p == nil {
		t.Fatalf("%s has no private engine", d.Name())
	}
	return p
}

// A place that the machine does not have is there for the engine alone.
func TestPrivateEngineMakesMissingPlaces(t *testing.T) {
	missing := "/opt/" + drivertest.Token(t)
	f := containerdFlavor()
	f.daemon = startedBy{f.daemon, func(e *engine, program, socket string) (daemonCommand, error) {
		d, err := containerdDaemon{}.command(e, program, socket)
		d.hides = append(d.hides, missing)
		return d, err
	}}
	d := containerds(laboratory(t), f)[0].(*containerdDriver)
	if err := d.engine.up(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(fmt.Sprintf("/proc/%d/root%s", d.engine.private.pid, missing)); err != nil {
		t.Errorf("the engine has no %s: %v", missing, err)
	}
	if err := d.Teardown(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(missing); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the machine has %s: %v", missing, err)
	}
}

// A private engine works on the CPUs of the level whose containers it starts, also where
// it is started while tare itself is bound to fewer.
func TestPrivateEngineHasTheCPUsOfALevel(t *testing.T) {
	d := containerds(laboratory(t), containerdFlavor())[0].(*containerdDriver)
	allowed, err := sys.AllowedCPUs()
	if err != nil {
		t.Fatal(err)
	}
	if err := sys.UseCPUs(allowed[:1]); err != nil {
		t.Fatal(err)
	}
	err = d.engine.up(t.Context())
	if err := sys.UseCPUs(allowed); err != nil {
		t.Fatal(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	all, one := sys.FormatCPUs(allowed), strconv.Itoa(allowed[0])
	for _, c := range []struct{ level, want string }{{"", all}, {one, one}, {one, one}, {"", all}} {
		if err := d.Bind(c.level); err != nil {
			t.Fatal(err)
		}
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", d.engine.private.pid))
		if err != nil || !strings.Contains(string(status), "Cpus_allowed_list:\t"+c.want+"\n") {
			t.Errorf("at the level %q the daemon may not use %s: %s, %v", c.level, c.want, status, err)
		}
	}
	if err := d.Teardown(); err != nil {
		t.Error(err)
	}
}

// A place that an engine gets a file system of its own at is refused for its files.
func TestPrivateEngineRefusesHiddenPlaces(t *testing.T) {
	for _, session := range []string{"/run/tare/s1", "/dev/shm/s1", "/etc/docker/s1", "/etc/docker"} {
		if _, err := surroundings(session, daemonCommand{hides: []string{dockerPlace}}); !driver.IsLab(err) {
			t.Errorf("%s: %v", session, err)
		}
	}
	if _, err := surroundings("/etc/docker-files/s1", daemonCommand{hides: []string{dockerPlace}}); err != nil {
		t.Error(err)
	}
}

// A private Podman reads neither containers.conf nor storage.conf of the machine, and
// has its temporary files among its own.
func TestPodmanReadsItsOwnConfiguration(t *testing.T) {
	dir := t.TempDir()
	d, err := startPodman(&engine{}, "podman", filepath.Join(dir, "api.sock"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"CONTAINERS_CONF", "CONTAINERS_STORAGE_CONF", "TMPDIR"} {
		i := slices.IndexFunc(d.env, func(pair string) bool { return strings.HasPrefix(pair, name+"="+dir+"/") })
		if i < 0 {
			t.Errorf("%s is not among %q", name, d.env)
			continue
		}
		if _, err := os.Stat(strings.TrimPrefix(d.env[i], name+"=")); err != nil {
			t.Error(err)
		}
	}
}
