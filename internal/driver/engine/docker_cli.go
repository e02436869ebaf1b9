package engine

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/moby/moby/client"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/driver/launch"
	"github.com/tarelab/tare/internal/sys"
)

// clientDriver runs payloads by Docker's own command line client, "docker run".
type clientDriver struct{ *apiDriver }

// Locate implements driver.Located: the client's binary.
func (d clientDriver) Locate() (string, error) { return d.engine.find("docker") }

// Stale implements driver.Staler: what a check found may be of another engine, or
// of another binary of its daemon.
func (d clientDriver) Stale(found driver.Facts) bool {
	if d.apiDriver.Stale(found) {
		return true
	}
	daemon, err := d.apiDriver.Locate()
	if err != nil || daemon != found.Notes["daemon"] {
		return true
	}
	digest, err := sys.FileDigest(daemon)
	return err != nil || digest != found.Notes[noteDaemonDigest]
}

// Check implements driver.Driver.
func (d clientDriver) Check(ctx context.Context) (driver.Facts, error) {
	program, err := d.Locate()
	if err != nil {
		return driver.Facts{}, d.lacks()
	}
	facts, err := d.check(ctx, d)
	if err != nil {
		return facts, err
	}
	facts.Notes["daemon"], facts.Notes[noteDaemonDigest] = facts.Path, facts.Digest
	facts.Path = program
	if facts.Digest, err = sys.FileDigest(program); err != nil {
		return facts, driver.Labf("digest of %s: %w", program, err)
	}
	return facts, nil
}

func (d clientDriver) lacks() error {
	return &driver.CannotError{Target: d.name, Lacks: "the client docker is not installed", Remedy: "tare setup installs it"}
}

// Prepare implements driver.Driver: a launcher stands ready to become the
// client, in a group of its own.
func (d clientDriver) Prepare(ctx context.Context, spec driver.Spec, dir string) (driver.Instance, error) {
	program, err := d.Locate()
	if err != nil {
		return nil, d.lacks()
	}
	inst, err := d.apiDriver.Prepare(ctx, spec, dir)
	if err != nil {
		return nil, err
	}
	// A directory without the user's configuration.
	i := &command{instance: inst.(*instance), dir: dir, env: append(environment(d.engine.lab), "DOCKER_CONFIG="+dir)}
	spec = i.spec
	config := launch.Config{Launcher: d.engine.lab.LaunchPath, Stdio: spec.Stdio, Args: i.arguments(program), Env: slices.Clone(i.env)}
	if spec.Beside {
		config.Args, config.Env = spec.Args, append(config.Env, i.beside()...)
	}
	if spec.Cgroup != "" {
		config.Cgroup = i.clientGroup()
		if spec.ClientCgroup == "" {
			err = sys.MakeCgroup(config.Cgroup)
		}
	}
	if err == nil {
		i.process, err = launch.New(ctx, config)
	}
	if err != nil {
		return nil, errors.Join(err, i.Close())
	}
	return i, nil
}

// command is one "docker run".
type command struct {
	*instance
	dir     string   // of the instance
	env     []string // of the client
	process *launch.Process
	once    sync.Once
	err     error
	stop    func() bool
}

func (i *command) clientGroup() string {
	if i.spec.ClientCgroup != "" {
		return i.spec.ClientCgroup
	}
	return i.spec.Group(driver.RoleClient)
}

// arguments are the Spec in the client's flags.
func (i *command) arguments(program string) []string {
	s := i.spec
	args := []string{program, "--host", "unix://" + i.driver.engine.socket, "run", "--name", s.ID, "--pull", "never",
		"--label", labelKey + "=" + owner(), "--env", "HOSTNAME", "--entrypoint", s.Args[0], "--workdir", "/"}
	if s.Cwd != "" {
		args[len(args)-1] = s.Cwd
	}
	if s.Stdio.Stdin != nil {
		args = append(args, "--interactive")
	}
	for _, e := range s.Env {
		args = append(args, "--env", e)
	}
	if s.User != (driver.User{}) {
		args = append(args, "--user", fmt.Sprintf("%d:%d", s.User.UID, s.User.GID))
	}
	if s.Cgroup != "" {
		args = append(args, "--cgroup-parent", path.Join("/", i.payloadGroup()))
	}
	for _, m := range s.Mounts {
		args = append(args, "--mount", bindFlag(m))
	}
	args = append(args, limitFlags(s.Limits)...)
	args = append(args, joinFlags(s.Join)...)
	return append(append(args, i.image), s.Args[1:]...)
}

// joinFlags are join's, as the client says them.
func joinFlags(j driver.Join) []string {
	if j.Network == "" {
		return nil
	}
	args := []string{"--network", j.Network}
	if j.Address.IsValid() {
		flag := "--ip"
		if j.Address.Addr().Is6() {
			flag = "--ip6"
		}
		args = append(args, flag, j.Address.Addr().String())
	}
	if j.Publish != "" {
		both := net.JoinHostPort(j.Gateway.String(), j.Publish) + ":" + j.Publish // join refuses one without a gateway
		args = append(args, "--publish", both, "--publish", both+"/udp")
	}
	return args
}

// bindFlag is a mount as the client reads it: comma-separated values.
func bindFlag(m driver.Mount) string {
	quote := func(field string) string { return `"` + strings.ReplaceAll(field, `"`, `""`) + `"` }
	fields := []string{"type=bind", quote("source=" + m.Source), quote("target=" + m.Target), "bind-propagation=rprivate"}
	if m.ReadOnly {
		fields = append(fields, "readonly")
	}
	return strings.Join(fields, ",")
}

func limitFlags(l driver.Limits) []string {
	var args []string
	if l.CPUs > 0 {
		args = append(args, "--cpus", strconv.FormatFloat(l.CPUs, 'f', -1, 64))
	}
	if l.CPUSet != "" {
		args = append(args, "--cpuset-cpus", l.CPUSet)
	}
	if l.Mems != "" {
		args = append(args, "--cpuset-mems", l.Mems)
	}
	if l.Shares > 0 {
		args = append(args, "--cpu-shares", strconv.FormatInt(l.Shares, 10))
	}
	if l.Memory > 0 {
		args = append(args, "--memory", strconv.FormatInt(l.Memory, 10))
	}
	if l.Pids > 0 {
		args = append(args, "--pids-limit", strconv.FormatInt(l.Pids, 10))
	}
	return args
}

// Watch implements driver.Instance: the client beside what every container has.
func (i *command) Watch() []driver.Watch {
	w := driver.Watch{Role: driver.RoleClient, PID: i.process.LauncherPID()}
	if i.spec.Cgroup != "" {
		w.Cgroup = i.clientGroup()
	}
	return append(i.instance.Watch(), w)
}

// Start implements driver.Instance.
func (i *command) Start(ctx context.Context, _ func(driver.Phase)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	i.mu.Lock()
	i.created, i.started = !i.spec.Beside, true
	i.mu.Unlock()
	i.stop = context.AfterFunc(ctx, func() {
		_ = i.process.Kill() // Close reports what does not die
		i.kill()
	})
	return i.process.Go()
}

// Wait implements driver.Instance: the client ends with the payload's code.
func (i *command) Wait(ctx context.Context) (driver.Exit, error) {
	r, err := i.process.Wait(ctx)
	if ctx.Err() != nil {
		i.kill()
		return driver.Exit{}, ctx.Err()
	}
	if err == nil && r.Payload.Code == clientFailed && !i.spec.Beside {
		err = i.blame()
	}
	return driver.Exit{Code: r.Payload.Code, Signal: r.Payload.Signal}, err
}

// clientFailed is the client's exit code where it failed itself; a payload may
// have it, too.
const clientFailed = 125

// blame asks the engine whether the payload or the client ended so.
func (i *command) blame() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	r, err := i.client.ContainerInspect(ctx, i.spec.ID, client.ContainerInspectOptions{})
	if err == nil && r.Container.State != nil && r.Container.State.ExitCode == clientFailed {
		return nil
	}
	if dead := i.driver.engine.broken(); dead != nil {
		return dead
	}
	return fmt.Errorf("docker run failed with exit code %d; what it said stands in the payload's standard error", clientFailed)
}

// Close implements driver.Instance.
func (i *command) Close() error {
	i.once.Do(func() {
		var errs []error
		if i.stop != nil {
			i.stop()
		}
		if i.process != nil {
			errs = append(errs, i.process.Close())
		}
		i.kill()
		errs = append(errs, i.settle(), i.instance.Close())
		if i.spec.Cgroup != "" && i.spec.ClientCgroup == "" {
			_, err := sys.RemoveCgroups(i.clientGroup())
			errs = append(errs, err)
		}
		i.err = errors.Join(errs...)
	})
	return i.err
}

// settleTime is how long a container may take to come to be after its client was
// killed.
const settleTime = time.Second

// settle removes the container. One whose client was killed may come to be a
// little later.
func (i *command) settle() error {
	if !i.created || i.driver.engine.dead() != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), settleTime)
	defer cancel()
	for {
		r, err := i.client.ContainerInspect(ctx, i.spec.ID, client.ContainerInspectOptions{})
		if err == nil && r.Container.Config != nil && r.Container.Config.Labels[labelKey] != owner() {
			i.created = false // somebody else's of this name
			return nil
		}
		if err == nil || ctx.Err() != nil {
			return i.remove()
		}
		select {
		case <-ctx.Done():
			return i.remove()
		case <-time.After(20 * time.Millisecond):
		}
	}
}
