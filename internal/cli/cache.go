package cli

import (
	"os"
	"os/user"
	"path/filepath"
	"strconv"

	"github.com/tarelab/tare/internal/sys"
)

// cacheDir is where built tools, kernels and guests' files are kept; "" where the
// environment names no absolute place. What lies there is run with this user's rights.
// A directory that somebody else can write is therefore never used: after "sudo -E",
// HOME is the caller's, and root takes its own home instead.
func (env *Env) cacheDir() string {
	base := env.Getenv("XDG_CACHE_HOME")
	if base == "" {
		base = filepath.Join(env.Getenv("HOME"), ".cache")
	}
	dir := filepath.Join(base, "tare")
	if filepath.IsAbs(dir) && sys.OnlyOurs(dir) == nil {
		return dir
	}
	self, err := user.LookupId(strconv.Itoa(os.Geteuid()))
	if err != nil {
		return ""
	}
	if dir = filepath.Join(self.HomeDir, ".cache", "tare"); filepath.IsAbs(dir) && sys.OnlyOurs(dir) == nil {
		return dir
	}
	return ""
}
