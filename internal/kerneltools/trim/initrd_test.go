package trim

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tarelab/tare/internal/image"
)

// boots plays a kernel that has unpacked an initramfs: on a tmpfs, as the first
// process of a PID namespace, with a command line in the place of /proc/cmdline.
const boots = `mount -t tmpfs root "$1" && cd "$1" && busybox cpio -i <"$2" 2>/dev/null && cp "$3" cmdline && exec chroot . /init single`

// A busybox that an initramfs cannot hold is refused before anything is built.
func TestBusyboxLacks(t *testing.T) {
	dir := t.TempDir()
	for want, text := range map[string]string{"bad magic number": "#!/bin/sh\n# no ELF file, and longer than the header of one: 64 bytes it has\n", "executable file not found": ""} {
		if text != "" {
			if err := os.WriteFile(filepath.Join(dir, "busybox"), []byte(text), 0o755); err != nil {
				t.Fatal(err)
			}
		} else if err := os.RemoveAll(filepath.Join(dir, "busybox")); err != nil {
			t.Fatal(err)
		}
		t.Setenv("PATH", dir)
		err := (&Options{Arch: X86, Compression: "lz4", Initrd: true}).checkTools(t.Context())
		var tools *ToolsError
		if !errors.As(err, &tools) || !slices.Contains(tools.Packages, "busybox-static") || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestInitramfs: the initramfs finds the root by name, UUID and label, mounts it as
// it is told to, and becomes its init with the kernel's arguments and /dev; what it
// does not find or know, it names.
func TestInitramfs(t *testing.T) {
	busybox, err := findBusybox(t.Context(), X86)
	if err != nil {
		t.Fatal(err)
	}
	loop, uuid := rootDisk(t, busybox)
	script := InitScript
	InitScript = strings.NewReplacer("</proc/cmdline", "</cmdline", "-le 100", "-le 2").Replace(script)
	defer func() { InitScript = script }()
	var archive bytes.Buffer
	if err := Initramfs(t.Context(), &archive, busybox); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	initrd := filepath.Join(dir, InitrdName)
	if err := os.WriteFile(initrd, archive.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{
		"quiet root=" + loop + " rw init=/bin/told -- rw":       "told single rw /dev/null",
		"root=UUID=" + uuid + " rootfstype=ext4 init=/bin/told": "told single ro /dev/null",
		`root=LABEL=tareinitrd init=/bin/told glob=*`:           "told single ro /dev/null",
		"root=UUID=00000000-0000-0000-0000-000000000000":        "did not come in 10 s; the disks are: major minor",
		"root=PARTUUID=1-2":                 "it mounts /dev/NAME, UUID= and LABEL=",
		"quiet":                             "tare: initrd: root=:",
		"root=" + loop + " rootfstype=vfat": "cannot be mounted",
	} {
		cmdline, root := filepath.Join(dir, "cmdline"), filepath.Join(dir, "root")
		if err := errors.Join(os.WriteFile(cmdline, []byte(line+"\n"), 0o644), os.MkdirAll(root, 0o755)); err != nil {
			t.Fatal(err)
		}
		out, err := exec.CommandContext(t.Context(), "unshare", "--mount", "--pid", "--fork", "sh", "-c", boots, "sh", root, initrd, cmdline).CombinedOutput()
		if !strings.Contains(string(out), want) || (err == nil) != strings.HasPrefix(want, "told") {
			t.Errorf("%s: %q, %v, want %q", line, out, err, want)
		}
	}
}

// rootDisk is a loop device with a root on it, whose init says how it was started,
// and its UUID.
func rootDisk(t *testing.T, busybox []byte) (device, uuid string) {
	t.Helper()
	tree, disk := t.TempDir(), filepath.Join(t.TempDir(), "disk")
	for name, text := range map[string]string{"bin/busybox": string(busybox), "dev/.keep": "", "proc/.keep": "",
		"bin/told": "#!/bin/busybox sh\nbusybox mount -t proc proc /proc\nwhile read -r _ dir _ options _; do [ \"$dir\" = / ] && mode=${options%%,*}; done </proc/mounts\necho told \"$1\" \"$mode\" $(busybox ls /dev/null)\n"} {
		file := filepath.Join(tree, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	if err := image.Ext4(t.Context(), disk, tree); err != nil {
		t.Fatal(err)
	}
	said := func(program string, args ...string) string {
		out, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v: %s", program, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	said("tune2fs", "-L", "tareinitrd", disk)
	for line := range strings.Lines(said("tune2fs", "-l", disk)) {
		if value, ok := strings.CutPrefix(line, "Filesystem UUID:"); ok {
			uuid = strings.TrimSpace(value)
		}
	}
	out, err := exec.CommandContext(t.Context(), "losetup", "-f", "--show", disk).CombinedOutput()
	if err != nil {
		t.Skipf("no loop devices here: %v: %s", err, out)
	}
	device = strings.TrimSpace(string(out))
	t.Cleanup(func() {
		if out, err := exec.Command("losetup", "-d", device).CombinedOutput(); err != nil {
			t.Errorf("losetup -d %s: %v: %s", device, err, out)
		}
	})
	return device, uuid
}
