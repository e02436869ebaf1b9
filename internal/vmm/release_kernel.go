package vmm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// suites are those of Debian in which releases are looked for, and flavours the kernels
// of each architecture for guests, the smallest first.
var (
	suites   = []string{"bullseye", "bookworm", "bookworm-backports", "trixie", "trixie-backports", "sid"}
	flavours = map[string][]string{
		"amd64":    {"cloud-amd64", "amd64"},
		"arm64":    {"cloud-arm64", "arm64"},
		"loong64":  {"loong64"},
		"mips64le": {"loongson-3"},
		"riscv64":  {"riscv64"},
	}
)

// ReleaseKernel gives Debian's newest kernel of a release, as debian/6.1, below dir,
// which keeps it. It is downloaded from any suite of Debian by an apt configuration of
// its own, and unpacked: nothing is installed, and the machine's own lists stay as they
// are. $DEBIAN_MIRROR replaces deb.debian.org. A kernel that cannot be had is a
// *NoKernelError.
func ReleaseKernel(ctx context.Context, dir, name string) (Stock, error) {
	version, ok := strings.CutPrefix(name, "debian/")
	if !ok {
		return Stock{}, &NoKernelError{fmt.Errorf("%s: only Debian's kernels are known by their release", name)}
	}
	at := filepath.Join(dir, strings.ReplaceAll(name, "/", "-"))
	if s, err := readStock(at); err == nil {
		return s, nil
	}
	err := withDebian(ctx, filepath.Join(dir, "apt"), func(a apt) error {
		return a.fetchRelease(ctx, version, at)
	})
	var s Stock
	if err == nil {
		s, err = readStock(at)
	}
	if err != nil && ctx.Err() == nil {
		err = &NoKernelError{fmt.Errorf("%s: %w", name, err)}
	}
	return s, err
}

// fetchRelease downloads and unpacks the newest kernel of a release, as 6.1.
func (a apt) fetchRelease(ctx context.Context, version, at string) error {
	names, err := a.run(ctx, "", "apt-cache", "pkgnames", "linux-image-"+version)
	if err != nil {
		return err
	}
	for _, flavour := range flavours[runtime.GOARCH] {
		if newest := newestImage(strings.Fields(names), version, flavour); newest != "" {
			return fetchStock(ctx, a, newest, at)
		}
	}
	return fmt.Errorf("Debian has no kernel of this release for %s in %s", runtime.GOARCH, strings.Join(suites, ", ")) //nolint:staticcheck // a name
}

// newestImage is the newest of the packages that hold a kernel of a version and a
// flavour; "" for none. The numbers in their names are compared.
func newestImage(names []string, version, flavour string) string {
	image := regexp.MustCompile(`^linux-image-` + regexp.QuoteMeta(version) + `[.-][0-9][0-9.]*(\+[a-z]+[0-9.]*)?(-[0-9]+)?-` + flavour + `$`)
	names = slices.DeleteFunc(slices.Clone(names), func(n string) bool { return !image.MatchString(n) })
	if len(names) == 0 {
		return ""
	}
	return slices.MaxFunc(names, func(a, b string) int { return slices.Compare(numbers(a), numbers(b)) })
}

// numbers are those in a text, in their order.
func numbers(text string) (all []int) {
	for _, digits := range regexp.MustCompile(`[0-9]{1,9}`).FindAllString(text, -1) {
		n, _ := strconv.Atoi(digits) // nine digits fit
		all = append(all, n)
	}
	return all
}

// keyring verifies Debian's archive.
const keyring = "/usr/share/keyrings/debian-archive-keyring.gpg"

// withDebian calls use with an apt of its own below dir, which knows the packages of
// all suites. Its lists are fetched again after a day. One process at a time uses it.
func withDebian(ctx context.Context, dir string, use func(apt) error) error {
	if _, err := os.Stat(keyring); err != nil {
		return fmt.Errorf("%w: the package debian-archive-keyring has it", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	defer lock.Close()
	for unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
	config, err := writeDebian(ctx, dir)
	if err != nil {
		return err
	}
	fetched := filepath.Join(dir, "fetched")
	if info, err := os.Stat(fetched); err != nil || time.Since(info.ModTime()) > 24*time.Hour {
		if _, err := config.run(ctx, "", "apt-get", "-qq", "update"); err != nil {
			return err
		}
		if err := os.WriteFile(fetched, nil, 0o644); err != nil {
			return err
		}
	}
	return use(config)
}

// writeDebian writes the configuration of an apt below dir.
func writeDebian(ctx context.Context, dir string) (apt, error) {
	architecture, err := apt("").run(ctx, "", "dpkg", "--print-architecture")
	if err != nil {
		return "", err
	}
	var sources strings.Builder
	for _, suite := range suites {
		fmt.Fprintf(&sources, "deb [signed-by=%s] %s %s main\n", keyring, cmp.Or(os.Getenv("DEBIAN_MIRROR"), "http://deb.debian.org/debian"), suite)
	}
	config := filepath.Join(dir, "apt.conf")
	return apt(config), errors.Join(
		os.MkdirAll(filepath.Join(dir, "empty"), 0o755), os.MkdirAll(filepath.Join(dir, "lists/partial"), 0o755), os.MkdirAll(filepath.Join(dir, "archives/partial"), 0o755),
		os.WriteFile(filepath.Join(dir, "status"), nil, 0o644),
		os.WriteFile(filepath.Join(dir, "sources.list"), []byte(sources.String()), 0o644),
		os.WriteFile(config, []byte(aptConfig(dir, strings.TrimSpace(architecture))), 0o644),
	)
}

// aptConfig keeps all of apt's state below dir. The index of a suite has a date after
// which it is not believed any more: a mirror that is behind serves an old one, signed
// all the same, and its kernels are as good.
func aptConfig(dir, architecture string) string {
	return fmt.Sprintf(`APT::Architecture %[2]q;
#clear APT::Architectures;
APT::Architectures { %[2]q; };
APT::Sandbox::User "";
Acquire::Languages "none";
Acquire::Check-Valid-Until "false";
Acquire::Retries "3";
Dir::State %[1]q;
Dir::State::status "%[1]s/status";
Dir::State::lists "%[1]s/lists";
Dir::Cache %[1]q;
Dir::Cache::archives "%[1]s/archives";
Dir::Etc::sourcelist "%[1]s/sources.list";
Dir::Etc::sourceparts "%[1]s/empty";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "%[1]s/empty";
`, dir, architecture)
}
