package engine

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/containerd/v2/pkg/dialer"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"
	"google.golang.org/grpc"

	"github.com/tarelab/tare/internal/driver"
)

// containerdProgram is the daemon's program, and the name of its process.
const containerdProgram = "containerd"

func containerdFlavor() flavor {
	return flavor{name: "containerd", program: containerdProgram, daemons: []string{containerdProgram}, remedy: "tare setup installs it",
		variable: "CONTAINERD_ADDRESS", sockets: []string{"/run/containerd/containerd.sock"}, own: &userEngine{}, daemon: containerdDaemon{}}
}

// containerdPrograms is where containerd makes directories at its start, whatever
// its root is, and puts their programs first in its PATH: those there may be others
// than what a check reports.
const containerdPrograms = "/opt/containerd"

// containerdDaemon is the daemon of containerd, in which each owner has a namespace.
type containerdDaemon struct{}

// command implements daemon: it starts with nothing of the machine's configuration. Its
// runtime's state is below its own /run.
func (containerdDaemon) command(_ *engine, program, socket string) (daemonCommand, error) {
	dir := filepath.Dir(socket)
	config := filepath.Join(dir, "config.toml")
	text := fmt.Sprintf("version = 2\nroot = %q\nstate = \"/run/containerd\"\ndisabled_plugins = [\"io.containerd.grpc.v1.cri\"]\n[grpc]\naddress = %q\n",
		filepath.Join(dir, "root"), socket)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return daemonCommand{}, driver.Labf("configuration of the engine: %w", err)
	}
	return daemonCommand{args: []string{program, "--config", config}, hides: []string{containerdPrograms}}, nil
}

// containerdConnect is a client in a namespace.
func containerdConnect(socket, namespace string) (*containerd.Client, error) {
	c, err := containerd.New(socket, containerd.WithDefaultNamespace(namespace), containerd.WithTimeout(userEngineTime),
		containerd.WithExtraDialOpts([]grpc.DialOption{grpc.WithContextDialer(dialContainerd)}))
	if err != nil {
		return nil, fmt.Errorf("connect to containerd at %s: %w", socket, err)
	}
	return c, nil
}

// containerdDo connects to the daemon at socket, in a namespace, for the time of do.
func containerdDo(socket, namespace string, do func(*containerd.Client) error) error {
	c, err := containerdConnect(socket, namespace)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	return do(c)
}

// dialContainerd is containerd's own way to its socket.
func dialContainerd(ctx context.Context, address string) (net.Conn, error) {
	c, err := dialer.ContextDialer(ctx, address)
	if err != nil {
		return nil, err
	}
	return closedByAWrite{c}, nil
}

// closedByAWrite is a connection that ends with the first write that fails. gRPC leaves its
// end to the reader, who may see no error, and tries each call again and again meanwhile.
type closedByAWrite struct{ net.Conn }

// Write implements [io.Writer].
func (c closedByAWrite) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if err != nil {
		_ = c.Close()
	}
	return n, err
}

// connection is the engine's one client.
func (e *containerdEngine) connection() (*containerd.Client, error) {
	return clientOf(e.engine, func(socket string) (*containerd.Client, error) { return containerdConnect(socket, e.namespace) })
}

func containerdNamespace(owner string) string { return driver.Label + "-" + owner }

// answers implements daemon.
func (containerdDaemon) answers(ctx context.Context, socket string) error {
	ctx, cancel := context.WithTimeout(ctx, userEngineTime)
	defer cancel()
	return containerdDo(socket, containerdNamespace(owner()), func(c *containerd.Client) error {
		if _, err := c.Version(ctx); err != nil {
			return fmt.Errorf("no containerd answers at %s: %w", socket, err)
		}
		return nil
	})
}

// removeAll implements daemon: the owner's namespace with all that is in it.
func (containerdDaemon) removeAll(ctx context.Context, socket, owner string) error {
	space := containerdNamespace(owner)
	ctx = namespaces.WithNamespace(ctx, space)
	return containerdDo(socket, space, func(c *containerd.Client) error {
		errs := []error{containerdRemoveAll(ctx, c)}
		images, err := c.ListImages(ctx)
		errs = append(errs, err)
		for _, one := range images {
			errs = append(errs, c.ImageService().Delete(ctx, one.Name()))
		}
		errs = append(errs, emptied(ctx, c))
		if err := c.NamespaceService().Delete(ctx, space); err != nil && !errdefs.IsNotFound(err) {
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	})
}

// removeContainers implements daemon.
func (containerdDaemon) removeContainers(ctx context.Context, socket, owner string) error {
	space := containerdNamespace(owner)
	ctx = namespaces.WithNamespace(ctx, space)
	return containerdDo(socket, space, func(c *containerd.Client) error { return containerdRemoveAll(ctx, c) })
}

func containerdRemoveAll(ctx context.Context, c *containerd.Client) error {
	left, err := c.Containers(ctx)
	if err != nil {
		return err
	}
	return eachOf(left, func(one containerd.Container) error { return containerdRemove(ctx, one) })
}

// emptied removes the snapshots, from the leaves on, and the contents that
// containerd's own collector would find later: a namespace that holds any stays.
func emptied(ctx context.Context, c *containerd.Client) error {
	keeper, err := snapshotterOf(ctx, c)
	if err != nil {
		return err
	}
	kept := c.SnapshotService(keeper)
	for removed := true; removed; {
		removed = false
		var names []string
		err := kept.Walk(ctx, func(_ context.Context, s snapshots.Info) error {
			names = append(names, s.Name)
			return nil
		})
		if err != nil {
			return err
		}
		for _, n := range names {
			if kept.Remove(ctx, n) == nil { // one that is a parent goes in the next round
				removed = true
			}
		}
	}
	var blobs []digest.Digest
	store := c.ContentStore()
	if err := store.Walk(ctx, func(b content.Info) error {
		blobs = append(blobs, b.Digest)
		return nil
	}); err != nil {
		return err
	}
	var errs []error
	for _, b := range blobs {
		if err := store.Delete(ctx, b); err != nil && !errdefs.IsNotFound(err) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// owners implements daemon: each has a namespace.
func (containerdDaemon) owners(ctx context.Context, socket string) (owners []string, err error) {
	err = containerdDo(socket, containerdNamespace(owner()), func(c *containerd.Client) error {
		all, err := c.NamespaceService().List(ctx)
		for _, n := range all {
			if o, ours := strings.CutPrefix(n, driver.Label+"-"); ours {
				owners = append(owners, o)
			}
		}
		return err
	})
	return owners, err
}
