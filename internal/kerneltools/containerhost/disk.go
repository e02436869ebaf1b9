package containerhost

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/driver/vm"
	"github.com/tarelab/tare/internal/image"
	"github.com/tarelab/tare/internal/sys"
	"github.com/tarelab/tare/internal/vmm"
)

// hostSuite and hostPackages are the container host's: Debian's smallest system
// with systemd, its cloud kernel, Docker, Podman and two OCI runtimes. Without AppArmor's
// programs Docker refuses to work on a kernel that has AppArmor.
const hostSuite = "bookworm"

var hostPackages = []string{
	"systemd", "systemd-sysv", "dbus", "udev", "kmod", "procps", "docker.io", "containerd", "podman", "runc", "crun", "iptables", "apparmor",
	"busybox-static", "iproute2", "initramfs-tools", "linux-image-cloud-amd64", "zstd",
}

// hostDisk is the size of the disk, in bytes; what is not written to takes no
// room on the host.
const hostDisk = 4 << 30

// mmdebstrapLog is what mmdebstrap said last, and unfetched what apt says in it where
// the archive is out of reach.
const mmdebstrapLog = "mmdebstrap.log"

var unfetched = regexp.MustCompile(`(?m)^E: (Failed to fetch|Unable to fetch|Unable to locate package) .*`)

// base is the container host's tree.
func (m *hostParts) base(ctx context.Context, tell func(string)) (string, error) {
	return m.tree(ctx, hostPackages, nil, tell)
}

// tree is a Debian system of these packages, made by mmdebstrap with these options
// more.
func (m *hostParts) tree(ctx context.Context, packages, options []string, tell func(string)) (string, error) {
	dir := m.treeDir(packages, options)
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	program, err := exec.LookPath("mmdebstrap")
	if err != nil {
		return "", &driver.CannotError{Target: "vm", Lacks: "mmdebstrap is not installed", Remedy: "apt-get install mmdebstrap"}
	}
	tell("making the container host's files with mmdebstrap (a minute or two)")
	tmp := dir + ".tmp"
	if err := sys.RemoveTree(tmp); err != nil {
		return "", driver.Labf("container host: %w", err)
	}
	args := slices.Concat([]string{"--variant=minbase", "--mode=root", `--aptopt=Acquire::Retries "3"`, "--include=" + strings.Join(packages, ",")}, options, []string{hostSuite, tmp})
	if err := m.command(ctx, mmdebstrapLog, program, args...); err != nil {
		said, rerr := os.ReadFile(filepath.Join(m.dir, mmdebstrapLog))
		if line := unfetched.Find(said); rerr == nil && line != nil && ctx.Err() == nil {
			return "", notToBeHad(string(line))
		}
		return "", err
	}
	if err := os.Rename(tmp, dir); err != nil {
		return "", driver.Labf("container host: %w", err)
	}
	return dir, nil
}

func (m *hostParts) baseDir() string { return m.treeDir(hostPackages, nil) }

func (m *hostParts) treeDir(packages, options []string) string {
	return filepath.Join(m.dir, "base-"+vm.Digest(append([]string{hostSuite, strings.Join(packages, ",")}, options...)...)[:16])
}

// diskKey names the disk with an image in it.
func (m *hostParts) diskKey(oci string) (string, error) {
	index, err := os.ReadFile(filepath.Join(oci, "index.json"))
	if err != nil {
		return "", driver.Labf("image: %w", err)
	}
	agent, err := sys.FileDigest(m.lab.InitPath)
	if err != nil {
		return "", driver.Labf("the guest's agent: %w", err)
	}
	return vm.Digest(m.baseDir(), string(index), agent, hostUnits, string(proofBundle()))[:16], nil
}

func (m *hostParts) diskFile(key string) string { return filepath.Join(m.dir, "disk-"+key+".ext4") }

// disk is the container host's, with an image loaded into its Docker, and with the image's
// files for its runtimes.
func (m *hostParts) disk(ctx context.Context, h *Host, rootfs, oci string, tell func(string)) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	key, ok := m.keys[oci]
	if !ok {
		var err error
		if key, err = m.diskKey(oci); err != nil {
			return "", err
		}
		m.keys[oci] = key
	}
	file := m.diskFile(key)
	now := time.Now() // of last use; no measurement
	if os.Chtimes(file, now, now) == nil {
		return file, nil
	}
	if err := m.sweep(); err != nil {
		return "", driver.Labf("container host: %w", err)
	}
	base, err := m.base(ctx, tell)
	if err != nil {
		return "", err
	}
	tmp := file + ".tmp"
	defer os.Remove(tmp)
	tell("making the container host's disk")
	if err := m.fill(ctx, base, rootfs, oci, tmp); err != nil {
		return "", err
	}
	tell("booting it once with the distribution's kernel, to load the workbench into its Docker (a minute or two)")
	if err := m.load(ctx, h, tmp, tell); err != nil {
		return "", fmt.Errorf("container host: the boot that completes its disk: %w", err)
	}
	if err := os.Rename(tmp, file); err != nil {
		return "", driver.Labf("container host: %w", err)
	}
	return file, nil
}

// sweep removes disks that nobody has used for long, and what killed processes
// left.
func (m *hostParts) sweep() error {
	entries, err := os.ReadDir(m.dir)
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			continue // another process has removed it
		}
		age := time.Since(info.ModTime())
		disk, left := strings.HasPrefix(e.Name(), "disk-"), strings.HasPrefix(e.Name(), "tree-") || strings.HasSuffix(e.Name(), ".tmp")
		if disk && age > vm.Unused || left && age > time.Hour {
			errs = append(errs, sys.RemoveTree(filepath.Join(m.dir, e.Name())))
		}
	}
	return errors.Join(errs...)
}

// hostUnits are the agent's: one tells of docker0 from early on, the other takes
// requests once the engine is up.
const hostUnits = `[Unit]
Description=tare's agent: docker0's moments
DefaultDependencies=no
Before=docker.service sysinit.target
[Service]
ExecStart=` + hostAgent + ` links
--
[Unit]
Description=tare's agent
After=docker.service
[Service]
ExecStart=` + hostAgent + ` service
`

// fill makes a disk of the distribution's files and tare's own.
func (m *hostParts) fill(ctx context.Context, base, rootfs, oci, file string) (err error) {
	tree, err := os.MkdirTemp(m.dir, "tree-")
	if err != nil {
		return driver.Labf("container host: %w", err)
	}
	defer func() { err = errors.Join(err, sys.RemoveTree(tree)) }()
	if err := m.command(ctx, "copy.log", "cp", "-al", base+"/.", tree); err != nil {
		return err
	}
	if err := m.ours(tree, oci); err != nil {
		return driver.Labf("container host: %w", err)
	}
	if err := m.command(ctx, "copy.log", "cp", "-a", rootfs+"/.", filepath.Join(tree, hostRootfs)); err != nil {
		return err
	}
	if err := image.Ext4Of(ctx, file, tree, hostDisk); err != nil {
		return driver.Labf("container host: %w", err)
	}
	return nil
}

// ours writes what is tare's into the tree: files of base are linked to it, so
// that none of them may be written to.
func (m *hostParts) ours(tree, oci string) error {
	agent, err := os.ReadFile(m.lab.InitPath)
	if err != nil {
		return err
	}
	links, service, _ := strings.Cut(hostUnits, "--\n")
	for _, f := range []struct {
		path string
		mode os.FileMode
		data []byte
	}{
		{hostAgent, 0o755, agent},
		{filepath.Join(filepath.Dir(hostAgent), "config.json"), 0o644, proofBundle()},
		{"/etc/systemd/system/tare-links.service", 0o644, []byte(links)},
		{"/etc/systemd/system/tare-agent.service", 0o644, []byte(service)},
		{"/etc/machine-id", 0o444, []byte("7461726500000000000000000000cafe\n")}, // else each boot is a first boot
		{"/etc/hostname", 0o644, []byte("tare\n")},
	} {
		file := filepath.Join(tree, f.path)
		if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, f.data, f.mode)); err != nil {
			return err
		}
	}
	for unit, wanted := range map[string]string{"tare-links.service": "sysinit.target.wants", "tare-agent.service": "multi-user.target.wants"} {
		dir := filepath.Join(tree, "etc/systemd/system", wanted)
		if err := errors.Join(os.MkdirAll(dir, 0o755), os.Symlink("../"+unit, filepath.Join(dir, unit))); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(filepath.Join(tree, hostRootfs), 0o755); err != nil {
		return err
	}
	return archive(oci, filepath.Join(tree, hostArchive))
}

// archive writes the one image of a layout as docker save does.
func archive(oci, file string) error {
	index, err := layout.ImageIndexFromPath(oci)
	if err != nil {
		return err
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return err
	}
	if len(manifest.Manifests) != 1 {
		return fmt.Errorf("%s holds %d images, want 1", oci, len(manifest.Manifests))
	}
	img, err := index.Image(manifest.Manifests[0].Digest)
	if err != nil {
		return err
	}
	tag, err := name.NewTag(hostImage)
	if err != nil {
		return err
	}
	return tarball.WriteToFile(file, tag, img)
}

// loadScript loads the image into Docker, sees a container act, and leaves
// nothing behind.
const loadScript = `set -e
docker load -q -i ` + hostArchive + `
rm ` + hostArchive + `
docker run --rm ` + hostImage + ` ` + driver.Mark + ` -- /bin/busybox true`

// load boots the disk with the distribution's kernel and loads the image.
func (m *hostParts) load(ctx context.Context, h *Host, disk string, tell func(string)) error {
	said, err := m.once(ctx, h, arm{systemd: true}, []vmm.Disk{{Path: disk, Own: true}}, loadScript, tell)
	if err != nil {
		return err
	}
	if said.exit.Code != 0 || said.exit.Signal != 0 {
		return fmt.Errorf("docker load ended with code %d: %s", said.exit.Code, lastWords(said.text))
	}
	return nil
}
