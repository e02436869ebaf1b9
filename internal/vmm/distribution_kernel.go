package vmm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
)

// Stock is a distribution's kernel with its modules, unpacked, not installed.
type Stock struct {
	Package string // name and version, "linux-image-6.1.0-56-cloud-amd64 6.1.192-2"; "" for this machine's own
	Kernel  Kernel
	Modules string // directory of the modules
}

// stockPackages are, per architecture, the packages that bring a kernel for
// guests, the smallest first: Debian's, then Ubuntu's.
var stockPackages = map[string][]string{
	"amd64":    {"linux-image-cloud-amd64", "linux-image-amd64", "linux-image-virtual"},
	"arm64":    {"linux-image-cloud-arm64", "linux-image-arm64", "linux-image-virtual"},
	"loong64":  {"linux-image-loong64"},
	"mips64le": {"linux-image-loongson-3"},
	"riscv64":  {"linux-image-riscv64", "linux-image-virtual"},
}

// NoKernelError says that there is no kernel to boot guests with.
type NoKernelError struct{ Err error }

func (e *NoKernelError) Error() string {
	return fmt.Sprintf("no kernel for guests: %v", e.Err)
}

// Unwrap gives the cause.
func (e *NoKernelError) Unwrap() error { return e.Err }

// StockKernel gives the distribution's kernel for guests, below dir, which keeps
// it: downloaded by apt by the package's name and unpacked, nothing installed.
// Where apt cannot, the kernel that this machine was booted with serves.
// Processes that fetch at once do the same work twice, and no harm.
func StockKernel(ctx context.Context, dir string) (Stock, error) {
	for _, meta := range stockPackages[runtime.GOARCH] {
		if s, err := readStock(filepath.Join(dir, meta)); err == nil {
			return s, nil
		}
	}
	var errs []error
	for _, meta := range stockPackages[runtime.GOARCH] {
		err := fetchStock(ctx, "", meta, filepath.Join(dir, meta))
		if err == nil {
			var s Stock
			if s, err = readStock(filepath.Join(dir, meta)); err == nil {
				return s, nil
			}
		}
		if ctx.Err() != nil {
			return Stock{}, ctx.Err()
		}
		errs = append(errs, err)
	}
	own, err := readStock("/")
	if err != nil {
		return Stock{}, &NoKernelError{errors.Join(append(errs, err)...)}
	}
	return own, nil
}

// fetchStock downloads the parts of a kernel that a package leads to, and unpacks them
// into dir.
func fetchStock(ctx context.Context, a apt, lead, dir string) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(filepath.Dir(dir), "tmp-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	names, err := a.kernelParts(ctx, lead)
	if err != nil {
		return err
	}
	if _, err := a.run(ctx, tmp, "apt-get", append([]string{"-qq", "download"}, names...)...); err != nil {
		return err
	}
	debs, err := filepath.Glob(filepath.Join(tmp, "*.deb"))
	if err != nil {
		return err
	}
	whole := filepath.Join(tmp, "whole")
	for _, deb := range debs {
		if _, err := a.run(ctx, tmp, "dpkg", "-x", deb, whole); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(whole, "package"), []byte(packageText(debs)), 0o644); err != nil {
		return err
	}
	if err := os.Chmod(whole, 0o755); err != nil {
		return err
	}
	if err := os.Rename(whole, dir); err != nil {
		if _, rerr := readStock(dir); rerr != nil {
			return err
		} // another process was faster
	}
	return nil
}

// packageText is "NAME VERSION" of the kernel's package, by its file's name.
func packageText(debs []string) string {
	name, rest, _ := strings.Cut(filepath.Base(debs[0]), "_")
	version, _, _ := strings.Cut(rest, "_")
	return name + " " + strings.ReplaceAll(version, "%3a", ":")
}

// part are the packages that hold a kernel or its modules.
var part = regexp.MustCompile(`^linux-(image|modules|binary)(-unsigned)?-[0-9]`)

// apt is the machine's package manager, by the configuration of that path; "" is the
// machine's own.
type apt string

// kernelParts are the packages with the kernel and its modules that a package leads
// to: itself, its dependencies and theirs.
func (a apt) kernelParts(ctx context.Context, lead string) ([]string, error) {
	var found []string
	if part.MatchString(lead) {
		found = append(found, lead)
	}
	for next := []string{lead}; len(next) > 0; {
		out, err := a.run(ctx, "", "apt-cache", append([]string{"depends", "--important", "--no-recommends"}, next...)...)
		if err != nil {
			return nil, err
		}
		next = nil
		for line := range strings.Lines(out) {
			name := strings.TrimSpace(strings.TrimPrefix(strings.TrimLeft(line, " |"), "Depends:"))
			if strings.Contains(line, "Depends:") && part.MatchString(name) && !slices.Contains(found, name) {
				found, next = append(found, name), append(next, name)
			}
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("package %s is not known to apt, or depends on no kernel", lead)
	}
	return found, nil
}

// run runs a program and returns its standard output; an error has what it said.
func (a apt) run(ctx context.Context, dir, name string, args ...string) (string, error) {
	c := exec.CommandContext(ctx, name, args...)
	c.Dir = dir
	c.Env = append(os.Environ(), "LC_ALL=C") // what it says is read
	if a != "" {
		c.Env = append(c.Env, "APT_CONFIG="+string(a))
	}
	out, err := c.Output()
	var ended *exec.ExitError
	if errors.As(err, &ended) {
		said := bytes.TrimSpace(ended.Stderr) // warnings first
		return "", fmt.Errorf("%s %s: %w: %s", name, args[0], err, said[max(0, len(said)-300):])
	}
	return string(out), err
}

// readStock finds kernel and modules below root: /boot/vmlinuz-VERSION (or
// /boot/vmlinux-VERSION) and /lib/modules/VERSION. Of several it takes the one
// that runs, else the last by name.
func readStock(root string) (Stock, error) {
	files, err := filepath.Glob(filepath.Join(root, "boot/vmlinu[xz]-*"))
	if err != nil || len(files) == 0 {
		return Stock{}, errors.Join(err, fmt.Errorf("no kernel in %s", filepath.Join(root, "boot")))
	}
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return Stock{}, err
	}
	file := files[len(files)-1]
	for _, f := range files {
		if strings.HasSuffix(f, "-"+strings.TrimSpace(string(release))) {
			file = f
		}
	}
	k, err := Inspect(file)
	if err != nil {
		return Stock{}, err
	}
	_, version, _ := strings.Cut(filepath.Base(file), "-")
	s := Stock{Kernel: k, Modules: ModulesOf(root, version)}
	if s.Modules == "" {
		return s, fmt.Errorf("kernel %s has no modules beside it", file)
	}
	text, err := os.ReadFile(filepath.Join(root, "package"))
	if err == nil {
		s.Package = string(text)
	}
	return s, nil
}

// ModulesOf is the directory of a kernel's modules below root; "" where there
// is none.
func ModulesOf(root, version string) string {
	for _, top := range []string{"lib/modules", "usr/lib/modules"} {
		dir := filepath.Join(root, top, version)
		if info, err := os.Stat(filepath.Join(dir, "kernel")); version != "" && err == nil && info.IsDir() {
			return dir
		}
	}
	return ""
}
