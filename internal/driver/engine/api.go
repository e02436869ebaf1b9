package engine

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/system"
	"github.com/moby/moby/client"
	"golang.org/x/sync/errgroup"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/limit"
)

// Connections that no request uses: as many stay as starts of a trial may leave for
// the next ones, and not for long, since a trial leaves nothing behind. Their buffers
// are for small answers.
const (
	idleConnections = 16
	idleTime        = time.Second
	bufferBytes     = 1 << 10
)

// connect is a client at the socket. Its idle connections close by themselves.
func connect(socket string) (*client.Client, error) {
	plain := new(http.Protocols)
	plain.SetHTTP1(true) // with HTTP/2 comes TLS, which the client would take to be wanted
	base := &http.Transport{Protocols: plain, MaxIdleConns: idleConnections, MaxIdleConnsPerHost: idleConnections, IdleConnTimeout: idleTime,
		ReadBufferSize: bufferBytes, WriteBufferSize: bufferBytes, DisableCompression: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		}}
	// The client wraps this transport for its requests; it dials for streams by itself.
	c, err := client.New(client.WithHost("unix://"+socket), client.WithHTTPClient(&http.Client{Transport: bounded{base}, CheckRedirect: client.CheckRedirect}))
	if err != nil {
		return nil, driver.Labf("client of the engine: %w", err)
	}
	return c, nil
}

// bounded has what reads an answer fail where it is longer than its limit: the client
// reads without any.
type bounded struct{ base *http.Transport }

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(request *http.Request) (*http.Response, error) {
	trip := b.base.RoundTrip
	if request.Method == http.MethodDelete || path.Base(request.URL.Path) == "wait" { // many at once, and outside of a start's clock
		trip = b.alone
	}
	r, err := trip(request)
	if err == nil {
		r.Body = answer{limit.DaemonAnswer.Reader(r.Body), r.Body}
	}
	return r, err
}

// alone makes a request over a connection of its own, without a goroutine. Those of
// http.Transport have two, and larger buffers: of the requests that wait for the end of
// each of many containers, and of those that remove them, that would be most of what a
// container takes here.
func (b bounded) alone(request *http.Request) (*http.Response, error) {
	ctx := request.Context()
	conn, err := b.base.DialContext(ctx, "", "")
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	closing := func() error {
		if !stop() {
			return nil // closed by the end of ctx
		}
		return conn.Close()
	}
	err = request.Write(conn)
	var r *http.Response
	if err == nil {
		r, err = http.ReadResponse(bufio.NewReaderSize(limit.DaemonAnswer.Reader(conn), bufferBytes/2), request)
	}
	if err != nil {
		return nil, errors.Join(cmp.Or(ctx.Err(), err), closing())
	}
	r.Body = answer{r.Body, closer(closing)}
	return r, nil
}

// closer is a function that closes.
type closer func() error

// Close implements io.Closer.
func (c closer) Close() error { return c() }

// answer is a body that is read through a limit.
type answer struct {
	io.Reader
	io.Closer
}

// apiDaemon is what the daemons that speak Docker's API have in common.
type apiDaemon struct {
	target string // the driver's name
	title  string // what people call it
	// component is what it calls itself among the parts of its version; "" for one
	// that is known by being none of the others.
	component string
	start     func(e *engine, program, socket string) (daemonCommand, error)
}

// command implements daemon.
func (a apiDaemon) command(e *engine, program, socket string) (daemonCommand, error) {
	return a.start(e, program, socket)
}

// answers implements daemon. It tells the engines by what they call themselves, since
// one may be installed in the place of another.
func (a apiDaemon) answers(ctx context.Context, socket string) error {
	parts, err := componentsAt(ctx, socket)
	if err != nil {
		return err
	}
	has := func(name string) bool {
		return slices.ContainsFunc(parts, func(part system.ComponentVersion) bool { return part.Name == name })
	}
	if a.component != "" && !has(a.component) {
		return fmt.Errorf("what answers at %s is another engine than %s", socket, a.title)
	}
	for _, k := range kinds() {
		if other, ok := k.flavor.daemon.(apiDaemon); ok && other.component != "" && other.component != a.component && has(other.component) {
			return fmt.Errorf("what answers at %s is %s, which is the target %s", socket, other.title, other.target)
		}
	}
	return nil
}

// componentsAt are the parts of the engine that listens at the socket, whose API this
// client speaks.
func componentsAt(ctx context.Context, socket string) ([]system.ComponentVersion, error) {
	c, err := connect(socket)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	ping, err := c.Ping(ctx, client.PingOptions{NegotiateAPIVersion: true})
	if err != nil {
		return nil, fmt.Errorf("no engine that can be used answers at %s: %w", socket, err)
	}
	if ping.APIVersion == "" {
		return nil, fmt.Errorf("what answers at %s is no container engine: it names no API version", socket)
	}
	version, err := c.ServerVersion(ctx, client.ServerVersionOptions{})
	if err != nil {
		return nil, fmt.Errorf("ask the engine at %s for its version: %w", socket, err)
	}
	return version.Components, nil
}

// version asks the engine what it is and what it can do.
func (e *engine) version(ctx context.Context) (client.ServerVersionResult, client.SystemInfoResult, error) {
	c, err := clientOf(e, connect)
	if err != nil {
		return client.ServerVersionResult{}, client.SystemInfoResult{}, err
	}
	v, err := c.ServerVersion(ctx, client.ServerVersionOptions{})
	if err != nil {
		return v, client.SystemInfoResult{}, fmt.Errorf("ask %s for its version: %w", e.flavor.name, err)
	}
	info, err := c.Info(ctx, client.InfoOptions{})
	if err != nil {
		return v, info, fmt.Errorf("ask %s for what it can do: %w", e.flavor.name, err)
	}
	return v, info, nil
}

// removeAll implements daemon.
func (apiDaemon) removeAll(ctx context.Context, socket, owner string) error {
	c, err := connect(socket)
	if err != nil {
		return err
	}
	defer c.Close()
	errs := []error{removeContainers(ctx, c, owner)}
	errs = append(errs, tidyNetworks(ctx, c, owner)) // after the containers on them
	images, err := c.ImageList(ctx, client.ImageListOptions{})
	errs = append(errs, err)
	for _, one := range images.Items {
		for _, tag := range one.RepoTags {
			if !strings.HasPrefix(tag, repository(owner)+":") {
				continue
			}
			_, err := c.ImageRemove(ctx, tag, client.ImageRemoveOptions{PruneChildren: true})
			if err != nil && !errdefs.IsNotFound(err) {
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}

// removeContainers implements daemon.
func (apiDaemon) removeContainers(ctx context.Context, socket, owner string) error {
	c, err := connect(socket)
	if err != nil {
		return err
	}
	defer c.Close()
	return removeContainers(ctx, c, owner)
}

func removeContainers(ctx context.Context, c *client.Client, owner string) error {
	list, err := c.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: client.Filters{}.Add("label", labelKey+"="+owner)})
	if err != nil {
		return err
	}
	made, err := labelled(ctx, c, list.Items, owner)
	if err != nil {
		return err
	}
	return eachOf(made, func(one container.Summary) error {
		_, err := c.ContainerRemove(ctx, one.ID, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
		if errdefs.IsNotFound(err) {
			return nil
		}
		return err
	})
}

// labelled are the containers whose label was given to themselves. Docker gives a
// container its image's labels, and docker commit gives an image its container's: a
// user's own container can carry an owner's label so.
func labelled(ctx context.Context, c *client.Client, all []container.Summary, owner string) ([]container.Summary, error) {
	inherited := map[string]bool{} // by image
	var own []container.Summary
	for _, one := range all {
		was, known := inherited[one.ImageID]
		if !known && one.ImageID != "" {
			image, err := c.ImageInspect(ctx, one.ImageID)
			if err != nil && !errdefs.IsNotFound(err) {
				return nil, err
			}
			// Of an image that is gone nobody can tell: its container stays.
			was = err != nil || image.Config != nil && image.Config.Labels[labelKey] == owner
			inherited[one.ImageID] = was
		}
		if !was {
			own = append(own, one)
		}
	}
	return own, nil
}

// tidyWidth is how many containers an engine is asked to remove at once.
const tidyWidth = 16

// eachOf calls remove for all, some at once, and joins their errors.
func eachOf[T any](all []T, remove func(T) error) error {
	errs := make([]error, len(all))
	var group errgroup.Group
	group.SetLimit(tidyWidth)
	for i, one := range all {
		group.Go(func() error {
			errs[i] = remove(one) // all are tried, whatever one of them says
			return nil
		})
	}
	return errors.Join(append(errs, group.Wait())...)
}

// owners implements daemon: they have labelled a container or a network, or named an
// image.
func (apiDaemon) owners(ctx context.Context, socket string) ([]string, error) {
	c, err := connect(socket)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	list, err := c.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: client.Filters{}.Add("label", labelKey)})
	if err != nil {
		return nil, err
	}
	var owners []string
	for _, one := range list.Items {
		owners = append(owners, one.Labels[labelKey])
	}
	networks, err := c.NetworkList(ctx, client.NetworkListOptions{Filters: client.Filters{}.Add("label", labelKey)})
	if err != nil {
		return nil, err
	}
	for _, one := range networks.Items {
		owners = append(owners, one.Labels[labelKey])
	}
	images, err := c.ImageList(ctx, client.ImageListOptions{})
	if err != nil {
		return nil, err
	}
	for _, one := range images.Items {
		for _, tag := range one.RepoTags {
			name, _, _ := strings.Cut(tag, ":")
			if o, ours := strings.CutPrefix(name, repository("")); ours {
				owners = append(owners, o)
			}
		}
	}
	slices.Sort(owners)
	return slices.Compact(owners), nil
}
