package drivertest

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/tarelab/tare/internal/driver"
)

// New gives the test a laboratory: the guest binaries of this checkout, a small
// rootfs with busybox and the mark helper, and a private run directory.
func New(t *testing.T) driver.Lab {
	t.Helper()
	bin, err := guestBinaries()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	lab := driver.Lab{
		LaunchPath: filepath.Join(bin, "launch"),
		MarkPath:   filepath.Join(bin, "mark"),
		InitPath:   filepath.Join(bin, "init"),
		TestRootfs: filepath.Join(dir, "rootfs"),
		RunDir:     filepath.Join(dir, "run"),
		ToolDirs:   toolDirs(),
		CacheDir:   cacheDir(),
		Root:       os.Geteuid() == 0,
		Cgroup:     driver.Label,
	}
	for _, path := range []string{lab.LaunchPath, lab.MarkPath} {
		if _, err := os.Stat(path); err != nil {
			t.Fatalf("the C helpers are not there: %v (run `make generated`)", err)
		}
	}
	if err := errors.Join(os.Mkdir(lab.RunDir, 0o755), makeRootfs(lab.TestRootfs, lab.MarkPath)); err != nil {
		t.Fatal(err)
	}
	// The test's directories are 0700 above; a payload that runs as another user
	// needs only the rootfs itself, which is its root.
	return lab
}

// guestBinaries is helpers/bin/linux_ARCH of the module that the test runs in.
func guestBinaries() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; dir != "/"; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return filepath.Join(dir, "helpers", "bin", "linux_"+runtime.GOARCH), nil
		}
	}
	return "", errors.New("no go.mod above the test's directory: run the tests inside the checkout")
}

// cacheDir is tare's own: what was fetched once serves every test. "" without a
// home directory.
func cacheDir() string {
	cache, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(cache, "tare")
}

// toolDirs is where `make tools` puts what it builds.
func toolDirs() []string {
	cache := cacheDir()
	if cache == "" {
		return nil // only PATH is left
	}
	tools := filepath.Join(cache, "tools")
	return []string{tools, filepath.Join(tools, "youki", "bin")}
}

// Inside the rootfs: the paths that checks use.
const (
	markPath    = driver.Mark
	busybox     = "/bin/busybox"
	shell       = "/bin/sh"
	crashPath   = "/bin/crash"
	patternPath = "/data/pattern"
	blankDir    = "/data/a b"
)

// patternBytes is the size of the file at patternPath: a length that divides
// no buffer, so that a lost or doubled block shows in the digest.
const patternBytes = 1<<20 - 7

// makeRootfs makes a root file system of busybox, its applets, the mark helper
// and the files that checks read.
func makeRootfs(root, mark string) error {
	for _, d := range []string{"bin", "dev", "proc", "sys", "tmp", "etc", "data", ".tare", blankDir} {
		if err := os.MkdirAll(filepath.Join(root, d), 0o755); err != nil {
			return err
		}
	}
	static, err := exec.LookPath("busybox")
	if err != nil {
		return fmt.Errorf("the contract suite needs busybox (apt-get install busybox-static): %w", err)
	}
	err = errors.Join(
		copyFile(filepath.Join(root, busybox), static),
		copyFile(filepath.Join(root, markPath), mark),
		os.WriteFile(filepath.Join(root, crashPath), crashELF(), 0o755),
		os.WriteFile(filepath.Join(root, patternPath), pattern(), 0o644),
		os.WriteFile(filepath.Join(root, "etc/passwd"), []byte("root:x:0:0:root:/:/bin/sh\n"), 0o644),
		os.WriteFile(filepath.Join(root, "etc/group"), []byte("root:x:0:\n"), 0o644),
		os.Chmod(filepath.Join(root, "tmp"), 0o1777),
	)
	if err != nil {
		return err
	}
	list, err := exec.Command(static, "--list").Output()
	if err != nil {
		return fmt.Errorf("busybox --list: %w", err)
	}
	for applet := range strings.FieldsSeq(string(list)) {
		if applet == "busybox" {
			continue
		}
		if err := os.Symlink("busybox", filepath.Join(root, "bin", applet)); err != nil {
			return err
		}
	}
	return nil
}

func copyFile(to, from string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, data, 0o755)
}

// pattern is patternBytes of noise, the same in every run.
func pattern() []byte {
	noise := rand.NewChaCha8([32]byte{'t', 'a', 'r', 'e'})
	data := make([]byte, patternBytes)
	_, _ = noise.Read(data) // "never returns an error"
	return data
}

// crashELF is a static executable whose only instructions are zero bytes. No
// architecture runs far on them: it dies of a synchronous signal, which reaches
// even the init of a PID namespace. Which signal, the suite asks the host.
func crashELF() []byte {
	machine := map[string]uint16{"amd64": 62, "arm64": 183, "riscv64": 243, "loong64": 258, "mips64le": 8}[runtime.GOARCH]
	var flags uint32
	if runtime.GOARCH == "mips64le" {
		flags = 0x60000000 // EF_MIPS_ARCH_64; the n64 ABI has no flag of its own
	}
	const base, header = 0x400000, 64 + 56
	image := []byte("\x7fELF\x02\x01\x01" + strings.Repeat("\x00", 9))
	word := binary.LittleEndian
	image = word.AppendUint16(image, 2) // ET_EXEC
	image = word.AppendUint16(image, machine)
	image = word.AppendUint32(image, 1)
	image = word.AppendUint64(image, base+header) // entry
	image = word.AppendUint64(image, 64)          // program headers
	image = word.AppendUint64(image, 0)
	image = word.AppendUint32(image, flags)
	for _, half := range []uint16{64, 56, 1, 0, 0, 0} {
		image = word.AppendUint16(image, half)
	}
	image = word.AppendUint32(image, 1) // PT_LOAD
	image = word.AppendUint32(image, 5) // readable, executable
	for _, v := range []uint64{0, base, base, 4096, 4096, 0x10000} {
		image = word.AppendUint64(image, v)
	}
	return append(image, make([]byte, 4096-len(image))...)
}

// digest hashes a tree: paths, modes, owners, sizes, link texts and contents.
func digest(root string) (string, error) {
	h := sha256.New()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		fmt.Fprintf(h, "%q %v %d %d\n", rel, info.Mode(), info.Size(), info.ModTime().UnixNano())
		switch {
		case info.Mode()&fs.ModeSymlink != 0:
			text, err := os.Readlink(path)
			fmt.Fprintf(h, "%q\n", text)
			return err
		case info.Mode().IsRegular():
			f, err := os.Open(path)
			if err != nil {
				return err
			}
			defer f.Close()
			_, err = io.Copy(h, f)
			return err
		}
		return nil
	})
	return hex.EncodeToString(h.Sum(nil)), err
}
