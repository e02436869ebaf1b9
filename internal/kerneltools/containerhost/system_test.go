package containerhost_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/driver/drivertest"
	"github.com/tarelab/tare/internal/driver/vm"
	"github.com/tarelab/tare/internal/kerneltools/containerhost"
	"github.com/tarelab/tare/internal/sys"
	"github.com/tarelab/tare/internal/vmm"
)

// unitInit does of systemd what an errand needs: it runs the unit that the agent has left,
// and powers off when the agent asks.
const unitInit = `#!/bin/sh
trap 'poweroff -f' 38
echo "systemd[1]: systemd 0 running in system mode" >/dev/console
echo here >/written-by-the-init
$(sed -n 's/^ExecStart=//p' /run/systemd/system/multi-user.target.wants/tare-agent.service) &
while :; do wait; sleep 1; done
`

// An errand runs in the root file system itself, with its files, and its exit code comes
// back. That a machine ended early is said.
func TestErrandInSystem(t *testing.T) {
	lab := drivertest.New(t)
	lab.Guest.Rootfs = t.TempDir()
	file := filepath.Join(t.TempDir(), "given")
	err := errors.Join(sys.CopyTree(lab.Guest.Rootfs, lab.TestRootfs), os.MkdirAll(filepath.Join(lab.Guest.Rootfs, "sbin"), 0o755),
		os.WriteFile(filepath.Join(lab.Guest.Rootfs, "sbin/init"), []byte(unitInit), 0o755), os.WriteFile(file, []byte("a file\n"), 0o644))
	if err != nil {
		t.Fatal(err)
	}
	machine := vmm.VMMs()[0]
	if _, err := vm.New(lab, machine).Locate(); err != nil {
		t.Skip(err)
	}
	s, err := containerhost.OpenSystem(t.Context(), lab, runtime.GOARCH, machine.Name, "")
	if err != nil {
		t.Fatal(err)
	}
	if s.FileSystem() != "ext4" || s.Kernel.Kernel.Path == "" || s.Initrd == "" {
		t.Errorf("%+v is not whole", s)
	}
	ran, err := s.Run(t.Context(), driver.Errand{Files: []string{file}, Script: "cat /written-by-the-init " + driver.FilesDir + "/given; exit 7"}, func(what string) { t.Log(what) })
	if err != nil || ran.Failed != "" {
		t.Fatalf("%v, %q", err, ran.Failed)
	}
	if string(ran.Text) != "here\na file\n" || ran.Exit.Code != 7 || !ran.Off {
		t.Errorf("%q, %+v, powered off: %v", ran.Text, ran.Exit, ran.Off)
	}
	ran, err = s.Run(t.Context(), driver.Errand{Script: "echo b >/proc/sysrq-trigger; sleep 60"}, func(what string) { t.Log(what) })
	if err != nil || !strings.Contains(ran.Failed, "ended") {
		t.Errorf("a machine that is reset: %v, %q", err, ran.Failed)
	}
}
