package engine

import (
	"context"
	"path"

	"github.com/tarelab/tare/internal/driver"
)

// WithDocker is a driver of this machine itself that leaves payloads which start
// containers themselves to the machine's Docker.
func WithDocker(machine driver.Driver, lab driver.Lab) driver.Driver {
	usual := newEngine(lab, docker(), "docker-host")
	return &hoster{machine, clientDriver{&apiDriver{engine: usual, name: machine.Name()}}}
}

type hoster struct {
	driver.Driver
	docker clientDriver
}

// Unwrap implements driver.Decorator.
func (h *hoster) Unwrap() driver.Driver { return h.Driver }

// Prepare implements driver.Driver.
func (h *hoster) Prepare(ctx context.Context, spec driver.Spec, dir string) (driver.Instance, error) {
	if spec.Beside {
		return h.docker.Prepare(ctx, spec, dir)
	}
	return h.Driver.Prepare(ctx, spec, dir)
}

// CheckHost implements driver.Hoster.
func (h *hoster) CheckHost(ctx context.Context) error {
	_, err := h.docker.Check(ctx)
	return err
}

// Setup implements driver.SessionDriver. It starts nothing: only payloads that start
// containers themselves need Docker, and CheckHost has then started it.
func (h *hoster) Setup(context.Context, driver.Spec) error { return nil }

// Teardown implements driver.SessionDriver.
func (h *hoster) Teardown() error { return h.docker.Teardown() }

// Sweep implements driver.Sweeper.
func (h *hoster) Sweep(ctx context.Context, runDir string) ([]string, error) {
	return h.docker.Sweep(ctx, runDir)
}

// beside is the environment of a payload beside the engine. Its containers are in
// the instance's group, with which they end.
func (i *instance) beside() []string {
	flags := "--label " + labelKey + "=" + owner()
	if i.spec.Cgroup != "" {
		flags += " --cgroup-parent " + path.Join("/", i.payloadGroup())
	}
	return []string{"DOCKER_HOST=unix://" + i.driver.engine.socket,
		driver.EnvImage + "=" + i.image, driver.EnvTool + "=" + i.spec.Tool, driver.EnvFlags + "=" + flags}
}
