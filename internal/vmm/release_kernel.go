package vmm

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/tarelab/tare/internal/debian"
)

// suites are those of Debian in which releases are looked for, in this order, and
// flavours the kernels of each architecture for guests, the smallest first.
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

// ReleaseKernel gives Debian's kernel of a release, as debian/6.1, for an architecture as
// GOARCH has it, below dir, which keeps it: the newest one of the first suite that has the release. It is downloaded
// through an index of its own below archive, and unpacked: nothing is installed, and the
// machine's lists of packages stay as they are. $DEBIAN_MIRROR replaces Debian's mirror. A
// kernel that cannot be had is a *NoKernelError.
func ReleaseKernel(ctx context.Context, arch, dir, archive, name string) (Stock, error) {
	version, ok := strings.CutPrefix(name, "debian/")
	port, known := debian.PortOf(arch)
	if !ok || !known {
		return Stock{}, &NoKernelError{fmt.Errorf("%s: only Debian's kernels are known by their release, on %s", name, strings.Join(debian.Architectures(), ", "))}
	}
	at := filepath.Join(dir, strings.ReplaceAll(name, "/", "-"))
	if arch != runtime.GOARCH {
		at += "-" + arch
	}
	if s, err := readStock(at); err == nil {
		return s, nil
	}
	var errs []error
	for _, suite := range suites {
		port.Suite = suite
		found, err := fetchRelease(ctx, arch, debian.Archive{Port: port, Mirror: debian.Mirror(), Dir: archive}, version, at)
		if ctx.Err() != nil {
			return Stock{}, ctx.Err()
		}
		if found && err == nil {
			return readStock(at)
		}
		errs = append(errs, err)
	}
	return Stock{}, &NoKernelError{errors.Join(append(errs, fmt.Errorf("%s is in none of Debian's %s for %s", name, strings.Join(suites, ", "), port.Architecture))...)}
}

// fetchRelease downloads and unpacks the newest kernel of a release, as 6.1, where a
// suite has one.
func fetchRelease(ctx context.Context, arch string, from debian.Archive, version, at string) (found bool, err error) {
	r, err := from.Open(ctx)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	a := apt(r.Config())
	names, err := a.run(ctx, "", "apt-cache", "pkgnames", "linux-image-"+version)
	if err != nil {
		return false, err
	}
	for _, flavour := range flavours[arch] {
		if newest := newestImage(strings.Fields(names), version, flavour); newest != "" {
			return true, fetchStock(ctx, a, newest, at)
		}
	}
	return false, nil
}

// newestImage is the newest of the packages that hold a kernel of a version and a
// flavour; "" for none. The numbers in their names are compared.
func newestImage(names []string, version, flavour string) string {
	image := regexp.MustCompile(`^linux-image-` + regexp.QuoteMeta(version) + `[.-][0-9][0-9.]*(\+[a-z]+[0-9.]*)?(-[0-9]+)?-` + flavour + `$`)
	names = slices.DeleteFunc(slices.Clone(names), func(n string) bool { return !image.MatchString(n) })
	if len(names) == 0 {
		return ""
	}
	return slices.MaxFunc(names, CompareVersions)
}

// numbers are those in a text, in their order.
func numbers(text string) (all []int) {
	for _, digits := range regexp.MustCompile(`[0-9]{1,9}`).FindAllString(text, -1) {
		n, _ := strconv.Atoi(digits) // nine digits fit
		all = append(all, n)
	}
	return all
}

// releaseOf finds the release in a package's name.
var releaseOf = regexp.MustCompile(`^linux-image-([0-9]+\.[0-9]+)[.-]`)

// Releases are the releases of Debian's kernel, as debian/6.1, that its suites have for
// guests of this architecture, the oldest first. They are read through indexes below
// archive. Where no suite can be read, the error has each one's reason.
func Releases(ctx context.Context, archive string) ([]string, error) {
	port, known := debian.PortOf(runtime.GOARCH)
	if !known {
		return nil, &NoKernelError{fmt.Errorf("no kernel of Debian is for %s", runtime.GOARCH)}
	}
	var all []string
	var errs []error
	for _, suite := range suites {
		port.Suite = suite
		names, err := imagesOf(ctx, debian.Archive{Port: port, Mirror: debian.Mirror(), Dir: archive})
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		errs = append(errs, err)
		all = append(all, releasesIn(names)...)
	}
	if len(all) == 0 {
		return nil, &NoKernelError{errors.Join(errs...)}
	}
	slices.SortFunc(all, CompareVersions)
	return slices.Compact(all), nil
}

// imagesOf are the names of a suite's kernels.
func imagesOf(ctx context.Context, from debian.Archive) (names []string, err error) {
	r, err := from.Open(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	text, err := apt(r.Config()).run(ctx, "", "apt-cache", "pkgnames", "linux-image-")
	return strings.Fields(text), err
}

// releasesIn are the releases that packages have for guests, in no order.
func releasesIn(names []string) (all []string) {
	for _, name := range names {
		m := releaseOf.FindStringSubmatch(name)
		if m == nil || slices.Contains(all, "debian/"+m[1]) {
			continue
		}
		if slices.ContainsFunc(flavours[runtime.GOARCH], func(f string) bool { return newestImage(names, m[1], f) != "" }) {
			all = append(all, "debian/"+m[1])
		}
	}
	return all
}

// CompareVersions orders versions and releases by the numbers in them: negative where a
// is older than b.
func CompareVersions(a, b string) int { return slices.Compare(numbers(a), numbers(b)) }
