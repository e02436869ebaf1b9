package engine

import (
	"os/exec"
	"path/filepath"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/sys"
)

// find looks for a program in the laboratory's own directories, then in PATH,
// then where Debian installs daemons: a user's PATH lacks the sbin directories.
func find(lab driver.Lab, program string) (string, error) {
	for _, dir := range lab.ToolDirs {
		if path := filepath.Join(dir, program); sys.Executable(path) {
			return path, nil
		}
	}
	if path, err := exec.LookPath(program); err == nil {
		return filepath.Abs(path)
	}
	for _, dir := range []string{"/usr/local/sbin", "/usr/sbin"} {
		if path := filepath.Join(dir, program); sys.Executable(path) {
			return path, nil
		}
	}
	return "", exec.ErrNotFound
}
