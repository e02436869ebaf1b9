package vmm

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// virtiofsds is where distributions have the program: the first that is there.
var virtiofsds = []string{"/usr/libexec/virtiofsd", "/usr/lib/qemu/virtiofsd", "/usr/lib/virtiofsd", "/usr/libexec/qemu/vhost-user/virtiofsd"}

// virtiofsd is the program that serves a machine's shared directory. Its options are
// those that the program in C, up to QEMU 7.2, and the one in Rust both take.
func virtiofsd(m Machine) (helper, error) {
	path, err := exec.LookPath("virtiofsd")
	if err != nil {
		i := slices.IndexFunc(virtiofsds, func(file string) bool {
			info, err := os.Stat(file)
			return err == nil && info.Mode().IsRegular()
		})
		if i < 0 {
			return helper{}, fmt.Errorf("virtio-fs: virtiofsd is not installed (apt-get install virtiofsd, with QEMU up to 7.2 qemu-system-common); it is neither in PATH nor among %s", strings.Join(virtiofsds, ", "))
		}
		path = virtiofsds[i]
	}
	args := []string{path, "--fd=0", "-o", "source=" + m.Share}
	if m.ShareDirect {
		args = append(args, "-o", "allow_direct_io")
	}
	if strings.Contains(m.Share, ",") {
		return helper{}, fmt.Errorf("virtio-fs: virtiofsd takes no directory with a comma in its path: %s (set --state to another)", m.Share)
	}
	return helper{args: args, socket: "virtiofs"}, nil
}
