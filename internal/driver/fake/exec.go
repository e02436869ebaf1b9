package fake

import (
	"context"
	"errors"
	"os"
	"syscall"
	"time"

	"github.com/tarelab/tare/internal/driver"
)

// Exec is a Script.Payload that really runs the spec, by chroot, as a child of
// the test and without cgroup, limits, mounts or a private rootfs. It needs
// root.
func Exec(ctx context.Context, spec driver.Spec) (driver.Exit, error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return driver.Exit{}, err
	}
	defer null.Close()
	files := []*os.File{spec.Stdio.Stdin, spec.Stdio.Stdout, spec.Stdio.Stderr}
	for n, f := range files {
		if f == nil {
			files[n] = null
		}
	}
	env := spec.Env
	if env == nil {
		env = []string{} // nil would inherit the test's
	}
	dir := spec.Cwd
	if dir == "" {
		dir = "/"
	}
	process, err := os.StartProcess(spec.Args[0], spec.Args, &os.ProcAttr{Dir: dir, Env: env, Files: files, Sys: &syscall.SysProcAttr{
		Chroot: spec.Rootfs, Setsid: true,
		Credential: &syscall.Credential{Uid: spec.User.UID, Gid: spec.User.GID, Groups: []uint32{spec.User.GID}},
	}})
	if err != nil {
		return driver.Exit{}, err
	}
	// The negative pid is the payload's session and group: its children go too.
	killed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(killed)
		_ = syscall.Kill(-process.Pid, syscall.SIGKILL) // what has ended needs no killing
	})
	state, err := process.Wait()
	if !stop() {
		<-killed
	}
	if err := errors.Join(err, ctx.Err()); err != nil {
		return driver.Exit{}, err
	}
	return exitOf(state), nil
}

func exitOf(state *os.ProcessState) driver.Exit {
	exit := driver.Exit{Code: state.ExitCode()}
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		exit = driver.Exit{Signal: int(status.Signal())}
	}
	if u, ok := state.SysUsage().(*syscall.Rusage); ok {
		exit.Usage = &driver.Usage{
			User: time.Duration(u.Utime.Nano()), System: time.Duration(u.Stime.Nano()), MaxRSS: u.Maxrss << 10,
			MinorFaults: u.Minflt, MajorFaults: u.Majflt, VoluntarySwitches: u.Nvcsw, InvoluntarySwitches: u.Nivcsw,
		}
	}
	return exit
}
