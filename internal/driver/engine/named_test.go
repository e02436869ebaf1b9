package engine

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/tarelab/tare/internal/driver"
)

// Any runtime is a target by its name, where there is what the name says.
func TestRuntimesByName(t *testing.T) {
	tools := t.TempDir()
	if err := os.WriteFile(filepath.Join(tools, "my-runc"), nil, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("DOCKER_HOST", "unix://"+serve(t, saying(`{"Runtimes":{"users-own":{"path":"/users/own"}}}`)))
	lab := driver.Lab{ToolDirs: []string{tools}}
	for name, found := range map[string]bool{
		"containerd/my-runc":                       true,
		"containerd/io.containerd.nothing-here.v9": true,
		"containerd/nothing-here":                  false,
		"containerd/../sh":                         false,
		"containerd/crun/my-runc":                  false,
		"docker/my-runc":                           true,
		"docker/users-own":                         true,
		"docker/nothing-here":                      false,
		"docker/cli/my-runc":                       false,
		"podman/my-runc":                           false,
		"cri/my-runc":                              true,
		"cri/io.containerd.nothing-here.v9":        true,
		"cri/nothing-here":                         false,
		"cri/crun/my-runc":                         false,
	} {
		var got []driver.Driver
		for _, d := range Drivers(lab) {
			if namer, ok := d.(driver.Namer); ok {
				if by := namer.Named(t.Context(), name); by != nil {
					got = append(got, by)
				}
			}
		}
		if (len(got) == 1) != found || len(got) > 1 {
			t.Errorf("%s: %d drivers", name, len(got))
		}
		if found && len(got) == 1 && got[0].Name() != name {
			t.Errorf("%s is called %s", name, got[0].Name())
		}
	}
	shimless := named(t, lab, "containerd").(driver.Namer).Named(t.Context(), "containerd/io.containerd.nothing-here.v9")
	cannotWith(t, shimless, "containerd-shim-nothing-here-v9 is not installed")
	lab.PrivateEngines = true
	if d := named(t, lab, "docker").(driver.Namer).Named(t.Context(), "docker/users-own"); d != nil {
		t.Error("a private engine would know the user's own runtimes")
	}
}

// A handler by its whole name, and a runtime by that of its binary, run payloads in
// private engines.
func TestNamedRuntimesRun(t *testing.T) {
	for name, by := range map[string]string{"containerd/io.containerd.runc.v2": "containerd", "containerd/runc": "containerd", "docker/runc": "docker"} {
		d := named(t, laboratory(t), by).(driver.Namer).Named(t.Context(), name)
		if d == nil {
			t.Errorf("no %s", name)
			continue
		}
		if facts, err := d.Check(t.Context()); err != nil {
			t.Errorf("%s: %+v: %v", name, facts, err)
		}
		if err := d.(driver.SessionDriver).Teardown(); err != nil {
			t.Error(err)
		}
	}
}
