package engine

import (
	"os"
	"os/exec"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/tarelab/tare/internal/driver"
)

// find looks for a program in the laboratory's own directories, then in PATH,
// then where Debian installs daemons: a user's PATH lacks the sbin directories.
func find(lab driver.Lab, program string) (string, error) {
	for _, dir := range lab.ToolDirs {
		if path := filepath.Join(dir, program); executable(path) {
			return path, nil
		}
	}
	if path, err := exec.LookPath(program); err == nil {
		return filepath.Abs(path)
	}
	for _, dir := range []string{"/usr/local/sbin", "/usr/sbin"} {
		if path := filepath.Join(dir, program); executable(path) {
			return path, nil
		}
	}
	return "", exec.ErrNotFound
}

// executable tells a program from a directory of the same name.
func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && unix.Access(path, unix.X_OK) == nil
}
