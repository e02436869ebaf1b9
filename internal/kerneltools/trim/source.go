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
// that was fetched serves. say reports what takes time.
func (s Store) Source(ctx context.Context, name string, say func(string)) (string, error) {
	if strings.Contains(name, "/") || !sourcePackage.MatchString(name) {
		return checkTree(name)
	}
	deb, err := packageFile(ctx, name)
	var unknown *SourceError
	if errors.As(err, &unknown) {
		if tree := s.Last(name); tree != "" {
			say(fmt.Sprintf("apt knows no %s here and now: taking %s", name, tree))
			return tree, nil
		}
	}
	if err != nil {
		return "", err
	}
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
	if err := unpackPackage(ctx, name, work, say); err != nil {
		return "", err
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
		return "", &SourceError{fmt.Sprintf("no package %s: %v; apt-cache search linux-source lists them, apt-get update fetches the lists", name, err)}
	}
	fields := strings.Fields(out)
	if len(fields) < 2 || !strings.HasSuffix(fields[1], ".deb") {
		return "", fmt.Errorf("apt-get download --print-uris %s said %q", name, out)
	}
	return filepath.Base(fields[1]), nil
}

// unpackPackage leaves the tree in work/tree.
func unpackPackage(ctx context.Context, name, work string, say func(string)) error {
	if _, err := run(ctx, work, "apt-get", "-o", "Acquire::Retries=3", "download", name); ctx.Err() != nil {
		return ctx.Err()
	} else if err != nil {
		return &FetchError{fmt.Sprintf("%s cannot be had: %v; apt-get update fetches the lists anew", name, err)}
	}
	deb, err := onlyFile(filepath.Join(work, "*.deb"))
	if err != nil {
		return fmt.Errorf("fetch %s: %w", name, err)
	}
	say("unpacking " + filepath.Base(deb))
	if _, err := run(ctx, work, "dpkg", "-x", deb, "package"); err != nil {
		return fmt.Errorf("unpack %s: %w", name, err)
	}
	archive, err := onlyFile(filepath.Join(work, "package", "usr", "src", name+".tar.*"))
	if err != nil {
		return fmt.Errorf("unpack %s: %w", name, err)
	}
	if err := os.Mkdir(filepath.Join(work, "tree"), 0o755); err != nil {
		return fmt.Errorf("unpack %s: %w", name, err)
	}
	if _, err := run(ctx, work, "tar", "-xf", archive, "-C", "tree", "--strip-components=1", "--no-same-owner"); err != nil {
		return fmt.Errorf("unpack %s: %w", name, err)
	}
	return nil
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
