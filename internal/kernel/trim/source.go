package trim

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// sourcePackage is a Debian package with a kernel's source.
var sourcePackage = regexp.MustCompile(`^linux-source-\d+\.\d+$`)

// A SourceError says that there is no such source.
type SourceError struct{ message string }

func (e *SourceError) Error() string { return e.message }

// A FetchError says that a source's package cannot be fetched now.
type FetchError struct{ message string }

func (e *FetchError) Error() string { return e.message }

// Source finds a kernel's source tree: a directory, or a Debian package such as
// linux-source-6.1, which is fetched and unpacked below cache without being
// installed. A package is fetched once a version. say reports what takes time.
func Source(ctx context.Context, name, cache string, say func(string)) (string, error) {
	if strings.Contains(name, "/") || !sourcePackage.MatchString(name) {
		return checkTree(name)
	}
	deb, err := packageFile(ctx, name)
	if err != nil {
		return "", err
	}
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
	debs, err := filepath.Glob(filepath.Join(work, "*.deb"))
	if err != nil || len(debs) != 1 {
		return fmt.Errorf("fetch %s: %d files came, want one (%w)", name, len(debs), err)
	}
	say("unpacking " + filepath.Base(debs[0]))
	if _, err := run(ctx, work, "dpkg", "-x", debs[0], "package"); err != nil {
		return fmt.Errorf("unpack %s: %w", name, err)
	}
	archive := filepath.Join(work, "package", "usr", "src", name+".tar.xz")
	if err := os.Mkdir(filepath.Join(work, "tree"), 0o755); err != nil {
		return fmt.Errorf("unpack %s: %w", name, err)
	}
	if _, err := run(ctx, work, "tar", "-xf", archive, "-C", "tree", "--strip-components=1", "--no-same-owner"); err != nil {
		return fmt.Errorf("unpack %s: %w", name, err)
	}
	return nil
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
