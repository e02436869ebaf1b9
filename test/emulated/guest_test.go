package emulated

import (
	"bytes"
	"debug/elf"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/cavaliergopher/cpio"
)

// guestFiles are what the guest takes of the unpacked packages: the programs,
// and the libraries that runc and crun are linked with.
var guestFiles = []string{"bin", "lib", "lib64", "sbin", "usr/bin/busybox", "usr/sbin/runc", "usr/bin/runc", "usr/bin/crun", "usr/lib64", "usr/lib/*-linux-gnu*/*.so*"}

// guestModules are the kernel modules that containers need and Debian's
// kernels do not have built in.
var guestModules = []string{"overlay", "veth"}

// engineModules are those that engines and their disk need besides. One that a kernel
// has built in, or does not have any more, is no file: the engines' checks find out.
var engineModules = []string{
	"virtio_pci", "virtio_blk", "crc32c_generic", "ext4", "bridge", "br_netfilter", "nf_tables", "nft_compat", "nft_chain_nat",
	"nft_ct", "nft_nat", "nft_masq", "nft_fib_inet", "nf_conntrack_netlink", "xt_addrtype", "xt_comment", "xt_conntrack", "xt_mark",
	"xt_MASQUERADE", "xt_multiport", "xt_nat", "xt_tcpudp", "ip_set_hash_net", "xt_set",
}

// archive is an initramfs in the making: a cpio archive, uncompressed, since
// unpacking under emulation costs more than it saves.
type archive struct {
	w    *cpio.Writer
	have map[string]bool
}

// writeInitramfs puts the guest together: the packages' files below root, our
// tare, the script /init, the command that it runs, and modules: those that it needs, and
// those that it may have.
func writeInitramfs(to io.Writer, root, tare, arch, command string, need, may []string) error {
	a := archive{w: cpio.NewWriter(to), have: map[string]bool{}}
	for _, pattern := range guestFiles {
		if err := a.addMatches(root, pattern); err != nil {
			return err
		}
	}
	for _, need := range []string{"usr/bin/busybox", "usr/bin/crun"} {
		if !a.have[need] {
			return fmt.Errorf("the packages in %s hold no %s", root, need)
		}
	}
	if !a.have["usr/sbin/runc"] && !a.have["usr/bin/runc"] {
		return fmt.Errorf("the packages in %s hold no runc", root)
	}
	binary, err := os.ReadFile(tare)
	if err != nil {
		return err
	}
	init, err := os.ReadFile("init")
	if err != nil {
		return err
	}
	image, err := os.ReadFile("image.sh")
	if err != nil {
		return err
	}
	for _, dir := range []string{"root", "etc", "guest", "guest/modules"} {
		if err := a.dir(dir); err != nil {
			return err
		}
	}
	for name, data := range map[string][]byte{
		"init": init, "usr/bin/tare": binary,
		"guest/command":  []byte(command + "\n"),
		"guest/arch":     []byte(arch + "\n"),
		"guest/image.sh": image,
		"guest/date":     fmt.Appendln(nil, time.Now().Unix()),
		"etc/hostname":   []byte("loongson\n"),
		"etc/os-release": []byte("PRETTY_NAME=\"Debian's kernel and busybox, for a test\"\n"),
		"etc/passwd":     []byte("root:x:0:0:root:/root:/bin/sh\n"),
	} {
		if err := a.file(name, 0o755, data); err != nil {
			return err
		}
	}
	if err := a.addModules(root, need, may); err != nil {
		return err
	}
	return a.w.Close()
}

// diskSize holds the packages with engines and what those keep; the file is sparse.
const diskSize = "4G"

// writeDisk makes the file system that a machine with engines runs from: the packages
// whole. It needs no root.
func writeDisk(disk, root string) error {
	out, err := exec.Command("mkfs.ext4", "-q", "-F", "-O", "^has_journal", "-E", "root_owner=0:0", "-d", root, disk, diskSize).CombinedOutput()
	if err != nil {
		return fmt.Errorf("mkfs.ext4 of %s: %w: %s", root, err, out)
	}
	return nil
}

func (a archive) addMatches(root, pattern string) error {
	found, err := filepath.Glob(filepath.Join(root, pattern))
	if err != nil {
		return err
	}
	for _, path := range found {
		err := filepath.WalkDir(path, func(path string, _ fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			return a.copy(root, path)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// copy adds one entry of the packages under its own name.
func (a archive) copy(root, path string) error {
	name, err := filepath.Rel(root, path)
	if err != nil {
		return err
	}
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	switch {
	case info.IsDir():
		return a.dir(name)
	case info.Mode()&fs.ModeSymlink != 0:
		to, err := os.Readlink(path)
		if err != nil {
			return err
		}
		return a.entry(name, cpio.TypeSymlink|0o777, []byte(to))
	case info.Mode().IsRegular():
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return a.file(name, info.Mode().Perm(), data)
	}
	return fmt.Errorf("%s is neither a file, a directory nor a link", path)
}

func (a archive) dir(name string) error { return a.entry(name, cpio.TypeDir|0o755, nil) }

func (a archive) file(name string, mode fs.FileMode, data []byte) error {
	return a.entry(name, cpio.TypeReg|cpio.FileMode(mode), data)
}

// entry writes one entry, once, with the directories above it before it: the
// kernel makes none by itself.
func (a archive) entry(name string, mode cpio.FileMode, data []byte) error {
	if a.have[name] {
		return nil
	}
	if above := filepath.Dir(name); above != "." {
		if err := a.dir(above); err != nil {
			return err
		}
	}
	a.have[name] = true
	links := 1
	if mode&cpio.TypeDir == cpio.TypeDir {
		links = 2
	}
	if err := a.w.WriteHeader(&cpio.Header{Name: name, Mode: mode, Links: links, Size: int64(len(data))}); err != nil {
		return fmt.Errorf("initramfs: %s: %w", name, err)
	}
	_, err := a.w.Write(data)
	return err
}

// addModules adds the kernel modules and, before each, what it depends on,
// numbered in the order of their loading.
func (a archive) addModules(root string, need, may []string) error {
	if len(need)+len(may) == 0 {
		return nil
	}
	files := map[string]string{}
	err := filepath.WalkDir(filepath.Join(root, "usr/lib/modules"), func(path string, _ fs.DirEntry, err error) error {
		if name, _, ok := strings.Cut(filepath.Base(path), ".ko"); ok {
			files[strings.ReplaceAll(name, "-", "_")] = path
		}
		return err
	})
	if err != nil {
		return err
	}
	var order []string
	for _, name := range need {
		if order, err = loadOrder(order, files, name); err != nil {
			return err
		}
	}
	for _, name := range may {
		if files[name] == "" {
			continue
		}
		if order, err = loadOrder(order, files, name); err != nil {
			return err
		}
	}
	for i, name := range order {
		data, err := moduleText(files[name])
		if err != nil {
			return err
		}
		if err := a.file(fmt.Sprintf("guest/modules/%02d-%s.ko", i, name), 0o644, data); err != nil {
			return err
		}
	}
	return nil
}

// loadOrder appends a module to order, its dependencies first.
func loadOrder(order []string, files map[string]string, name string) ([]string, error) {
	if slices.Contains(order, name) {
		return order, nil
	}
	if files[name] == "" {
		return nil, fmt.Errorf("the kernel's package holds no module %s", name)
	}
	data, err := moduleText(files[name])
	if err != nil {
		return nil, err
	}
	needs, err := dependencies(data)
	if err != nil {
		return nil, fmt.Errorf("module %s: %w", files[name], err)
	}
	for _, need := range needs {
		if order, err = loadOrder(order, files, need); err != nil {
			return nil, err
		}
	}
	return append(order, name), nil
}

// moduleText is a module as the kernel takes it: busybox unpacks none.
func moduleText(path string) ([]byte, error) {
	if !strings.HasSuffix(path, ".xz") {
		return os.ReadFile(path)
	}
	out, err := exec.Command("xz", "--decompress", "--stdout", path).Output()
	if err != nil {
		return nil, fmt.Errorf("xz of %s: %w", path, err)
	}
	return out, nil
}

// dependencies reads the line "depends=" of a module's .modinfo section.
func dependencies(module []byte) ([]string, error) {
	f, err := elf.NewFile(bytes.NewReader(module))
	if err != nil {
		return nil, err
	}
	section := f.Section(".modinfo")
	if section == nil {
		return nil, fmt.Errorf("no section .modinfo")
	}
	text, err := section.Data()
	if err != nil {
		return nil, err
	}
	for line := range bytes.SplitSeq(text, []byte{0}) {
		if list, ok := strings.CutPrefix(string(line), "depends="); ok {
			return strings.FieldsFunc(strings.ReplaceAll(list, "-", "_"), func(r rune) bool { return r == ',' }), nil
		}
	}
	return nil, nil
}
