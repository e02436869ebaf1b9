package engine

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/errdefs"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"google.golang.org/grpc"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/tarelab/tare/internal/cni"
	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/sys"
)

// criNamespace is containerd's namespace of all that is made by CRI, whoever asks.
const criNamespace = "k8s.io"

// podKey is the label of a pod with its Spec's ID.
const podKey = driver.Label + ".pod"

// pauseName is the image of a private engine's sandboxes.
const pauseName = "localhost/" + driver.Label + "-pause:1"

// criDaemon is containerd with its CRI plugin. Pods carry the owner's label, and images
// its name: the namespace is everybody's.
type criDaemon struct{}

// criConfigText is the configuration of a private engine, but for its runtimes: the
// file's places, and
//   - restrict_oom_score_adj: a root without CAP_SYS_RESOURCE starts sandboxes, too;
//   - disable_apparmor: a profile would be loaded into the machine's kernel;
//   - level: the log has errors alone, see complete.
const criConfigText = `version = 2
root = %q
state = "/run/containerd"
[grpc]
address = %q
[debug]
level = "error"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = %q
restrict_oom_score_adj = true
disable_apparmor = true
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = %q
conf_dir = %q
[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = %q
default_runtime_name = %q
`

// criRuntimeText is one of its runtimes.
const criRuntimeText = `[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.%q]
runtime_type = %q
`

// criOptionsText is the binary that the usual shim runs for it.
const criOptionsText = `[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.%[1]q.options]
BinaryName = %[3]q
`

// podNetwork is the network of a private engine's pods: each has a veth pair to the
// engine's own network namespace, and an address, as many nodes' network plugins make
// them. Nobody else is in that namespace.
const podNetwork = `{"cniVersion": "0.4.0", "name": "tare", "plugins": [{"type": "ptp",
 "ipam": {"type": "host-local", "dataDir": %q, "ranges": [[{"subnet": "10.213.0.0/16"}]], "routes": [{"dst": "0.0.0.0/0"}]}}]}
`

// cniState is where the CNI library keeps what it gave out (libcni, CacheDir).
const cniState = "/var/lib/cni"

// cniDir is the one that has the plugins of a private engine's pods; "" for none.
func cniDir() string {
	for _, dir := range cni.PluginDirs {
		lacks := func(plugin string) bool { return !sys.Executable(filepath.Join(dir, plugin)) }
		if !slices.ContainsFunc([]string{"loopback", "ptp", "host-local"}, lacks) {
			return dir
		}
	}
	return ""
}

// command implements daemon.
func (criDaemon) command(e *engine, program, socket string) (daemonCommand, error) {
	dir := filepath.Dir(socket)
	plugins := cniDir()
	if plugins == "" {
		return daemonCommand{}, e.cannot("tare setup installs them", "the network plugins loopback, ptp and host-local are not installed in %s", strings.Join(cni.PluginDirs, " or "))
	}
	var text strings.Builder
	networks, classes := filepath.Join(dir, "cni"), slices.Sorted(maps.Keys(e.more))
	fmt.Fprintf(&text, criConfigText, filepath.Join(dir, "root"), socket, pauseName, plugins, networks, snapshotters[0], classes[0])
	for _, class := range classes {
		runtime := e.more[class]
		binary, err := e.find(runtime)
		switch {
		case err == nil:
			fmt.Fprintf(&text, criRuntimeText+criOptionsText, class, runcShim, binary)
		case strings.Contains(runtime, "."): // a shim's name
			fmt.Fprintf(&text, criRuntimeText, class, runtime)
		default: // it fails when it is asked for
			fmt.Fprintf(&text, criRuntimeText+criOptionsText, class, runcShim, runtime)
		}
	}
	config := filepath.Join(dir, "config.toml")
	err := os.WriteFile(config, []byte(text.String()), 0o600)
	if err == nil {
		err = os.Mkdir(networks, 0o700)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(networks, "10-tare.conflist"), fmt.Appendf(nil, podNetwork, filepath.Join(dir, "addresses")), 0o600)
	}
	if err != nil {
		return daemonCommand{}, driver.Labf("configuration of the engine: %w", err)
	}
	return daemonCommand{args: []string{program, "--config", config}, hides: []string{containerdPrograms, cniState}}, nil
}

// criConn is the connection of a client, which CRI is asked through, too.
func criConn(c *containerd.Client) grpc.ClientConnInterface {
	return c.Conn().(grpc.ClientConnInterface) // containerdConnect makes no other
}

func criRuntime(c *containerd.Client) cri.RuntimeServiceClient {
	return cri.NewRuntimeServiceClient(criConn(c))
}

// answers implements daemon.
func (criDaemon) answers(ctx context.Context, socket string) error {
	ctx, cancel := context.WithTimeout(ctx, userEngineTime)
	defer cancel()
	return containerdDo(socket, criNamespace, func(c *containerd.Client) error {
		version, err := criRuntime(c).Version(ctx, &cri.VersionRequest{})
		if err != nil {
			return fmt.Errorf("nobody answers CRI (runtime.v1) at %s: %w", socket, err)
		}
		if version.RuntimeName != containerdProgram {
			return fmt.Errorf("%s is %s, and tare gives its image to containerd alone", socket, version.RuntimeName)
		}
		return nil
	})
}

// owners implements daemon: they have labelled a pod or named an image.
func (criDaemon) owners(ctx context.Context, socket string) (owners []string, err error) {
	err = containerdDo(socket, criNamespace, func(c *containerd.Client) error {
		list, err := criRuntime(c).ListPodSandbox(ctx, &cri.ListPodSandboxRequest{})
		if err != nil {
			return err
		}
		for _, p := range list.GetItems() {
			if o := p.GetLabels()[labelKey]; o != "" {
				owners = append(owners, o)
			}
		}
		all, err := c.ListImages(ctx)
		for _, image := range all {
			if o, ours := strings.CutPrefix(image.Name(), repository("")); ours {
				o, _, _ = strings.Cut(o, ":")
				owners = append(owners, o)
			}
		}
		return err
	})
	slices.Sort(owners)
	return slices.Compact(owners), err
}

// removeContainers implements daemon.
func (criDaemon) removeContainers(ctx context.Context, socket, owner string) error {
	return containerdDo(socket, criNamespace, func(c *containerd.Client) error {
		return removePods(ctx, criRuntime(c), map[string]string{labelKey: owner})
	})
}

// A pod is asked to be removed so often, after such a pause: where a container ends at
// the same time, containerd finds its shim gone and fails, and the kubelet asks again.
const (
	removeTries = 10
	removePause = 200 * time.Millisecond
)

// removePods removes the pods with these labels, with their containers.
func removePods(ctx context.Context, c cri.RuntimeServiceClient, labels map[string]string) error {
	list, err := c.ListPodSandbox(ctx, &cri.ListPodSandboxRequest{Filter: &cri.PodSandboxFilter{LabelSelector: labels}})
	if err != nil {
		return err
	}
	return eachOf(list.GetItems(), func(p *cri.PodSandbox) error {
		for try := 1; ; try++ {
			_, err := c.RemovePodSandbox(ctx, &cri.RemovePodSandboxRequest{PodSandboxId: p.GetId()})
			if err == nil || try == removeTries || ctx.Err() != nil {
				return err
			}
			time.Sleep(removePause)
		}
	})
}

// removeAll implements daemon.
func (d criDaemon) removeAll(ctx context.Context, socket, owner string) error {
	if err := d.removeContainers(ctx, socket, owner); err != nil {
		return err
	}
	return containerdDo(socket, criNamespace, func(c *containerd.Client) error {
		all, err := c.ListImages(ctx)
		errs := []error{err}
		for _, image := range all {
			if strings.HasPrefix(image.Name(), repository(owner)+":") {
				errs = append(errs, removeImage(ctx, c, image.Name()))
			}
		}
		return errors.Join(errs...)
	})
}

// removeImage removes the image of a name. The CRI plugin has given it a second name,
// which it removes with the first; it is not asked where the user has named the same
// image. Once the names have gone, containerd's collector takes what the image alone has
// used.
func removeImage(ctx context.Context, c *containerd.Client, name string) error {
	plugin := cri.NewImageServiceClient(criConn(c))
	r, err := plugin.ImageStatus(ctx, &cri.ImageStatusRequest{Image: &cri.ImageSpec{Image: name}})
	if err != nil {
		return err
	}
	if i := r.GetImage(); i != nil && len(i.GetRepoTags()) == 1 && len(i.GetRepoDigests()) == 0 {
		if _, err := plugin.RemoveImage(ctx, &cri.RemoveImageRequest{Image: &cri.ImageSpec{Image: name}}); err != nil {
			return err
		}
	}
	if err := c.ImageService().Delete(ctx, name, images.SynchronousDelete()); !errdefs.IsNotFound(err) {
		return err
	}
	return nil
}

// pauseSource is the image of a sandbox: the mark helper, which waits without a file
// open until it is ended.
func pauseSource(program string) (source, error) {
	s := source{remove: func() error { return nil }}
	data, err := os.ReadFile(program)
	if err != nil {
		return s, driver.Labf("program of a pod's sandbox: %w", err)
	}
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	err = w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "pause", Mode: 0o755, Size: int64(len(data))})
	if err == nil {
		_, err = w.Write(data)
	}
	if err = errors.Join(err, w.Close()); err != nil {
		return s, err
	}
	packed, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(layer.Bytes())), nil })
	if err != nil {
		return s, err
	}
	base, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{Architecture: runtime.GOARCH, OS: "linux",
		RootFS: v1.RootFS{Type: "layers"}, Config: v1.Config{Entrypoint: []string{"/pause", "-hold"}, Env: []string{"PATH=/"}}}) // youki refuses to start without a PATH
	if err != nil {
		return s, err
	}
	if s.image, err = mutate.AppendLayers(base, packed); err != nil {
		return s, err
	}
	if s.config, err = s.image.ConfigName(); err != nil {
		return s, err
	}
	s.tag, err = name.NewTag(pauseName)
	return s, err
}
