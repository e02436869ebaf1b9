package engine

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"

	"github.com/tarelab/tare/internal/driver"
)

// networkHost is Networks.Host: a private engine has a network namespace of its own,
// the user's the machine's.
func (d *apiDriver) networkHost(ctx context.Context) (string, error) {
	if err := d.ready(ctx); err != nil {
		return "", err
	}
	if p := d.engine.private; p != nil {
		// The launcher's: Podman 5 leaves its own main thread in the namespace of a container.
		return fmt.Sprintf("/proc/%d/ns/net", p.process.LauncherPID()), nil
	}
	return "/proc/self/ns/net", nil
}

// makeNetwork is Networks.Make. The network carries the owner's label, by which a
// sweep finds it.
func (d *apiDriver) makeNetwork(ctx context.Context, name string, of netip.Prefix) (remove func() error, err error) {
	c, err := clientOf(d.engine, connect)
	if err != nil {
		return nil, err
	}
	six := of.Addr().Is6() // of IPv4 as well, from the engine's own pool: Docker before 27 cannot do without
	_, err = c.NetworkCreate(ctx, name, client.NetworkCreateOptions{
		Driver: "bridge", Labels: map[string]string{labelKey: owner()}, EnableIPv6: &six,
		IPAM: &network.IPAM{Config: []network.IPAMConfig{{Subnet: of, Gateway: of.Addr().Next()}}},
	})
	if err != nil {
		return nil, fmt.Errorf("%s: make a network: %w", d.engine.flavor.name, err)
	}
	return func() error {
		if d.engine.dead() != nil {
			return nil // it went with its engine
		}
		most := queueTime
		if d.engine.private != nil {
			most = releaseTime
		}
		ctx, cancel := context.WithTimeout(context.Background(), most)
		defer cancel()
		return d.engine.removeNetwork(ctx, c, name)
	}, nil
}

// releaseTime bounds how long a private engine may take to let go of a network whose
// containers are removed.
const releaseTime = 30 * time.Second

// removeNetwork removes a network whose containers are removed. dockerd 20.10 at times
// counts one too many for good, where hundreds were there and went several at once: it
// then refuses to remove the network until it is started again. A private engine is, by
// the next trial that needs it, and its network goes with it.
func (e *engine) removeNetwork(ctx context.Context, c *client.Client, name string) error {
	err := removeNetwork(ctx, c, name)
	if err == nil {
		return nil
	}
	if ctx.Err() != nil && e.private != nil {
		e.watchdog.hang(fmt.Errorf("it does not remove the network %s, whose containers are removed: %w", name, err))
		return &driver.RestartError{Err: e.dead()}
	}
	return driver.Labf("%s: remove its network %s: %w", e.flavor.name, name, err)
}

// emptyEvery is how often an engine is asked again to remove a network.
const emptyEvery = 100 * time.Millisecond

// removeNetwork removes a network whose containers are removed. An engine may still have
// them on it: it answers a removal before it has released the container's address.
func removeNetwork(ctx context.Context, c *client.Client, name string) error {
	for {
		_, err := c.NetworkRemove(ctx, name, client.NetworkRemoveOptions{})
		switch {
		case err == nil || errdefs.IsNotFound(err):
			return nil
		case !errdefs.IsPermissionDenied(err) && !errdefs.IsConflict(err):
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(emptyEvery):
		}
	}
}

// attachNetwork is Networks.Attach.
func (d *apiDriver) attachNetwork(ctx context.Context, of driver.Instance, name string, at netip.Addr) error {
	i, err := d.own(of)
	if err != nil {
		return err
	}
	_, err = i.client.NetworkConnect(ctx, name, client.NetworkConnectOptions{Container: i.spec.ID, EndpointConfig: endpoint(at)})
	if err != nil {
		return d.engine.explain("attach to a network", err)
	}
	return nil
}

// detachNetwork is Networks.Detach.
func (d *apiDriver) detachNetwork(ctx context.Context, of driver.Instance, name string) error {
	i, err := d.own(of)
	if err != nil {
		return err
	}
	if _, err := i.client.NetworkDisconnect(ctx, name, client.NetworkDisconnectOptions{Container: i.spec.ID}); err != nil {
		return d.engine.explain("detach from a network", err)
	}
	return nil
}

// own is an instance of this driver, through the API or through the client.
func (d *apiDriver) own(of driver.Instance) (*instance, error) {
	switch i := of.(type) {
	case *instance:
		return i, nil
	case *command:
		return i.instance, nil
	}
	return nil, driver.Labf("%s: an instance of another driver", d.name)
}

// join puts a container on a network, with an address of its own there.
func join(j driver.Join, o *client.ContainerCreateOptions) error {
	if j.Network == "" {
		return nil
	}
	o.HostConfig.NetworkMode = container.NetworkMode(j.Network)
	if j.Address.IsValid() {
		o.NetworkingConfig = &network.NetworkingConfig{EndpointsConfig: map[string]*network.EndpointSettings{j.Network: endpoint(j.Address.Addr())}}
	}
	if j.Publish == "" {
		return nil
	}
	if !j.Gateway.IsValid() {
		return driver.Labf("port %s to publish: the network has no address on the engine's host", j.Publish)
	}
	o.Config.ExposedPorts, o.HostConfig.PortBindings = network.PortSet{}, network.PortMap{}
	for _, protocol := range []string{"/tcp", "/udp"} { // the server listens by both
		port, err := network.ParsePort(j.Publish + protocol)
		if err != nil {
			return driver.Labf("port to publish: %w", err)
		}
		o.Config.ExposedPorts[port] = struct{}{}
		o.HostConfig.PortBindings[port] = []network.PortBinding{{HostIP: j.Gateway, HostPort: j.Publish}} // where clients dial, and nowhere else
	}
	return nil
}

// endpoint is a place on a network at an address.
func endpoint(at netip.Addr) *network.EndpointSettings {
	if at.Is6() {
		return &network.EndpointSettings{IPAMConfig: &network.EndpointIPAMConfig{IPv6Address: at}}
	}
	return &network.EndpointSettings{IPAMConfig: &network.EndpointIPAMConfig{IPv4Address: at}}
}

// tidyNetworks removes the networks of an owner, whose containers are removed.
func tidyNetworks(ctx context.Context, c *client.Client, owner string) error {
	ctx, cancel := context.WithTimeout(ctx, queueTime)
	defer cancel()
	list, err := c.NetworkList(ctx, client.NetworkListOptions{Filters: client.Filters{}.Add("label", labelKey+"="+owner)})
	errs := []error{err}
	for _, one := range list.Items {
		errs = append(errs, removeNetwork(ctx, c, one.ID))
	}
	return errors.Join(errs...)
}
