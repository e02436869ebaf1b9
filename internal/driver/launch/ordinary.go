package launch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/tarelab/tare/internal/driver"
)

// Ordinary refuses a root file system whose /proc, /sys or /dev is not a directory.
// What tare mounts itself follows no link there, but runtimes do: runc 1.1.5 makes
// the links of /dev wherever an image's /dev leads, on the machine as well.
func Ordinary(rootfs string) error {
	root, err := os.OpenRoot(rootfs)
	if err != nil {
		return driver.Labf("root file system: %w", err)
	}
	defer root.Close()
	for _, name := range []string{"proc", "sys", "dev"} {
		info, err := root.Lstat(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // each target makes it
		}
		if err == nil && !info.IsDir() {
			err = fmt.Errorf("/%s is not a directory (%s): every target mounts over it", name, info.Mode().Type())
		}
		if err != nil {
			return fmt.Errorf("root file system %s: %w", rootfs, err)
		}
	}
	return nil
}
