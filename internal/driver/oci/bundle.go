package oci

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/driver/bundle"
	"github.com/tarelab/tare/internal/sys"
)

// writeBundle writes the config.json of spec into the bundle.
func (d *Driver) writeBundle(spec driver.Spec, h home) error {
	trees, err := sys.Cgroups()
	if err != nil {
		return fmt.Errorf("find the cgroup hierarchies: %w", err)
	}
	data, err := json.Marshal(d.config(spec, h, d.cgroupsPath(spec, trees)))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(h.bundle(), "config.json"), data, 0o600)
}

// config is spec as this runtime takes it.
func (d *Driver) config(spec driver.Spec, h home, group string) *specs.Spec {
	c := bundle.Config(spec, bundle.Place{Rootfs: h.rootfs(), Cgroup: group, Hostname: spec.ID, Rootless: !d.lab.Root})
	c.Process.Env = d.environmentOf(spec)
	c.Linux.Namespaces = d.namespaces(spec.Join.Namespace)
	return c
}

// environmentOf is the payload's environment: the spec's, and what the runtime
// demands.
func (d *Driver) environmentOf(spec driver.Spec) []string {
	hasPath := slices.ContainsFunc(spec.Env, func(v string) bool { return strings.HasPrefix(v, "PATH=") })
	if hasPath || !d.runtime.DemandsPath {
		return spec.Env
	}
	return append(slices.Clone(spec.Env), usualPath)
}

// cgroupsPath is the payload's own group, below the part of the tree that this
// user may write. "" where there is none: runtimes do without.
func (d *Driver) cgroupsPath(spec driver.Spec, trees sys.Hierarchies) string {
	if spec.Cgroup == "" {
		return ""
	}
	if d.runtime.Systemd { // slice:prefix:name, runc's docs/systemd.md
		return systemSlice + ":" + driver.Label + ":" + spec.ID
	}
	root := "/"
	if tree, ok := trees.Unified(); ok && trees.Mode == sys.V2 {
		root = filepath.Join(root, tree.Root)
	}
	return filepath.Join(root, d.payloadGroup(spec))
}

// namespaces are those of the container, whose network is at a path where it
// joins one.
func (d *Driver) namespaces(network string) []specs.LinuxNamespace {
	var all []specs.LinuxNamespace
	for _, n := range bundle.Namespaces {
		isNetwork := n == specs.NetworkNamespace
		given := isNetwork && network == "" && d.runtime.LoopbackDown
		if given || slices.Contains(d.runtime.Lacks, n) {
			continue
		}
		ns := specs.LinuxNamespace{Type: n}
		if isNetwork {
			ns.Path = network
		}
		all = append(all, ns)
	}
	return all
}
