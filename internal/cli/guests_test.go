package cli_test

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tarelab/tare/internal/image"
	"github.com/tarelab/tare/internal/store"
	"github.com/tarelab/tare/internal/vmm"
)

var long = flag.Bool("long", false, "measure two-machines --quick between two guests")

// guestInit is the first process of a guest. It makes what a machine with systemd has,
// and then does what it reads from the serial console.
const guestInit = `#!/bin/busybox sh
if [ "$1" != moved ]; then # pivot_root cannot leave the initramfs
	busybox mkdir /moved
	busybox mount -t tmpfs -o mode=0755 root /moved
	busybox cp -a /bin /sbin /lib* /usr /etc /init /modules /study.yaml /long.yaml /moved
	cd /moved
	busybox mkdir -p dev proc sys tmp run root var/tmp etc
	exec busybox switch_root /moved /init moved
fi
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TARE_STATE=/state
mount -t devtmpfs dev /dev
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t cgroup2 cgroup /sys/fs/cgroup
for module in /modules/*; do insmod "$module"; done
eval "$(tr ' ' '\n' </proc/cmdline | grep ^address=)"
ip link set lo up
ip addr add "$address/24" dev eth0
echo 0 >/proc/sys/net/ipv6/conf/eth0/accept_dad # the address is there at once
ip link set eth0 up
ip addr add "2001:db8::${address##*.}/64" dev eth0
mkdir -p /etc/cni/net.d
from=203.0.113.${address##*.} # each machine gives addresses of its own
echo '{"cniVersion": "0.4.0", "name": "lab", "plugins": [{"type": "macvlan", "master": "eth0",
	"ipam": {"type": "host-local", "ranges": [[{"subnet": "203.0.113.0/24", "rangeStart": "'${from}0'", "rangeEnd": "'${from}9'"}]]}}]}' >/etc/cni/net.d/10-lab.conflist
exec </dev/ttyS0 >/dev/ttyS0 2>&1
stty -echo
echo "guest: code 0"
while read -r line; do
	eval "$line"
	echo "guest: code $?"
done
`

// guestModules are those of Debian's kernel that paths between two machines take.
var guestModules = []string{"virtio_pci", "virtio_net", "virtio_blk", "overlay", "veth", "bridge", "vxlan", "wireguard", "macvlan", "ipvlan"}

// everyRemotePath is the study of all paths between two machines.
const everyRemotePath = "remote, remote-vxlan, remote-wireguard, remote-macvlan, remote-ipvlan, remote-cni"

// guestPlugins are those of the guests' CNI network.
var guestPlugins = []string{"/usr/lib/cni/macvlan", "/usr/lib/cni/host-local"}

// guests are two virtual machines, 198.51.100.1 and .2, 2001:db8::1 and ::2, with Debian's kernel, the files of
// this machine's workbench, tare, and a link between them that has delay and loss.
func guests(t *testing.T) (here, there *guest) {
	t.Helper()
	dir := t.TempDir()
	kernel, err := vmm.StockKernel(t.Context(), filepath.Join(cacheDir(t), "guests", "kernels"))
	if err != nil {
		t.Fatal(err)
	}
	writeGuest(t, filepath.Join(dir, "initrd"), kernel.Modules, guestModules)
	var both [2]*guest
	for i := range both {
		both[i] = boot(t, dir, kernel.Kernel.Path, i+1)
	}
	var ends [2]*net.UnixConn
	for i, g := range both {
		g.run(t, "") // it is up, and so is its end of the link
		at := filepath.Join(dir, fmt.Sprintf("guest%d", i+1))
		ends[i], err = net.DialUnix("unixgram", &net.UnixAddr{Name: at + ".host", Net: "unixgram"}, &net.UnixAddr{Name: at, Net: "unixgram"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { ends[i].Close() })
	}
	go carry(ends[0], ends[1])
	go carry(ends[1], ends[0])
	return both[0], both[1]
}

// cacheDir is where tare keeps what it has fetched.
func cacheDir(t *testing.T) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(cache, "tare")
}

// writeGuest makes the guests' initial file system, with those of a kernel's modules.
func writeGuest(t *testing.T, file, modules string, names []string) {
	t.Helper()
	files := []image.File{
		{Path: "/init", Mode: 0o755, Data: []byte(guestInit)},
		{Path: "/study.yaml", Mode: 0o644, Data: fmt.Appendf(nil, machinesStudy, everyRemotePath, "remote", "300ms")},
		{Path: "/long.yaml", Mode: 0o644, Data: fmt.Appendf(nil, machinesStudy, "remote", "remote", "60s")},
	}
	tare := filepath.Join(t.TempDir(), "tare")
	build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w -X main.version=test", "-o", tare, "../../cmd/tare")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build of cmd/tare: %v: %s", err, out)
	}
	data, err := os.ReadFile(tare)
	if err != nil {
		t.Fatal(err)
	}
	files = append(files, image.File{Path: "/usr/bin/tare", Mode: 0o755, Data: data})
	images := image.NewStore(t.TempDir())
	bench, err := images.Workbench(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer bench.Close()
	root, err := images.ForCommands(t.Context(), bench, guestPlugins)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	ordered, missing, err := vmm.Modules(t.Context(), modules, names)
	if err != nil || len(missing) > 0 {
		t.Fatalf("the kernel has no modules %q: %v", missing, err)
	}
	for i, m := range ordered {
		files = append(files, image.File{Path: fmt.Sprintf("/modules/%02d-%s.ko", i, m.Name), Mode: 0o644, Data: m.Data})
	}
	f, err := os.Create(file)
	if err == nil {
		err = errors.Join(image.Initramfs(t.Context(), f, root.Rootfs, files), f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// guest is a virtual machine that does what it is told by its serial console.
type guest struct {
	*exec.Cmd
	console io.Writer
	lines   *bufio.Scanner
	disk    string // where it leaves files, as a tar archive
}

// patience is how long guests may run: many times what they take on an idle machine.
const patience = 30 * time.Minute

// boot starts the nth guest. Its kernel leaves cmpxchg16b alone, as in tare's own guests
// (withoutCX16 of internal/vmm): two of two boots of 6.12 died of it in QEMU 7.2.
func boot(t *testing.T, dir, kernel string, n int) *guest {
	t.Helper()
	at := filepath.Join(dir, fmt.Sprintf("guest%d", n))
	g := &guest{disk: at + ".disk"}
	if err := errors.Join(os.WriteFile(g.disk, nil, 0o600), os.Truncate(g.disk, 256<<20)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	g.Cmd = exec.CommandContext(ctx, "qemu-system-x86_64", "-M", "q35", "-accel", "tcg", "-cpu", "max", "-m", "1536", "-nodefaults", "-display", "none", "-no-reboot",
		"-serial", "stdio", "-kernel", kernel, "-initrd", filepath.Join(dir, "initrd"), "-append", fmt.Sprintf("console=ttyS0 loglevel=1 panic=-1 clearcpuid=141 address=198.51.100.%d", n),
		"-netdev", fmt.Sprintf("dgram,id=link,local.type=unix,local.path=%[1]s,remote.type=unix,remote.path=%[1]s.host", at),
		"-device", fmt.Sprintf("virtio-net-pci,netdev=link,romfile=,mac=02:00:00:00:00:%02d", n),
		"-drive", "if=none,id=disk,format=raw,file="+g.disk, "-device", "virtio-blk-pci,drive=disk")
	g.Stderr = os.Stderr
	out, err := g.StdoutPipe()
	if err == nil {
		g.console, err = g.StdinPipe()
	}
	if err == nil {
		err = g.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel() // it may have been killed
		_ = g.Wait()
	})
	g.lines = bufio.NewScanner(out)
	return g
}

var guestCode = regexp.MustCompile(`^(.*)guest: code (\d+)$`)

// run runs a command in the guest, and gives what it printed and its exit code. The empty
// command waits for the guest's start.
func (g *guest) run(t *testing.T, command string) (said string, code int) {
	t.Helper()
	g.begin(t, command)
	for g.lines.Scan() {
		if m := guestCode.FindStringSubmatch(g.lines.Text()); m != nil {
			code, _ = strconv.Atoi(m[2]) // digits of an exit code
			return said + m[1], code
		}
		said += g.lines.Text() + "\n"
	}
	t.Fatalf("the guest ended in %q: %v; it said: %s", command, g.lines.Err(), said)
	return "", 0
}

// begin has the guest begin with a command.
func (g *guest) begin(t *testing.T, command string) {
	t.Helper()
	if command == "" {
		return
	}
	if _, err := io.WriteString(g.console, command+"\n"); err != nil {
		t.Fatal(err)
	}
}

// must runs a command that has to end with success.
func (g *guest) must(t *testing.T, command string) string {
	t.Helper()
	said, code := g.run(t, command)
	if code != 0 {
		t.Fatalf("%s ended with code %d: %s", command, code, said)
	}
	return said
}

// runs brings the guest's runs into a state directory here.
func (g *guest) runs(t *testing.T) (state string) {
	t.Helper()
	state = t.TempDir()
	g.must(t, "tar -C /state -cf /dev/vda runs && sync")
	if out, err := exec.Command("tar", "-C", state, "-xf", g.disk).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return state
}

// knowsBoth looks for the facts of both machines in the newest run of a state directory.
func knowsBoth(t *testing.T, state, address string) {
	t.Helper()
	dirs, err := filepath.Glob(filepath.Join(state, "runs", "*"))
	if err != nil || len(dirs) == 0 {
		t.Fatalf("runs %v, %v", dirs, err)
	}
	run, err := store.Open(dirs[len(dirs)-1])
	if err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	m := run.Manifest()
	if m.Host.Emulated == "" || m.Peer == nil || m.Peer.There != address || m.Peer.Host.Kernel == "" || m.Peer.Host.Emulated == "" {
		t.Errorf("the run knows %+v of the other machine; this one is emulated: %q", m.Peer, m.Host.Emulated)
	}
}

// TestReleases weighs, and looks who waits for locks, on Debian's kernels of several
// releases: what they lack is measured in another way, and nothing is left behind.
func TestReleases(t *testing.T) {
	if !*long {
		t.Skip("it boots a guest of each release: go test -run Releases -args -long")
	}
	for _, release := range []string{"debian/5.10", "debian/6.1", "debian/6.12"} {
		t.Run(release, func(t *testing.T) {
			dir := t.TempDir()
			kernel, err := vmm.ReleaseKernel(t.Context(), runtime.GOARCH, filepath.Join(cacheDir(t), "guests", "kernels"), filepath.Join(cacheDir(t), "debian"), release)
			if err != nil {
				t.Fatal(err)
			}
			writeGuest(t, filepath.Join(dir, "initrd"), kernel.Modules, []string{"virtio_pci", "virtio_net", "virtio_blk", "overlay"})
			g := boot(t, dir, kernel.Kernel.Path, 1)
			g.run(t, "") // it is up
			if said := g.must(t, "uname -r"); !strings.HasPrefix(said, strings.TrimPrefix(release, "debian/")) {
				t.Errorf("the guest runs %s", said)
			}
			g.must(t, "tare check --on host,native")
			g.must(t, "tare weigh --on host,native --blocks 2 -- true")
			said := g.must(t, "tare locks --on native --blocks 1 -- sh -c 'for i in 1 2 3 4; do true & done; wait'")
			if estimated := strings.Contains(said, "estimated"); estimated != (release == "debian/5.10") { // which has no tracepoints of locks
				t.Errorf("waits are estimated: %v; it said: %s", estimated, said)
			}
			for _, one := range trials(t, g.runs(t)) {
				if one.Failure != nil {
					t.Errorf("%s: %+v", one.Cell, one.Failure)
				}
			}
			if said := g.must(t, "tare sweep --json"); said != "[]\n" {
				t.Errorf("left is %s", said)
			}
		})
	}
}

// TestTwoGuests measures between two virtual machines, then loses one of them in a trial.
// Nothing is left on the other one.
func TestTwoGuests(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("the guests are PCs")
	}
	here, there := guests(t)
	there.begin(t, "tare serve --listen [::]:7450 2>/dev/null")
	s := &serving{Cmd: there.Cmd, lines: there.lines}
	runs := []struct{ address, what, paths string }{
		{"198.51.100.2", "/study.yaml", everyRemotePath},
		{"2001:db8::2", "/study.yaml --set range=fd74:6172:6500::/112", everyRemotePath},
	}
	if *long {
		runs[0].what, runs[0].paths = "two-machines --quick", "remote, remote-vxlan"
	}
	for _, r := range runs {
		s.next(t)
		_, key, _ := strings.Cut(s.peer, "#")
		began := time.Now()
		said, code := here.run(t, "TARE_PEER="+net.JoinHostPort(r.address, "7450")+"#"+key+" tare run "+r.what)
		if code != 0 {
			t.Fatalf("tare run %s with %s ended with code %d: %s", r.what, r.address, code, said)
		}
		t.Logf("tare run %s with %s: %s (emulated: no figure of performance)", r.what, r.address, time.Since(began).Round(time.Second))
		state := here.runs(t)
		knowsBoth(t, state, r.address)
		measured := map[string]bool{}
		for _, one := range trials(t, state) {
			_, path, _ := strings.Cut(one.Cell, "@")
			path, _, _ = strings.Cut(path, "/")
			measured[path] = true
			if one.Failure != nil {
				t.Errorf("%s: %+v", one.Cell, one.Failure)
			}
		}
		for _, path := range strings.Split(r.paths, ", ") {
			if !measured[path] {
				t.Errorf("nothing was measured with %s on %s", r.address, path)
			}
		}
	}

	// One machine ends as if its power had failed, when client and server are connected.
	s.next(t)
	here.begin(t, "TARE_PEER="+s.peer+` tare run /long.yaml >/said 2>&1 & until [ "$(ls /state/runs | wc -l)" = 3 ] && netstat -tn | grep ' 198.51.100.2:' | grep -qv ':7450 '; do sleep 1; done`)
	here.run(t, "")
	_ = there.Process.Kill()
	said, code := here.run(t, "wait $!; code=$?; cat /said; (exit $code)")
	if code == 0 {
		t.Errorf("a run that lost the other machine ended with code 0: %s", said)
	}
	lost := trials(t, here.runs(t))
	for _, one := range lost {
		if one.Failure == nil || one.Failure.Fault != "laboratory" {
			t.Errorf("%s: %+v", one.Cell, one.Failure)
		}
	}
	if len(lost) == 0 {
		t.Errorf("no trial is recorded: %s", said)
	}
	if said := here.must(t, "tare sweep --json"); said != "[]\n" {
		t.Errorf("left is %s", said)
	}
	if said, _ := here.run(t, "ls /var/lib/cni/networks/lab 2>/dev/null | grep ^203"); said != "" {
		t.Errorf("the CNI network still keeps %s", said)
	}
}
