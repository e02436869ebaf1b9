package lab

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/tarelab/tare/internal/image"
	"github.com/tarelab/tare/internal/target"
	"github.com/tarelab/tare/internal/workload"
)

// ownCommand fills a job with what the user's image is made to run.
func ownCommand(job workload.Job, root image.Root) (workload.Job, error) {
	c := root.Config
	job.Args = slices.Concat(c.Entrypoint, c.Cmd)
	if len(job.Args) == 0 {
		return job, errors.New("the kind image runs what the image given with --image is made to run, and there is none that has an entry point or a command")
	}
	job.Env = slices.Concat(job.Env, c.Env)
	return job, nil
}

// ownPath is the PATH that an image's own command is looked up by.
func ownPath(env []string) string {
	for _, e := range env {
		if path, found := strings.CutPrefix(e, "PATH="); found {
			return path
		}
	}
	return searchPath
}

// ownUser is the user that an image runs as: by number or by its /etc/passwd.
func ownUser(root image.Root) (target.User, error) {
	name, group, grouped := strings.Cut(root.Config.User, ":")
	if name == "" {
		return target.User{}, nil
	}
	user, err := idIn(filepath.Join(root.Rootfs, "etc/passwd"), name, 2, 3)
	if err == nil && grouped {
		var g []uint32
		g, err = idIn(filepath.Join(root.Rootfs, "etc/group"), group, 2)
		user = append(user[:1], g...)
	}
	if err != nil {
		return target.User{}, fmt.Errorf("user %s of the image: %w", root.Config.User, err)
	}
	return target.User{UID: user[0], GID: user[1]}, nil
}

// idIn gives fields of the line that begins with a name (passwd(5), group(5)). A
// number stands for itself, and then 0 for what follows it.
func idIn(file, name string, fields ...int) ([]uint32, error) {
	if n, err := strconv.ParseUint(name, 10, 32); err == nil {
		return append([]uint32{uint32(n)}, make([]uint32, len(fields)-1)...), nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(text)) {
		columns := strings.Split(strings.TrimSpace(line), ":")
		if columns[0] != name || len(columns) <= fields[len(fields)-1] {
			continue
		}
		var ids []uint32
		for _, f := range fields {
			n, err := strconv.ParseUint(columns[f], 10, 32)
			if err != nil {
				return nil, fmt.Errorf("%s: %q", file, line)
			}
			ids = append(ids, uint32(n))
		}
		return ids, nil
	}
	return nil, fmt.Errorf("%s has no %s", file, name)
}
