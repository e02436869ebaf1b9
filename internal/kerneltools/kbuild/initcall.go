package kbuild

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/sync/errgroup"
)

// An Origin is where an initcall's code is.
type Origin struct {
	Object string // below the tree's root, such as drivers/rtc/class.o
	Symbol string // see Tree.Symbol
	Known  bool   // false: no Makefile names the object
}

// security modules are declared by DEFINE_LSM(name) = { .init = f }.
var lsm = regexp.MustCompile(`(?s)DEFINE_LSM\(\w+\)\s*=\s*\{[^}]*\.init\s*=\s*(\w+)`)

// declares is the initcall that a line such as subsys_initcall(f) declares,
// empty for any other line. module_pci_driver(d) and its like make d_init. A
// tree has a gigabyte of lines: this is no regular expression for that reason.
func declares(line []byte) string {
	open := bytes.IndexByte(line, '(')
	if open <= 0 {
		return ""
	}
	macro := string(bytes.TrimSpace(line[:open]))
	argument := line[open+1:]
	end := bytes.IndexFunc(argument, func(r rune) bool { return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	if end <= 0 {
		return ""
	}
	name := string(argument[:end])
	switch {
	case strings.ContainsAny(macro, " \t#*="):
		return ""
	case strings.HasSuffix(macro, "_initcall"), strings.HasSuffix(macro, "_initcall_sync"), macro == "module_init", macro == "__initcall":
		return name
	case strings.HasSuffix(macro, "driver") && (strings.HasPrefix(macro, "module_") || strings.HasPrefix(macro, "builtin_")),
		strings.HasSuffix(macro, "_driver_probe"):
		return name + "_init"
	}
	return ""
}

// Find looks in all of the tree's code for the initcalls of these names. A name
// that occurs more than once has several origins.
func (t *Tree) Find(ctx context.Context, names []string) (map[string][]Origin, error) {
	wanted := map[string]bool{}
	for _, n := range names {
		wanted[n] = true
	}
	group, ctx := errgroup.WithContext(ctx)
	files := make(chan string, 256)
	found := make(chan [2]string, 256) // name, file
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
		group.Go(func() error { return t.search(files, wanted, found) })
	}
	var err error
	go func() {
		err = group.Wait()
		close(found)
	}()
	out := map[string][]Origin{}
	for f := range found {
		object := strings.TrimSuffix(f[1], filepath.Ext(f[1])) + ".o"
		symbol, known := t.Symbol(object)
		if o := (Origin{object, symbol, known}); !slices.Contains(out[f[0]], o) {
			out[f[0]] = append(out[f[0]], o)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("search the kernel tree: %w", err)
	}
	for _, origins := range out {
		slices.SortFunc(origins, func(x, y Origin) int { return strings.Compare(x.Object, y.Object) })
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

func (t *Tree) search(files <-chan string, wanted map[string]bool, found chan<- [2]string) error {
	for file := range files {
		text, err := os.ReadFile(filepath.Join(t.dir, file))
		if err != nil {
			return err
		}
		for line := range bytes.Lines(text) {
			if name := declares(line); name != "" && wanted[name] {
				found <- [2]string{name, file}
			}
		}
		if !bytes.Contains(text, []byte("DEFINE_LSM")) {
			continue
		}
		for _, m := range lsm.FindAllSubmatch(text, -1) {
			if wanted[string(m[1])] {
				found <- [2]string{string(m[1]), file}
			}
		}
	}
	return nil
}
