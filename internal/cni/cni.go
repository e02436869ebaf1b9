// Package cni attaches network namespaces to the machine's own CNI network, as container
// engines and clusters do, and takes them away again. What a killed process has left,
// another one takes away: the network keeps addresses for it on disk.
package cni

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/invoke"
	types "github.com/containernetworking/cni/pkg/types/100"
)

// PluginDirs are where distributions and Kubernetes put the plugins.
var PluginDirs = []string{"/opt/cni/bin", "/usr/lib/cni", "/usr/libexec/cni"}

// configDir is where a machine's networks are configured.
var configDir = "/etc/cni/net.d"

// Network is one that is configured on this machine.
type Network struct{ list *libcni.NetworkConfigList }

// NoneError is that this machine has no network that can be read.
type NoneError struct{ Err error }

func (e *NoneError) Error() string { return "this machine has no CNI network: " + e.Err.Error() }

// Unwrap gives the cause.
func (e *NoneError) Unwrap() error { return e.Err }

// Default is the network that engines take: the first one by the names of the files
// (*.conflist in /etc/cni/net.d). The error is a *NoneError.
func Default() (*Network, error) {
	files, err := libcni.ConfFiles(configDir, []string{".conflist"}) // in the order of their names
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("no *.conflist is in %s", configDir)
	}
	if err != nil {
		return nil, &NoneError{err}
	}
	list, err := libcni.NetworkConfFromFile(files[0])
	if err != nil {
		return nil, &NoneError{fmt.Errorf("%s: %w", files[0], err)}
	}
	return &Network{list}, nil
}

// String is the network's name, with its plugins in the order of their work.
func (n *Network) String() string {
	var plugins []string
	for _, p := range n.list.Plugins {
		plugins = append(plugins, p.Network.Type)
	}
	return fmt.Sprintf("%s (%s)", n.list.Name, strings.Join(plugins, ", "))
}

// Attachment is a namespace on a network.
type Attachment struct {
	Address netip.Prefix // IPv4, of the namespace's link
	network *Network
	dir     string // has the network's configuration, for Sweep, and what its plugins answered
	runtime libcni.RuntimeConf
}

// linkName is the link's in every namespace, as engines have it.
const linkName = "eth0"

// note is the file of an attachment's directory with the network's configuration. It is
// there whole or not at all: Sweep could not read a part of it.
const note = "network.conflist"

// unfinished is a note that is being written.
const unfinished = "unfinished"

// notes is the directory of all attachments.
func notes(runDir string) string { return filepath.Join(runDir, "cni") }

// Attach joins a namespace, which a path leads to, to the network. runDir is a directory
// of this process alone, which Sweep takes after a kill; id is a name that no other
// attachment to the network has on this machine. Detach must follow.
func (n *Network) Attach(ctx context.Context, runDir, id, namespace string) (*Attachment, error) {
	a := &Attachment{network: n, dir: filepath.Join(notes(runDir), id), runtime: runtimeOf(id, namespace)}
	err := os.MkdirAll(a.dir, 0o700)
	if err == nil {
		err = os.WriteFile(filepath.Join(a.dir, unfinished), n.list.Bytes, 0o600)
	}
	if err == nil {
		err = os.Rename(filepath.Join(a.dir, unfinished), filepath.Join(a.dir, note))
	}
	if err == nil {
		a.Address, err = a.add(ctx)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("attach to the CNI network %s: %w", n, err), a.Detach(ctx))
	}
	return a, nil
}

// Plugins are those that Plug runs.
var Plugins = []string{"bridge", "static"}

// Plug attaches a namespace, which a path leads to, to a bridge of the calling thread's
// network namespace, by Plugins. The address is the caller's choice; without a gateway
// there is no default route, and an MTU of 0 leaves the kernel's. dir is for what the
// plugins answered; nothing else outlives the namespaces. id is a name that no other one in
// dir has.
func Plug(ctx context.Context, dir, id, bridge, namespace string, address netip.Prefix, gateway netip.Addr, mtu int) error {
	type object = map[string]any
	from := object{"address": address.String()}
	ipam := object{"type": Plugins[1], "addresses": []object{from}}
	if gateway.IsValid() {
		from["gateway"] = gateway.String()
		ipam["routes"] = []object{{"dst": netip.PrefixFrom(netip.IPv4Unspecified(), 0).String()}}
		if gateway.Is6() {
			ipam["routes"] = []object{{"dst": netip.PrefixFrom(netip.IPv6Unspecified(), 0).String()}}
		}
	}
	text, err := json.Marshal(object{"cniVersion": "0.4.0", "name": bridge,
		"plugins": []object{{"type": Plugins[0], "bridge": bridge, "mtu": mtu, "ipam": ipam}}})
	if err != nil {
		return err
	}
	list, err := libcni.NetworkConfFromBytes(text)
	if err != nil {
		return fmt.Errorf("configuration of the CNI plugins %v: %w", Plugins, err)
	}
	network := &Network{list}
	a := Attachment{network: network, dir: dir, runtime: runtimeOf(id, namespace)}
	if _, err := a.add(ctx); err != nil {
		return fmt.Errorf("attach to %s by CNI: %w", network, err)
	}
	return nil
}

// Lacks are those of some plugins that this machine does not have.
func Lacks(plugins []string) (lacks []string) {
	for _, name := range plugins {
		if _, err := invoke.FindInPath(name, PluginDirs); err != nil {
			lacks = append(lacks, name)
		}
	}
	return lacks
}

func runtimeOf(id, namespace string) libcni.RuntimeConf {
	// Plugins refuse arguments that they do not know, unless told otherwise.
	return libcni.RuntimeConf{ContainerID: id, NetNS: namespace, IfName: linkName, Args: [][2]string{{"IgnoreUnknown", "1"}}}
}

// pluginsWithin bounds the plugins' work. Those of clusters ask an API server.
const pluginsWithin = time.Minute

func (a *Attachment) plugins() *libcni.CNIConfig {
	return libcni.NewCNIConfigWithCacheDir(PluginDirs, a.dir, nil)
}

func (a *Attachment) add(ctx context.Context) (netip.Prefix, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, pluginsWithin, fmt.Errorf("its plugins were not ready after %v", pluginsWithin))
	defer cancel()
	said, err := a.plugins().AddNetworkList(ctx, a.network.list, &a.runtime)
	if err != nil {
		return netip.Prefix{}, errors.Join(err, context.Cause(ctx))
	}
	result, err := types.GetResult(said)
	if err != nil {
		return netip.Prefix{}, err
	}
	for _, ip := range result.IPs {
		address, ok := netip.AddrFromSlice(ip.Address.IP)
		if address = address.Unmap(); ok && (address.Is4() || len(result.IPs) == 1) {
			bits, _ := ip.Address.Mask.Size()
			return netip.PrefixFrom(address, bits), nil
		}
	}
	return netip.Prefix{}, fmt.Errorf("it gave no IPv4 address: %v", result.IPs)
}

// Detach takes the namespace off the network, also when ctx is cancelled. It is
// idempotent.
func (a *Attachment) Detach(ctx context.Context) error {
	if _, err := os.Stat(a.dir); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), pluginsWithin, fmt.Errorf("its plugins were not done after %v", pluginsWithin))
	defer cancel()
	if err := a.plugins().DelNetworkList(ctx, a.network.list, &a.runtime); err != nil {
		return fmt.Errorf("detach %s from the CNI network %s: %w", a.runtime.ContainerID, a.network, errors.Join(err, context.Cause(ctx)))
	}
	return os.RemoveAll(a.dir)
}

// Sweep takes away what a process that was killed has left on networks. It says what it
// did.
func Sweep(ctx context.Context, runDir string) (did []string, err error) {
	dir := notes(runDir)
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, e := range entries {
		list, err := libcni.NetworkConfFromFile(filepath.Join(dir, e.Name(), note))
		if errors.Is(err, os.ErrNotExist) { // it was killed before it asked a plugin
			continue
		}
		if err == nil {
			a := &Attachment{network: &Network{list}, dir: filepath.Join(dir, e.Name()), runtime: runtimeOf(e.Name(), "")}
			err = a.Detach(ctx)
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		did = append(did, fmt.Sprintf("took %s off the CNI network %s", e.Name(), list.Name))
	}
	return did, errors.Join(errs...)
}
