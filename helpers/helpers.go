// Package helpers carries the static C programs of this folder inside tare:
// mark shows that a payload acted; launch starts payloads from the host's side;
// init is the first process of a virtual machine; unix runs the Unix workloads, as
// unix-gnu and whetstone-gnu do with the C library of the machine; unixbench runs a
// UnixBench of the user's next to them;
// slice works in short turns; churn makes and removes kernel objects; net is two
// ends of a connection. Each build carries the programs of every architecture, for
// images too; make generated builds them; they are in version control, so that tare is
// built by Go alone.
package helpers

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"
)

// The programs' names, in the folder that Extract fills.
const (
	Mark   = "mark"
	Launch = "launch"
	Init   = "init"
	Unix   = "unix"
	Slice  = "slice"
	Churn  = "churn"
	Net    = "net"

	UnixGNU      = "unix-gnu"
	WhetstoneGNU = "whetstone-gnu"
	UnixBench    = "unixbench"
)

//go:embed all:bin
var bin embed.FS

// dirOf is where bin holds an architecture's programs.
func dirOf(goarch string) string { return "bin/linux_" + goarch }

// dir is where bin holds this architecture's programs.
var dir = dirOf(runtime.GOARCH)

// Read returns the bytes of one program.
func Read(name string) ([]byte, error) { return ReadFor(runtime.GOARCH, name) }

// ReadFor returns the bytes of one program for an architecture, as Go calls it.
func ReadFor(goarch, name string) ([]byte, error) {
	b, err := bin.ReadFile(path.Join(dirOf(goarch), name))
	if err != nil {
		return nil, fmt.Errorf("helper program %s is not in this build of tare (make generated, then build again): %w", name, err)
	}
	return b, nil
}

// Extract writes every program into dst, an existing folder, with mode 0755. A
// program that runs there already is replaced, not overwritten.
func Extract(dst string) error {
	names, err := programs()
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := extract(name, dst); err != nil {
			return fmt.Errorf("extract helper program %s: %w", name, err)
		}
	}
	return nil
}

// programs are the names of this architecture's programs, in order.
func programs() (names []string, err error) {
	entries, err := fs.ReadDir(bin, dir)
	if err != nil {
		return nil, fmt.Errorf("guest programs are not in this build of tare: %w", err)
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".") && !strings.HasSuffix(e.Name(), ".tmp") {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

func extract(name, dst string) error {
	data, err := Read(name)
	if err != nil {
		return err
	}
	tmp, err := os.CreateTemp(dst, "."+name+"-")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name()) // after the rename there is nothing to remove
	_, err = tmp.Write(data)
	if err := errors.Join(err, tmp.Chmod(0o755), tmp.Close()); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), filepath.Join(dst, name))
}
