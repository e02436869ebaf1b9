package netpath

import (
	"testing"

	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/net"
)

// What the other machine says of its end of a tunnel is used only where it can be one.
func TestIntroduce(t *testing.T) {
	key, err := wgtypes.GeneratePrivateKey()
	if err != nil {
		t.Fatal(err)
	}
	public := key.PublicKey().String()
	for name, c := range map[string]struct {
		other *driver.Tunnel
		least int
		ok    bool
	}{
		"with a port":      {&driver.Tunnel{Key: public, Port: 51820}, 1, true},
		"it begins":        {&driver.Tunnel{Key: public}, 0, true},
		"nothing":          {nil, 0, false},
		"no port":          {&driver.Tunnel{Key: public}, 1, false},
		"a negative port":  {&driver.Tunnel{Key: public, Port: -1}, 0, false},
		"too high a port":  {&driver.Tunnel{Key: public, Port: 65536}, 1, false},
		"no key":           {&driver.Tunnel{Port: 1}, 1, false},
		"a part of a key":  {&driver.Tunnel{Key: public[:40], Port: 1}, 1, false},
		"no key's letters": {&driver.Tunnel{Key: "*" + public[1:], Port: 1}, 1, false},
	} {
		own := &net.Tunnel{Private: key}
		err := introduce(own, c.other, c.least)
		if (err == nil) != c.ok || err != nil && !driver.IsLab(err) {
			t.Errorf("%s: %v", name, err)
		}
		if c.ok && (own.Public != key.PublicKey() || own.Port != c.other.Port) {
			t.Errorf("%s: it knows %v at port %d", name, own.Public, own.Port)
		}
	}
	if err := introduce(nil, nil, 1); err != nil {
		t.Errorf("a path without a tunnel: %v", err)
	}
}
