package image

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/tarelab/tare/internal/limit"
	"github.com/tarelab/tare/internal/sys"
)

// Save writes the root's image as a tar of its OCI layout. The same image gives the same
// bytes.
func (r Root) Save(w io.Writer) error {
	out := tar.NewWriter(w)
	err := filepath.WalkDir(r.Layout, func(file string, e fs.DirEntry, err error) error { // in the order of names
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		name, err := filepath.Rel(r.Layout, file)
		if err != nil {
			return err
		}
		return copyFile(out, &tar.Header{Name: filepath.ToSlash(name), Mode: 0o644, Format: tar.FormatPAX}, file)
	})
	if err == nil {
		err = out.Close()
	}
	if err != nil {
		return fmt.Errorf("saving image %s: %w", r.Digest, err)
	}
	return nil
}

// digestSign begins the digest in FILE@sha256:DIGEST.
const digestSign = "@sha256:"

// Saved gives the workbench that Save wrote to a file, on this machine or another; ref is
// FILE@sha256:DIGEST. It is what it says or refused: another digest, another
// architecture, or other guest binaries than this build of tare has.
func (s *Store) Saved(ctx context.Context, ref string, guest map[string][]byte) (Root, error) {
	at := strings.LastIndex(ref, digestSign)
	if at < 1 {
		return Root{}, fmt.Errorf("workbench %q: give FILE@sha256:DIGEST, as tare image save prints it", ref)
	}
	file, want := ref[:at], ref[at+1:]
	var from foreign
	defer func() { from.close() }()
	r, err := s.keep(ctx, func(tmp string) (v1.Image, error) {
		var img v1.Image
		var err error
		if img, from, err = open(ctx, file, "", tmp); err != nil {
			return nil, err
		}
		digest, err := img.Digest()
		if err == nil && digest.String() != want {
			err = fmt.Errorf("its digest is %s and not %s: it is another image", digest, want)
		}
		return img, err
	})
	if err != nil {
		return Root{}, fmt.Errorf("workbench %s: %w", file, err)
	}
	if err := r.sameGuest(guest); err != nil {
		_ = r.Close() // only a lock for reading
		return Root{}, fmt.Errorf("workbench %s: %w", file, err)
	}
	r.saved, r.guest, r.Tools = file, guest, tools()
	for i, t := range r.Tools {
		if p, err := r.LookPath(t.Name, searchPath); err == nil {
			r.Tools[i].Path = p
		}
	}
	return r, nil
}

// sameGuest refuses a root whose guest binaries are not those of this build.
func (r Root) sameGuest(guest map[string][]byte) error {
	root, err := os.OpenRoot(r.Rootfs)
	if err != nil {
		return err
	}
	defer root.Close()
	for p, want := range guest {
		got, err := sys.ReadForeignIn(root, key(p), limit.Limit{Input: "helper program", Bytes: int64(len(want)) + 1})
		if err != nil || !bytes.Equal(got, want) {
			return fmt.Errorf("its helper program %s is not the one of this build: use one version of tare on all machines", path.Base(p))
		}
	}
	return nil
}

// withCommands is a saved workbench for commands that it has.
func (r Root) withCommands(names []string) (Root, error) {
	for _, n := range names {
		if _, err := r.LookPath(n, searchPath); err != nil {
			return Root{}, fmt.Errorf("the workbench %s lacks a command, and none of this machine is put into a saved one (save it with: tare image save FILE %s): %w", r.saved, n, err)
		}
	}
	r.Notes = slices.Clone(r.Notes)
	return r, nil
}
