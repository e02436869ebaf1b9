package image_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tarelab/tare/internal/image"
	"github.com/tarelab/tare/internal/workload"
)

// enter runs a command in a root as a target would: its own network and processes, a /proc
// and a /dev, and an overlay that takes what is written.
const enter = `dir=$1; root=$2; shift 2
mount -t tmpfs tare "$dir"; mkdir "$dir/up" "$dir/work" "$dir/root"
mount -t overlay tare -o "lowerdir=$root,upperdir=$dir/up,workdir=$dir/work" "$dir/root"
mount --rbind /dev "$dir/root/dev"; mount -t proc proc "$dir/root/proc"
busybox ip link set lo up
exec /usr/sbin/chroot "$dir/root" "$@"`

// TestWorkloadsRun runs every workload of the image with the real programs, and
// parses what it prints.
func TestWorkloadsRun(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("this test mounts and chroots: run it as root")
	}
	images := image.NewStore(t.TempDir())
	bench, err := images.Workbench(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer bench.Close()
	quick := map[string]map[string]string{
		"fio":             {"time": "100ms", "size": "1MiB", "rw": "randrw"},
		"sysbench-fileio": {"size": "1MiB"},
	}
	for _, w := range workload.All() {
		t.Run(w.Kind(), func(t *testing.T) {
			if w.Metrics() == nil {
				return // prints nothing of its own
			}
			job, err := workload.Resolve(w.Kind(), quick[w.Kind()], nil)
			if err != nil {
				t.Fatal(err)
			}
			if len(job.Args) == 0 || strings.HasPrefix(job.Args[0], "/.tare/") {
				return // a guest binary, or the mark alone: it is tested where it is built
			}
			if len(job.Peer) > 0 {
				return // it talks to another end: the tests of the paths have one
			}
			if job.Lifecycle != nil {
				return // it is timed from outside
			}
			if job.Beside {
				return // it runs beside an engine, which makes containers of the image: internal/lab has its test
			}
			if lacks := bench.Lacks(job.Needs); len(lacks) > 0 {
				t.Fatalf("not installed: %v", lacks)
			}
			root, err := images.ForCommands(t.Context(), bench, bench.Apart(job.Needs))
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if left, err := filepath.Glob(filepath.Join(root.Rootfs, "tmp/*")); err != nil || len(left) > 0 {
					t.Errorf("the shared root was written to: %v %v", left, err)
				}
				root.Close()
			}()
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			c := exec.CommandContext(ctx, "/bin/sh", append([]string{"-ec", enter, "sh", t.TempDir(), root.Rootfs}, job.Args...)...)
			c.Env = append([]string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}, job.Env...)
			c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWPID, Unshareflags: syscall.CLONE_NEWNS}
			var out, errs bytes.Buffer
			c.Stdout, c.Stderr = &out, &errs
			if err := c.Run(); err != nil {
				t.Fatalf("%v\n%s\n%s", err, &errs, &out)
			}
			values, err := job.Parse(out.Bytes())
			if err != nil {
				t.Fatalf("%v\n%s", err, &out)
			}
			if len(values) == 0 || values[0].Value <= 0 {
				t.Errorf("values %v", values)
			}
		})
	}
}
