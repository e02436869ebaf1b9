package image

import (
	"bufio"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// maxIncludes bounds nested include lines, which may form a circle.
const maxIncludes = 8

// readLinkerConf gives the directories of an ld.so.conf(5) in its order. A
// file that cannot be read has none: ldconfig passes it over as well.
func readLinkerConf(p string, depth int) []string {
	f, err := os.Open(p)
	if err != nil || depth > maxIncludes {
		return nil
	}
	defer f.Close()
	var dirs []string
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		line, _, _ := strings.Cut(lines.Text(), "#")
		fields := strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune(" \t,:", r) })
		switch {
		case len(fields) == 0 || fields[0] == "hwcap":
		case fields[0] == "include":
			for _, pattern := range fields[1:] {
				dirs = append(dirs, include(pattern, path.Dir(p), depth+1)...)
			}
		default:
			for _, d := range fields {
				dirs = append(dirs, strings.TrimSuffix(d, "/"))
			}
		}
	}
	return dirs
}

// include reads the files that match; a relative pattern counts from the
// directory of the file that includes.
func include(pattern, dir string, depth int) []string {
	if !path.IsAbs(pattern) {
		pattern = path.Join(dir, pattern)
	}
	files, err := filepath.Glob(pattern)
	if err != nil {
		return nil // a malformed pattern matches nothing
	}
	var dirs []string
	for _, f := range files {
		dirs = append(dirs, readLinkerConf(f, depth)...)
	}
	return dirs
}

// realPath follows every symbolic link.
func realPath(p string) (string, error) { return filepath.EvalSymlinks(p) }
