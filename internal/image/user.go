package image

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"

	"github.com/moby/sys/user"

	"github.com/tarelab/tare/internal/limit"
	"github.com/tarelab/tare/internal/sys"
)

// User is whom the image's own command runs as, in the syntax of the image's
// configuration: "", USER or USER:GROUP, by number or by the names that its
// /etc/passwd and /etc/group have. An error names what they lack.
func (r Root) User() (uid, gid uint32, err error) {
	root, err := os.OpenRoot(r.Rootfs)
	if err != nil {
		return 0, 0, fmt.Errorf("root %s: %w", r.Rootfs, err)
	}
	defer root.Close()
	users, err := usersFile(root, "/etc/passwd")
	if err != nil {
		return 0, 0, err
	}
	groups, err := usersFile(root, "/etc/group")
	if err != nil {
		return 0, 0, err
	}
	found, err := user.GetExecUser(r.Config.User, nil, users, groups)
	if err != nil {
		return 0, 0, fmt.Errorf("user %q of the image: %w", r.Config.User, err)
	}
	if found.Uid < 0 || found.Gid < 0 || found.Uid > math.MaxInt32 || found.Gid > math.MaxInt32 {
		return 0, 0, fmt.Errorf("user %q of the image: %d:%d is no user's", r.Config.User, found.Uid, found.Gid)
	}
	return uint32(found.Uid), uint32(found.Gid), nil
}

// usersFile is a file of the image, with nothing in it where there is none.
func usersFile(root *os.Root, file string) (io.Reader, error) {
	at, err := inRoot(root, file, nil)
	if errors.Is(err, fs.ErrNotExist) {
		return bytes.NewReader(nil), nil
	}
	var data []byte
	if err == nil {
		data, err = sys.ReadForeignIn(root, at, limit.Accounts)
	}
	if err != nil {
		return nil, fmt.Errorf("%s of the image: %w", file, err)
	}
	return bytes.NewReader(data), nil
}
