package trim

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/tarelab/tare/internal/debian"
)

// sourcePackage is a package with a kernel's source: Debian's, as linux-source-6.1,
// or Ubuntu's, as linux-source-5.15.0.
var sourcePackage = regexp.MustCompile(`^linux-source-\d+\.\d+(\.\d+)?$`)

// A Store is where sources and objects are kept between processes, a directory.
type Store string

// StoreIn is the store in tare's cache directory.
func StoreIn(cache string) Store { return Store(filepath.Join(cache, "kernel")) }

// Objects names the directory for the objects of a source's kernels, by the source's
// path; another choice of configuration has its own by what.
func (s Store) Objects(source string, what ...string) string {
	name := filepath.Base(source)
	if filepath.Dir(source) != string(s) { // another's tree may have the same name
		sum := sha256.Sum256([]byte(source))
		name += "-" + hex.EncodeToString(sum[:4])
	}
	return filepath.Join(string(s), "build", strings.Join(append([]string{name}, what...), "-"))
}

// A SourceError says that there is no such source.
type SourceError struct{ message string }

func (e *SourceError) Error() string { return e.message }

// A FetchError says that a source's package cannot be fetched now.
type FetchError struct{ message string }

func (e *FetchError) Error() string { return e.message }

// Source finds a kernel's source tree: a directory, or a package such as
// linux-source-6.1, which is fetched and unpacked into the store without being
// installed. A package is fetched once a version; where apt knows none, the last
// that was fetched serves, else that of Debian's archive. say reports what takes time.
func (s Store) Source(ctx context.Context, name string, say func(string)) (string, error) {
	if strings.Contains(name, "/") || !sourcePackage.MatchString(name) {
		return checkTree(name)
	}
	deb, err := packageFile(ctx, name)
	var unknown *SourceError
	if !errors.As(err, &unknown) {
		if err != nil {
			return "", err
		}
		return s.keep(ctx, name, deb, say, func(work string) (string, error) { return download(ctx, name, work) })
	}
	if tree := s.Last(name); tree != "" {
		say(fmt.Sprintf("apt knows no %s here and now: taking %s", name, tree))
		return tree, nil
	}
	suite, known := suites[name]
	if !known {
		return "", err
	}
	say(fmt.Sprintf("apt knows no %s here: asking for that of Debian %s", name, suite))
	return s.ofDebian(ctx, name, suite, say)
}

// suites are those of Debian that have each source, on every machine.
var suites = map[string]string{"linux-source-5.10": "bullseye", "linux-source-6.1": "bookworm", "linux-source-6.12": "trixie"}

// ofDebian takes a source from Debian's archive, through an index of its own beside the
// store. $DEBIAN_MIRROR replaces Debian's mirror.
func (s Store) ofDebian(ctx context.Context, name, suite string, say func(string)) (tree string, err error) {
	port, _ := debian.PortOf("amd64") // a source is the same for all
	port.Suite = suite
	r, err := debian.Archive{Port: port, Mirror: debian.Mirror(), Dir: filepath.Join(filepath.Dir(string(s)), "debian")}.Open(ctx)
	if err != nil {
		return "", unlessEnded(ctx, err)
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	packages, err := r.Fetch(ctx, []string{name})
	if err != nil {
		return "", unlessEnded(ctx, err)
	}
	for _, p := range packages {
		if p.Name == name {
			return s.keep(ctx, name, filepath.Base(p.File), say, func(string) (string, error) { return p.File, nil })
		}
	}
	return "", &FetchError{fmt.Sprintf("%s is not among what Debian %s has of that name", name, suite)}
}

// unlessEnded is the error of a package that cannot be fetched, or of the end of ctx.
func unlessEnded(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return &FetchError{err.Error()}
}

// keep unpacks a package's file into the store, unless its version is there.
func (s Store) keep(ctx context.Context, name, deb string, say func(string), fetch func(work string) (string, error)) (string, error) {
	cache := string(s)
	kept := filepath.Join(cache, strings.TrimSuffix(deb, ".deb"))
	if tree, err := checkTree(kept); err == nil {
		return tree, nil
	}
	say("fetching " + deb)
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", fmt.Errorf("kernel source: %w", err)
	}
	work, err := os.MkdirTemp(cache, "fetch-")
	if err != nil {
		return "", fmt.Errorf("kernel source: %w", err)
	}
	defer os.RemoveAll(work)
	file, err := fetch(work)
	if err != nil {
		return "", err
	}
	say("unpacking " + deb)
	if err := unpack(ctx, name, file, work); err != nil {
		return "", fmt.Errorf("unpack %s: %w", name, err)
	}
	if err := os.RemoveAll(kept); err != nil { // what an interrupted run may have left
		return "", fmt.Errorf("kernel source: %w", err)
	}
	if err := os.Rename(filepath.Join(work, "tree"), kept); err != nil {
		return "", fmt.Errorf("kernel source: %w", err)
	}
	return checkTree(kept)
}

// Last is the tree of a package that was unpacked last, "" for none.
func (s Store) Last(name string) (tree string) {
	kept, err := filepath.Glob(filepath.Join(string(s), name+"_*"))
	if err != nil { // a bad pattern: a directory's name with brackets
		return ""
	}
	var newest time.Time
	for _, dir := range kept {
		info, err := os.Stat(dir)
		if err != nil || !info.ModTime().After(newest) {
			continue
		}
		if dir, err = checkTree(dir); err == nil {
			tree, newest = dir, info.ModTime()
		}
	}
	return tree
}

// packageFile is the name of the package's file in its present version.
func packageFile(ctx context.Context, name string) (string, error) {
	out, err := run(ctx, "", "apt-get", "download", "--print-uris", name)
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	if err != nil {
		return "", noPackage(name, err)
	}
	return offered(name, out)
}

// offered is the file in what apt-get download --print-uris says of a package.
func offered(name, out string) (string, error) {
	fields := strings.Fields(out)
	if len(fields) < 2 || !strings.HasSuffix(fields[1], ".deb") {
		return "", fmt.Errorf("apt-get download --print-uris %s said %q", name, out)
	}
	deb := filepath.Base(fields[1])
	if !strings.HasPrefix(deb, name+"_") { // apt took the name for a regular expression
		return "", noPackage(name, fmt.Errorf("apt offers %s", deb))
	}
	return deb, nil
}

func noPackage(name string, err error) error {
	return &SourceError{fmt.Sprintf("no package %s: %v; apt-cache search linux-source lists them, apt-get update fetches the lists", name, err)}
}

// download fetches a package by the machine's apt.
func download(ctx context.Context, name, work string) (string, error) {
	if _, err := run(ctx, work, "apt-get", "-o", "Acquire::Retries=3", "download", name); err != nil {
		return "", unlessEnded(ctx, fmt.Errorf("%s cannot be had: %w; apt-get update fetches the lists anew", name, err))
	}
	deb, err := onlyFile(filepath.Join(work, "*.deb"))
	if err != nil {
		return "", fmt.Errorf("fetch %s: %w", name, err)
	}
	return deb, nil
}

// unpack leaves the tree of a package's file in work/tree.
func unpack(ctx context.Context, name, deb, work string) error {
	if _, err := run(ctx, work, "dpkg", "-x", deb, "package"); err != nil {
		return err
	}
	archive, err := onlyFile(filepath.Join(work, "package", "usr", "src", name+".tar.*"))
	if err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Join(work, "tree"), 0o755); err != nil {
		return err
	}
	_, err = run(ctx, work, "tar", "-xf", archive, "-C", "tree", "--strip-components=1", "--no-same-owner")
	return err
}

// onlyFile is the one file of a pattern.
func onlyFile(pattern string) (string, error) {
	files, err := filepath.Glob(pattern)
	if err == nil && len(files) != 1 {
		err = fmt.Errorf("%d files are %s, want one", len(files), pattern)
	}
	if err != nil {
		return "", err
	}
	return files[0], nil
}

// checkTree makes sure that a directory is a kernel's source.
func checkTree(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	for _, name := range []string{"Makefile", "Kconfig", "scripts/kconfig/Makefile"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			return "", &SourceError{fmt.Sprintf("%s is no kernel source tree: %v", dir, err)}
		}
	}
	return dir, nil
}

// run runs a program and gives its standard output; its error holds the last of
// what it said.
func run(ctx context.Context, dir, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	out, err := cmd.Output()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case errors.As(err, &exit):
		return "", fmt.Errorf("%s: %w: %s", program, err, strings.TrimSpace(string(exit.Stderr)))
	case err != nil:
		return "", err
	}
	return string(out), nil
}
