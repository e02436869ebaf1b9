package launch_test

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/driver/drivertest/oldkernel"
	"github.com/tarelab/tare/internal/driver/launch"
)

func TestMain(m *testing.M) { oldkernel.Main(m) }

func TestOldKernels(t *testing.T) {
	for _, kernel := range oldkernel.Kernels {
		t.Run(kernel, func(t *testing.T) {
			oldkernel.Rerun(t, kernel, "^(TestExit|TestCancel|TestOrphans|TestReap|TestHang|TestNothingInherited)$")
		})
	}
}

// TestNothingInherited: a descriptor that the laboratory has left open is not the payload's.
func TestNothingInherited(t *testing.T) {
	etc, err := os.Open("/etc")
	if err != nil {
		t.Fatal(err)
	}
	defer etc.Close()
	leaked, err := unix.FcntlInt(etc.Fd(), unix.F_DUPFD, 20) // the launcher's own are below
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(leaked)
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	p := start(t, launch.Config{Stdio: driver.Stdio{Stdout: in}}, "ls -l /proc/self/fd")
	in.Close()
	if _, err := p.Wait(t.Context()); err != nil {
		t.Error(err)
	}
	text := make([]byte, 4096)
	n, err := out.Read(text)
	if err != nil || !strings.Contains(string(text[:n]), "pipe:") || strings.Contains(string(text[:n]), "/etc") {
		t.Errorf("the payload has the descriptors %s, %v", text[:n], err)
	}
}
