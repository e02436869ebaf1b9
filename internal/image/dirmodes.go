package image

import (
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
)

// dirModes is a directory of a root: its permissions, which are set at the end, and the
// directories below it. To forget one with all below it takes as long as to find it.
type dirModes struct {
	mode  fs.FileMode
	known bool // else it was made only for what lies below it
	below map[string]*dirModes
}

// pathNames are the names of a path below the root, which is ".".
func pathNames(at string) []string {
	if at == "." {
		return nil
	}
	return strings.Split(at, "/")
}

func (d *dirModes) set(at string, mode fs.FileMode) {
	for _, name := range pathNames(at) {
		if d.below == nil {
			d.below = map[string]*dirModes{}
		}
		if d.below[name] == nil {
			d.below[name] = &dirModes{}
		}
		d = d.below[name]
	}
	d.mode, d.known = mode, true
}

// forget drops a directory that is removed. It is not the root.
func (d *dirModes) forget(at string) {
	for _, name := range pathNames(path.Dir(at)) {
		if d = d.below[name]; d == nil {
			return
		}
	}
	delete(d.below, path.Base(at))
}

// each visits the directories whose permissions are known, those below one before it.
func (d *dirModes) each(at string, visit func(at string, mode fs.FileMode) error) error {
	for _, name := range slices.Sorted(maps.Keys(d.below)) {
		if err := d.below[name].each(path.Join(at, name), visit); err != nil {
			return err
		}
	}
	if !d.known {
		return nil
	}
	return visit(at, d.mode)
}
