package engine

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"

	"github.com/tarelab/tare/internal/driver"
)

// A published port is bound to the address that clients dial, and not to those of the
// machine's own network.
func TestPublishedWhereClientsDial(t *testing.T) {
	gateway := netip.MustParseAddr("10.213.0.1")
	j := driver.Join{Network: "n", Address: netip.MustParsePrefix("10.213.0.3/20"), Gateway: gateway, Publish: "5201"}
	options := func(j driver.Join) (client.ContainerCreateOptions, error) {
		o := client.ContainerCreateOptions{Config: &container.Config{}, HostConfig: &container.HostConfig{}}
		return o, join(j, &o)
	}
	o, err := options(j)
	if err != nil {
		t.Fatal(err)
	}
	for _, protocol := range []string{"tcp", "udp"} {
		bound := o.HostConfig.PortBindings[network.MustParsePort("5201/"+protocol)]
		if len(bound) != 1 || bound[0].HostIP != gateway || bound[0].HostPort != "5201" {
			t.Errorf("%s: bound to %+v", protocol, bound)
		}
	}
	said := strings.Join(joinFlags(j), " ")
	if want := "--network n --ip 10.213.0.3 --publish 10.213.0.1:5201:5201 --publish 10.213.0.1:5201:5201/udp"; said != want {
		t.Errorf("got %q, want %q", said, want)
	}
	j.Gateway = netip.Addr{}
	if _, err := options(j); err == nil {
		t.Error("a port was published at all addresses")
	}
}

// A sweep asks again for a network that the engine has not released yet.
func TestSweepOfANetworkInUse(t *testing.T) {
	var removals atomic.Int32
	socket := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Api-Version", "1.41")
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.Method == http.MethodDelete && removals.Add(1) == 1:
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, `{"message":"error while removing network: network n has active endpoints"}`)
		case r.Method == http.MethodDelete:
			w.WriteHeader(http.StatusNoContent)
		case strings.HasSuffix(r.URL.Path, "/networks"):
			fmt.Fprint(w, `[{"Name":"n","Id":"0123"}]`)
		default:
			fmt.Fprint(w, "{}")
		}
	})
	c, err := connect(socket)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := tidyNetworks(t.Context(), c, "me"); err != nil || removals.Load() != 2 {
		t.Errorf("asked %d times: %v", removals.Load(), err)
	}
}

// A private engine that does not let go of a network is started again by the next trial.
// With a user's own it is an error.
func TestNetworkThatStays(t *testing.T) {
	socket := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Api-Version", "1.41")
		w.Header().Set("Content-Type", "application/json")
		if r.Method == http.MethodDelete {
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, `{"message":"error while removing network: network n has active endpoints"}`)
		}
	})
	c, err := connect(socket)
	if err != nil {
		t.Fatal(err)
	}
	for _, own := range []*private{nil, {died: make(chan struct{})}} {
		e := newEngine(driver.Lab{}, docker(), "docker")
		e.private, e.watchdog.end = own, func() {}
		ctx, cancel := context.WithTimeout(t.Context(), 3*emptyEvery)
		err := e.removeNetwork(ctx, c, "n")
		cancel()
		if hangs := e.watchdog.hung() != nil; hangs != (own != nil) || driver.IsLab(err) != (own == nil) || driver.IsRestart(err) != hangs {
			t.Errorf("private: %t, hangs: %t, %v", own != nil, hangs, err)
		}
	}
}
