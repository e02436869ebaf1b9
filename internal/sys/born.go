package sys

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// BornIn makes the cgroup rel and has cmd's process start in it, so that whoever sweeps
// the group finds it at any moment. After cmd has ended, remove ends what it left running
// and removes the group. cmd.SysProcAttr must be set.
//
// Where there is a tree of version 2, the process is born there (CLONE_INTO_CGROUP, Linux 5.7).
// Elsewhere a shell joins the group and becomes the command.
func BornIn(cmd *exec.Cmd, rel string) (remove func() error, err error) {
	trees, err := Cgroups()
	if err == nil {
		err = trees.Make(rel)
	}
	if err != nil {
		return nil, err
	}
	tidy := func() error { // no name of a result: a return below would make it call itself
		_, err := RemoveCgroups(rel)
		return err
	}
	if tree, ok := trees.Unified(); ok && HasCall(IntoCgroup) {
		dir, err := os.Open(tree.Dir(rel))
		if err != nil {
			return nil, errors.Join(err, tidy())
		}
		cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(dir.Fd())
		return func() error { return errors.Join(dir.Close(), tidy()) }, nil
	}
	dirs := trees.Dirs(rel)
	if len(dirs) == 0 {
		return nil, errors.Join(fmt.Errorf("no tree for the cgroup %s", rel), tidy())
	}
	cmd.Args = append([]string{"sh", "-c", `echo $$ >"$0" && exec "$@"`, filepath.Join(dirs[0], "cgroup.procs"), cmd.Path}, cmd.Args[1:]...)
	cmd.Path = "/bin/sh"
	return tidy, nil
}

// EndsWithUs has cmd's process killed by the kernel when this one dies, however it dies,
// and where this user is root all that it has started, too: it is the first process of a
// PID namespace. It is for builds, which look for no other processes. It sets
// cmd.SysProcAttr's Pdeathsig and Cloneflags.
func EndsWithUs(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	if os.Geteuid() == 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWPID
	}
}
