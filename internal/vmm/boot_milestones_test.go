package vmm

import (
	"slices"
	"testing"
)

func TestMilestonesAreToldOnceAndThroughColours(t *testing.T) {
	var got []string
	line := Milestones(func(name string) { got = append(got, name) })
	for _, l := range []string{
		"[    0.67] Freeing initrd memory: 27744K",
		"[    0.90] Freeing unused kernel image (initmem) memory: 2672K",
		"[    0.91] Freeing unused kernel image (rodata/data gap) memory: 1144K",
		"[    2.13] systemd[1]: systemd 252.39-1~deb12u1 running in system mode (+PAM)",
		"[\x1b[0;32m  OK  \x1b[0m] Reached target \x1b[0;1;39msysinit.target\x1b[0m - System Initialization.",
		"tare: docker0 created", "tare: docker0 up",
		"         Starting \x1b[0;1;39mdocker.service\x1b[0m - Docker Application Container Engine...",
		"[\x1b[0;32m  OK  \x1b[0m] Started \x1b[0;1;39mdocker.service\x1b[0m - Docker Application Container Engine.",
	} {
		line(l)
	}
	if want := []string{"initrd-freed", "kernel-up", "root", "modules", "docker0", "docker0-up", "engine"}; !slices.Equal(got, want) {
		t.Errorf("told of %q, want %q", got, want)
	}
}

// Systemd names itself with a v in some distributions, and each distribution by its name.
func TestRootOfEveryDistribution(t *testing.T) {
	for _, l := range []string{
		"[    2.1] systemd[1]: systemd v255-34.oe2403sp1 running in system mode (+PAM)", "Welcome to \x1b[1;31mopenEuler 24.03 (LTS-SP1)\x1b[0m!",
		"Welcome to \x1b[0;34mFedora Linux 42 (Cloud Edition)\x1b[0m!", "Welcome to \x1b[1mDebian GNU/Linux 12 (bookworm)\x1b[0m!",
	} {
		var got []string
		Milestones(func(name string) { got = append(got, name) })(l)
		if !slices.Equal(got, []string{"root"}) {
			t.Errorf("%q told of %q", l, got)
		}
	}
}
