package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/driver/bundle"
)

// watched is how many containers the bar of tare watch has.
const watched = 100

// watchHundred is what tare watch itself takes of one CPU while it reads containers
// of runc, which sleep, once a second for half a minute; its own start is a part
// of it. Their root holds busybox alone.
func watchHundred(ctx context.Context) (out result, err error) {
	dir, err := os.MkdirTemp("/dev/shm", "tare-bench-")
	if err != nil {
		return result{}, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	rootfs := filepath.Join(dir, "rootfs")
	if err := busyboxIn(rootfs); err != nil {
		return result{}, err
	}
	// What a container keeps open of the loop's own streams would keep the loop waiting.
	config := bundle.Config(driver.Spec{Args: []string{"/busybox", "sh", "-c", "exec /busybox sleep 600 2>/dev/null"}}, bundle.Place{Rootfs: rootfs})
	config.Root.Readonly = true // all have it
	if err := bareBundle(dir, config); err != nil {
		return result{}, err
	}
	defer func() {
		_, _, failed := inLoop(context.WithoutCancel(ctx), watched, 4, 1, bareDelete(dir, "--force"))
		err = errors.Join(err, failed)
	}()
	if _, _, err := inLoop(ctx, watched, 4, 1, bareRun(dir, dir)); err != nil {
		return result{}, err
	}
	u, err := watch(ctx, tare, "watch", "--interval", "1s", "--for", "30s")
	if err != nil {
		return result{}, err
	}
	share := u.self.Seconds() / u.wall.Seconds()
	return below(share, 0.01, fmt.Sprintf("%.2f %% of %.0f s", 100*share, u.wall.Seconds()))
}

func busyboxIn(rootfs string) error {
	program, err := exec.LookPath("busybox")
	if err != nil {
		return fmt.Errorf("%w (install busybox-static)", err)
	}
	text, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	return errors.Join(os.Mkdir(rootfs, 0o755), os.WriteFile(filepath.Join(rootfs, "busybox"), text, 0o755))
}
