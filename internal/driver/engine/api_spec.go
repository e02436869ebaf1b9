package engine

import (
	"fmt"
	"path"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"

	"github.com/tarelab/tare/internal/driver"
)

// options are the Spec as the API says it. What it does not say is the engine's
// default, as for a user of "docker run".
func (i *instance) options() (client.ContainerCreateOptions, error) {
	s := i.spec
	stdin := s.Stdio.Stdin != nil
	second := 1
	config := &container.Config{
		Image: i.image, Entrypoint: s.Args[:1], Cmd: s.Args[1:], WorkingDir: "/",
		// Without a value: the engine's own HOSTNAME is taken away. The Spec's
		// environment is complete.
		Env:         append([]string{"HOSTNAME"}, s.Env...),
		AttachStdin: stdin, OpenStdin: stdin, StdinOnce: stdin, AttachStdout: true, AttachStderr: true,
		Labels: map[string]string{labelKey: owner()},
		// Podman waits for so long before it removes one that runs; it once did not come back
		// from a removal with 0.
		StopTimeout: &second,
	}
	if s.Cwd != "" {
		config.WorkingDir = s.Cwd
	}
	if s.User != (driver.User{}) {
		config.User = fmt.Sprintf("%d:%d", s.User.UID, s.User.GID)
	}
	host := &container.HostConfig{Runtime: i.driver.runtime, Mounts: mounts(s.Mounts), Resources: resources(s.Limits)}
	host.Ulimits, host.SecurityOpt = i.driver.limits, i.driver.security
	host.NetworkMode = container.NetworkMode(i.driver.network)
	if s.Cgroup != "" {
		host.CgroupParent = path.Join("/", i.payloadGroup())
	}
	o := client.ContainerCreateOptions{Name: s.ID, Config: config, HostConfig: host}
	return o, join(s.Join, &o)
}

func mounts(all []driver.Mount) []mount.Mount {
	var out []mount.Mount
	for _, m := range all {
		out = append(out, mount.Mount{Type: mount.TypeBind, Source: m.Source, Target: m.Target, ReadOnly: m.ReadOnly,
			BindOptions: &mount.BindOptions{Propagation: mount.PropagationRPrivate}})
	}
	return out
}

func resources(l driver.Limits) container.Resources {
	r := container.Resources{NanoCPUs: int64(l.CPUs * 1e9), CpusetCpus: l.CPUSet, CpusetMems: l.Mems, CPUShares: l.Shares, Memory: l.Memory}
	if l.Pids > 0 {
		r.PidsLimit = &l.Pids
	}
	return r
}
