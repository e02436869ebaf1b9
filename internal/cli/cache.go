package cli

import (
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
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
	if filepath.IsAbs(dir) && onlyOurs(dir) {
		return dir
	}
	self, err := user.LookupId(strconv.Itoa(os.Geteuid()))
	if err != nil {
		return ""
	}
	if dir = filepath.Join(self.HomeDir, ".cache", "tare"); filepath.IsAbs(dir) && onlyOurs(dir) {
		return dir
	}
	return ""
}

// onlyOurs reports whether nobody but this user and root decides what lies at dir: each
// directory on the way, as it is with its links resolved, belongs to one of the two, and
// others may not write to it, but for a sticky one (/tmp), in which they cannot rename
// what is ours. What does not exist yet does not count.
func onlyOurs(dir string) bool {
	for ; ; dir = filepath.Dir(dir) {
		real, err := filepath.EvalSymlinks(dir)
		if err == nil {
			dir = real
			break
		}
		if !os.IsNotExist(err) {
			return false
		}
		// A link that dangles may be made to lead anywhere by whoever owns its end.
		if _, err := os.Lstat(dir); err == nil || dir == filepath.Dir(dir) {
			return false
		}
	}
	for {
		info, err := os.Stat(dir)
		if err != nil {
			return false
		}
		stat, ok := info.Sys().(*syscall.Stat_t)
		if !ok || stat.Uid != 0 && int(stat.Uid) != os.Geteuid() {
			return false
		}
		if info.Mode().Perm()&0o022 != 0 && info.Mode()&os.ModeSticky == 0 {
			return false
		}
		if dir == filepath.Dir(dir) {
			return true
		}
		dir = filepath.Dir(dir)
	}
}
