package lab

import (
	"errors"
	"slices"
	"strings"

	"github.com/tarelab/tare/internal/image"
	"github.com/tarelab/tare/internal/workload"
)

// ownCommand fills a job with what the user's image is made to run.
func ownCommand(job workload.Job, root image.Root) (workload.Job, error) {
	c := root.Config
	job.Args = slices.Concat(c.Entrypoint, c.Cmd)
	if len(job.Args) == 0 {
		return job, errors.New("workload kind \"image\" needs an image with an entry point or a command: give one with --image")
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
