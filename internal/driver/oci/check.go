package oci

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/driver/launch"
	"github.com/tarelab/tare/internal/sys"
)

// checkCode is the distinctive exit code that the test container must give.
const checkCode = 42

// proofTime is the time for the test container: three quarters of what the
// caller has left, the rest being for taking the container away. A platform that
// the machine only seems to have (kvm where guests do not run) hangs; others take
// 0.3 s.
func proofTime(ctx context.Context) time.Duration {
	if deadline, ok := ctx.Deadline(); ok {
		return time.Until(deadline) * 3 / 4
	}
	return 6 * time.Second
}

// Check runs a container, asks the runtime for its state while it runs, and sees
// its exit code come back.
func (d *Driver) Check(ctx context.Context) (driver.Facts, error) {
	binary, err := d.ready()
	if err != nil {
		return driver.Facts{}, err
	}
	facts := driver.Facts{Path: binary, Notes: map[string]string{}}
	if facts.Digest, err = sys.FileDigest(binary); err != nil {
		return driver.Facts{}, d.cannot(d.runtime.Remedy, "%v", err)
	}
	if facts.Version, err = d.version(ctx, binary); err != nil {
		return driver.Facts{}, d.cannot(d.runtime.Remedy, "%v", err)
	}
	launch.NoteOld(facts)
	if d.runtime.Platform != "" {
		facts.Notes["platform"] = d.runtime.Platform
	}
	ctx, cancel := context.WithTimeout(ctx, proofTime(ctx))
	defer cancel()
	err = d.prove(ctx, binary, facts.Notes)
	if err == nil || driver.IsLab(err) {
		return facts, err
	}
	return facts, d.cannot("", "a test container did not work: %v", err)
}

// prove runs the test container in a directory and a group of its own, both the
// session's: a sweep finds them.
func (d *Driver) prove(ctx context.Context, binary string, notes map[string]string) (failed error) {
	id := fmt.Sprintf("%s-check-%s-%08x", driver.Label, strings.ReplaceAll(d.runtime.Name, "/", "-"), rand.Uint32())
	dir := filepath.Join(d.lab.RunDir, id)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return driver.Labf("directory of the test container: %w", err)
	}
	defer func() { failed = errors.Join(failed, sys.RemoveTree(dir)) }()
	spec := driver.Spec{ID: id, Rootfs: d.lab.TestRootfs, Env: []string{"PATH=/bin"},
		Args: []string{driver.Mark, "-exit", strconv.Itoa(checkCode)}}
	if d.lab.Root && d.lab.Cgroup != "" {
		spec.Cgroup = path.Join(d.lab.Cgroup, id)
		if err := sys.MakeCgroup(spec.Cgroup); err != nil {
			return driver.Labf("group of the test container: %w", err)
		}
		defer func() {
			_, gone := sys.RemoveCgroups(spec.Cgroup)
			failed = errors.Join(failed, gone)
		}()
	}
	return d.tryContainer(ctx, binary, spec, dir, notes)
}

// tryContainer runs spec, which ends when its standard input does.
func (d *Driver) tryContainer(ctx context.Context, binary string, spec driver.Spec, dir string, notes map[string]string) (err error) {
	hold, release, err := os.Pipe()
	if err != nil {
		return driver.Labf("pipe to the test container: %w", err)
	}
	defer hold.Close()
	defer release.Close()
	acted, out, err := os.Pipe()
	if err != nil {
		return driver.Labf("pipe from the test container: %w", err)
	}
	defer acted.Close()
	spec.Stdio = driver.Stdio{Stdin: hold, Stdout: out}
	i, err := d.Prepare(ctx, spec, dir)
	if err != nil {
		out.Close()
		return err
	}
	defer func() { err = errors.Join(err, i.Close()) }()
	err = i.Start(ctx, func(driver.Phase) {})
	out.Close()
	if err != nil {
		return err
	}
	seen, err := awaitMark(ctx, acted)
	if err != nil {
		return err
	}
	if seen {
		if err := d.ask(ctx, binary, d.home(spec.ID, dir), spec.ID, notes); err != nil {
			return err
		}
	}
	release.Close()
	exit, err := i.Wait(ctx)
	switch {
	case err != nil:
		return err
	case !seen:
		return errors.New("its payload never acted")
	case exit.Code != checkCode || exit.Signal != 0:
		return fmt.Errorf("its payload ended with exit code %d and signal %d, and should have with code %d", exit.Code, exit.Signal, checkCode)
	}
	return nil
}

// awaitMark reads the mark helper's bytes; an early end means that nothing acted.
func awaitMark(ctx context.Context, from *os.File) (bool, error) {
	stop := context.AfterFunc(ctx, func() { _ = from.SetReadDeadline(time.Now()) })
	defer stop()
	line, err := bufio.NewReader(from).ReadString('d')
	if ctx.Err() != nil {
		return false, fmt.Errorf("its payload did not act in time: %w", ctx.Err())
	}
	return err == nil && strings.HasSuffix(line, "tare:acted"), nil
}

// stateTime is how long a runtime may take to write down that a container runs
// which acts already: crun lets the payload go first.
const stateTime = 2 * time.Second

// ask queries the running container.
func (d *Driver) ask(ctx context.Context, binary string, h home, id string, notes map[string]string) error {
	status, err := d.status(ctx, binary, h, id)
	for until := time.Now().Add(stateTime); (err != nil || status.Status != "running") && ctx.Err() == nil && time.Now().Before(until); {
		time.Sleep(10 * time.Millisecond)
		status, err = d.status(ctx, binary, h, id)
	}
	if err != nil {
		return err
	}
	if status.Status != "running" {
		return fmt.Errorf("it runs, but %s state calls it %q", d.runtime.Binary, status.Status)
	}
	if d.runtime.NoStats {
		return nil
	}
	if _, err := d.command(ctx, binary, h, "events", "--stats", id); err != nil {
		notes["events"] = "no: " + err.Error()
	} else {
		notes["events"] = "yes"
	}
	return nil
}
