package bundle

import (
	"testing"

	"github.com/tarelab/tare/internal/driver"
)

func TestAnotherUserHasNoCapabilities(t *testing.T) {
	for _, c := range []struct {
		user driver.User
		want int
	}{{driver.User{}, len(Capabilities)}, {driver.User{UID: 5, GID: 6}, 0}} {
		p := Config(driver.Spec{ID: "tare-x", User: c.user}, Place{Rootfs: "/x"}).Process
		if len(p.Capabilities.Effective) != c.want || len(p.Capabilities.Permitted) != c.want || len(p.Capabilities.Bounding) != len(Capabilities) {
			t.Errorf("user %v: capabilities %+v", c.user, p.Capabilities)
		}
		if !p.NoNewPrivileges || p.Terminal || p.Cwd != "/" {
			t.Errorf("process %+v", p)
		}
	}
}
