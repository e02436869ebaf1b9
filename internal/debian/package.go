package debian

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path"
	"strings"

	"github.com/tarelab/tare/internal/limit"
)

// Files gives each entry of a package to take, in the package's order. Names are clean
// and have no leading slash; "." is the root.
func (p Package) Files(ctx context.Context, take func(*tar.Header, io.Reader) error) error {
	return p.read(ctx, "--fsys-tarfile", take)
}

// Control are the package's control files by name: "control" describes it, the others
// belong to dpkg's database.
func (p Package) Control(ctx context.Context) (map[string][]byte, error) {
	files := map[string][]byte{}
	err := p.read(ctx, "--ctrl-tarfile", func(h *tar.Header, r io.Reader) error {
		if h.Typeflag != tar.TypeReg {
			return nil
		}
		data, err := limit.PackageControl.ReadAll(r)
		files[h.Name] = data
		return err
	})
	if err == nil && files["control"] == nil {
		err = fmt.Errorf("package %s has no control file", p.Name)
	}
	return files, err
}

// read gives the entries of one of a package's two archives to take.
func (p Package) read(ctx context.Context, which string, take func(*tar.Header, io.Reader) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // dpkg-deb ends where take fails
	c := exec.CommandContext(ctx, "dpkg-deb", which, p.File)
	var errs bytes.Buffer
	c.Stderr = &errs
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		return fmt.Errorf("package %s: %w", p.Name, err)
	}
	if err := entries(out, take); err != nil {
		cancel()
		_ = c.Wait() // of what was ended here
		return fmt.Errorf("package %s: %w", p.Name, err)
	}
	if err := c.Wait(); err != nil {
		return fmt.Errorf("package %s: dpkg-deb %s: %w: %s", p.Name, which, err, strings.TrimSpace(errs.String()))
	}
	return nil
}

func entries(from io.Reader, take func(*tar.Header, io.Reader) error) error {
	in := tar.NewReader(from)
	for n := 1; ; n++ {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			_, err := io.Copy(io.Discard, from) // its padding
			return err
		}
		if err == nil {
			err = limit.ImageArchive.CheckItems(n)
		}
		if err != nil {
			return err
		}
		h.Name = clean(h.Name)
		if h.Typeflag == tar.TypeLink {
			h.Linkname = clean(h.Linkname)
		}
		if err := take(h, in); err != nil {
			return fmt.Errorf("%s: %w", h.Name, err)
		}
	}
}

// clean makes a name of an archive one below the root.
func clean(name string) string {
	if c := strings.TrimPrefix(path.Clean("/"+name), "/"); c != "" {
		return c
	}
	return "."
}
