package sys

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// OnlyOurs returns an error unless this user, root and those who are trusted (user ids)
// alone decide what lies at dir: each directory on the way, as it is with its links
// resolved, belongs to one of them, and nobody else may write to it, but for a sticky one
// (/tmp), in which others cannot rename what is ours. A group counts as its user's own
// where it has the user's number or name. What does not exist yet does not count.
func OnlyOurs(dir string, trusted ...int) error {
	for ; ; dir = filepath.Dir(dir) {
		real, err := filepath.EvalSymlinks(dir)
		if err == nil {
			dir = real
			break
		}
		if !os.IsNotExist(err) {
			return err
		}
		// A link that dangles may be made to lead anywhere by whoever owns its end.
		if _, err := os.Lstat(dir); err == nil || dir == filepath.Dir(dir) {
			return fmt.Errorf("%s leads to what does not exist", dir)
		}
	}
	owners := map[uint32]bool{0: true, uint32(os.Geteuid()): true}
	for _, uid := range trusted {
		owners[uint32(uid)] = true
	}
	for {
		info, err := os.Stat(dir)
		if err != nil {
			return err
		}
		stat := info.Sys().(*syscall.Stat_t)
		if !owners[stat.Uid] {
			return fmt.Errorf("%s belongs to user %d", dir, stat.Uid)
		}
		others := info.Mode().Perm()&0o002 != 0 || info.Mode().Perm()&0o020 != 0 && !ownGroup(stat)
		if others && info.Mode()&os.ModeSticky == 0 {
			return fmt.Errorf("others may write to %s (%v, group %d)", dir, info.Mode(), stat.Gid)
		}
		if dir == filepath.Dir(dir) {
			return nil
		}
		dir = filepath.Dir(dir)
	}
}

// ownGroup reports that a file's group is that which useradd makes for a user alone: it
// has the user's number, or, where that was taken, the user's name.
func ownGroup(stat *syscall.Stat_t) bool {
	if stat.Gid == stat.Uid {
		return true
	}
	group, err := user.LookupGroupId(strconv.FormatUint(uint64(stat.Gid), 10))
	if err != nil {
		return false
	}
	owner, err := user.LookupId(strconv.FormatUint(uint64(stat.Uid), 10))
	return err == nil && group.Name == owner.Username
}
