package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sys/unix"
)

// recipe is what an image is made of: the trees of its layers.
type recipe []tree

// build makes the image; empty trees are passed over.
func (r recipe) build(tmp string) (v1.Image, error) {
	var layers []v1.Layer
	for i, t := range r {
		if len(t) == 0 {
			continue
		}
		l, err := writeLayer(t, filepath.Join(tmp, fmt.Sprintf("layer-%d.tar", i)))
		if err != nil {
			return nil, err
		}
		layers = append(layers, l)
	}
	return makeImage(runtime.GOARCH, layers...)
}

// fingerprint tells whether the same image comes out again, without reading
// the files: by their identities, sizes and times of change. A file's ctime
// cannot be set, so contents do not change behind its back.
func (r recipe) fingerprint() (string, error) {
	sum := sha256.New()
	for _, t := range r {
		for _, k := range t.sorted() {
			e := t[k]
			fmt.Fprintf(sum, "%q %v %q %q\n", k, e.mode, e.link, e.data)
			if e.source == "" {
				continue
			}
			var st unix.Stat_t
			if err := unix.Stat(e.source, &st); err != nil {
				return "", fmt.Errorf("%s: %w", e.source, err)
			}
			fmt.Fprintf(sum, "%d %d %d %d %d\n", st.Dev, st.Ino, st.Size, st.Mtim.Nano(), st.Ctim.Nano())
		}
		fmt.Fprintln(sum, "layer")
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// recipe gives the root of a recipe's image. Where the same files have given an
// image before, and it is in the cache, nothing is read or written.
func (s *Store) recipe(ctx context.Context, r recipe) (Root, error) {
	mark, err := r.fingerprint()
	if err != nil {
		return Root{}, err
	}
	if err := s.private(); err != nil {
		return Root{}, fmt.Errorf("image store: %w", err)
	}
	note := filepath.Join(s.dir, "made-"+mark)
	if b, err := os.ReadFile(note); err == nil {
		digest := strings.TrimSpace(string(b))
		hash, err := v1.NewHash(digest)
		if err == nil {
			if root, err := use(ctx, filepath.Join(s.dir, hash.Hex), digest); err == nil {
				return root, nil
			}
		}
	}
	root, err := s.keep(ctx, r.build)
	if err != nil {
		return Root{}, err
	}
	// Not under the lock: another process can only write the same.
	if err := writeWhole(note, root.Digest+"\n"); err != nil {
		return Root{}, fmt.Errorf("image store: %w", err)
	}
	return root, nil
}

// writeWhole writes a file that others see whole or not at all.
func writeWhole(file, text string) error {
	f, err := os.CreateTemp(filepath.Dir(file), "note-")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // of a failure; after the rename there is nothing
	_, err = f.WriteString(text)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), file)
}
