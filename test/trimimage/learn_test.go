package trimimage

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"testing"
)

// TestLearnInOwnSystem: a command is observed in a root file system of the user's, on a
// disk, and works there on the kernel that was built of what it used.
func TestLearnInOwnSystem(t *testing.T) {
	b := newBench(t)
	root, disk := filepath.Join(b.dir, "root"), filepath.Join(b.dir, "root.img")
	b.must(t, "mmdebstrap", "--variant=minbase", "--mode=root", "--include=systemd,systemd-sysv,udev,kmod,iproute2", "bookworm", root)
	b.must(t, "mke2fs", "-q", "-t", "ext4", "-d", root, disk, "1G")
	out, code := b.tare(t, "trim", "learn", "--rootfs", disk, "--needs", "ext4,systemd,ipv4", "-o", filepath.Join(b.dir, "vxlan.yaml"),
		"--build", filepath.Join(b.dir, "kernel"), "--json", "--", "ip link add v0 type vxlan id 1 dstport 4789 dev lo && ip link show v0")
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, out)
	}
	var shown struct {
		Symbols []struct{ Symbol string }
		Weighed []struct {
			Release  string
			Bytes    int64
			Syscalls int
		}
	}
	if err := json.Unmarshal([]byte(out), &shown); err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(shown.Symbols, struct{ Symbol string }{"VXLAN"}) {
		t.Errorf("VXLAN is not among %v", shown.Symbols)
	}
	if w := shown.Weighed; len(w) != 2 || w[0].Release == w[1].Release || w[0].Bytes <= w[1].Bytes || w[0].Syscalls <= w[1].Syscalls {
		t.Errorf("stock, and what was made: %+v", w)
	}
}
