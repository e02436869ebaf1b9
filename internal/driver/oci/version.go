package oci

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// versionTimeout bounds "--version".
const versionTimeout = 5 * time.Second

// unversioned stands for the version of a build that was given none: what it is
// then, only the digest of its binary tells.
const unversioned = "unversioned build"

// version is what the runtime says of itself: the first line's last word of
// "runc version 1.1.5+ds1" and its like.
func (d *Driver) version(ctx context.Context, binary string) (string, error) {
	out, err := askVersion(ctx, binary)
	if err != nil {
		return "", err
	}
	first, _, _ := strings.Cut(out, "\n")
	words := strings.Fields(first)
	if len(words) < 3 || words[0] != d.runtime.Binary || strings.TrimSuffix(words[1], ":") != "version" {
		return "", fmt.Errorf("%s --version printed %.100q, which is no version of %s", binary, first, d.runtime.Binary)
	}
	version := words[len(words)-1]
	if version == "VERSION_MISSING" { // runsc built without Bazel's stamp
		return unversioned, nil
	}
	return version, nil
}

// askVersion runs "binary --version" in a process group of its own, so that one
// that hangs is ended with all that it has started: a wrapper's child would
// otherwise stay behind.
func askVersion(ctx context.Context, binary string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	command := exec.CommandContext(ctx, binary, "--version")
	command.Env = environment()
	command.WaitDelay = time.Second
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	end := func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }
	command.Cancel = end
	out, err := command.Output()
	switch {
	case ctx.Err() != nil:
		return "", fmt.Errorf("%s --version did not end in time and was killed: %w", binary, ctx.Err())
	case errors.Is(err, exec.ErrWaitDelay):
		// It ended, and a child of it still holds its output.
		return "", errors.Join(fmt.Errorf("%s --version left a process behind: %w", binary, err), end())
	case err != nil:
		return "", fmt.Errorf("%s --version: %w", binary, err)
	}
	return string(out), nil
}
