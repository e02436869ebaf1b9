package bundle

import (
	"testing"

	"github.com/tarelab/tare/internal/target"
)

func TestAnotherUserHasNoCapabilities(t *testing.T) {
	for _, c := range []struct {
		user target.User
		want int
	}{{target.User{}, len(capabilities)}, {target.User{UID: 5, GID: 6}, 0}} {
		p := Config(target.Spec{ID: "tare-x", User: c.user}, Place{Rootfs: "/x"}).Process
		if len(p.Capabilities.Effective) != c.want || len(p.Capabilities.Permitted) != c.want || len(p.Capabilities.Bounding) != len(capabilities) {
			t.Errorf("user %v: capabilities %+v", c.user, p.Capabilities)
		}
		if !p.NoNewPrivileges || p.Terminal || p.Cwd != "/" {
			t.Errorf("process %+v", p)
		}
	}
}
