package kbuild

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
)

// search reads all of the tree's code, several files at once, and says where the
// definitions are that find finds in a file's text.
func (t *Tree) search(ctx context.Context, find func(text []byte) []definition) (map[kind]map[string][]Origin, error) {
	group, ctx := errgroup.WithContext(ctx)
	files := make(chan string, 256)
	found := make(chan definition, 256)
	group.Go(func() error {
		defer close(files)
		return t.sources(func(name string) error {
			select {
			case files <- name:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	})
	for range runtime.NumCPU() {
		group.Go(func() error {
			for file := range files {
				text, err := os.ReadFile(filepath.Join(t.dir, file))
				if err != nil {
					return err
				}
				for _, d := range find(text) {
					d.file = file
					found <- d
				}
			}
			return nil
		})
	}
	var err error
	go func() {
		err = group.Wait()
		close(found)
	}()
	out := map[kind]map[string][]Origin{aFunction: {}, aCall: {}, aFileSystem: {}, anInitcall: {}}
	for d := range found {
		in := out[d.kind]
		if o := t.originOf(d); !slices.Contains(in[d.name], o) {
			in[d.name] = append(in[d.name], o)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("search the kernel tree: %w", err)
	}
	for _, in := range out {
		for _, origins := range in {
			slices.SortFunc(origins, func(x, y Origin) int { return strings.Compare(x.Object, y.Object) })
		}
	}
	return out, nil
}

// sources walks over the C files that can be in this architecture's kernel.
func (t *Tree) sources(visit func(string) error) error {
	skip := map[string]bool{"tools": true, "scripts": true, "samples": true, "Documentation": true, "usr": true, ".git": true, "debian": true}
	return filepath.WalkDir(t.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		below, err := filepath.Rel(t.dir, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			other := filepath.Dir(below) == "arch" && d.Name() != t.arch
			if skip[below] || other {
				return filepath.SkipDir
			}
			return nil
		}
		if filepath.Ext(below) == ".c" && d.Type().IsRegular() {
			return visit(below)
		}
		return nil
	})
}
