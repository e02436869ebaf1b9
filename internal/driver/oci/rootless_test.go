package oci

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/driver/drivertest"
)

// rootlessDir is set for the copy of this test program that runs as nobody.
const rootlessDir = "TARE_TEST_ROOTLESS"

const nobody = 65534

func TestMain(m *testing.M) {
	if dir := os.Getenv(rootlessDir); dir != "" {
		os.Exit(checkRootless(dir))
	}
	os.Exit(m.Run())
}

// checkRootless checks every runtime as this user, a line each.
func checkRootless(dir string) int {
	lab := driver.Lab{LaunchPath: filepath.Join(dir, "launch"), TestRootfs: filepath.Join(dir, "rootfs"), RunDir: filepath.Join(dir, "run")}
	for _, r := range []Runtime{runc(), crun(), youki(), runsc()[0]} {
		_, err := New(lab, r).Check(context.Background())
		fmt.Printf("%s: %v\n", r.Name, err)
	}
	return 0
}

// TestRootless runs containers as nobody, in a user namespace.
func TestRootless(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("this test becomes another user: run it as root")
	}
	for _, file := range []string{"/proc/sys/user/max_user_namespaces", "/proc/sys/kernel/unprivileged_userns_clone"} {
		if text, err := os.ReadFile(file); err == nil && strings.TrimSpace(string(text)) == "0" {
			t.Skipf("users may not make user namespaces here: %s is 0", file)
		}
	}
	lab := drivertest.New(t)
	dir, err := os.MkdirTemp("", "tare-rootless-") // the test's own directories are root's
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	run := filepath.Join(dir, "run")
	err = errors.Join(os.Chmod(dir, 0o755), os.Mkdir(run, 0o755), os.Chown(run, nobody, nobody),
		os.CopyFS(filepath.Join(dir, "rootfs"), os.DirFS(lab.TestRootfs)),
		copyProgram(filepath.Join(dir, "launch"), lab.LaunchPath), copyProgram(filepath.Join(dir, "test"), self))
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), filepath.Join(dir, "test"))
	command.Env = []string{rootlessDir + "=" + dir, "PATH=/usr/bin:/bin"}
	command.Dir = dir
	command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, want := range []string{"runc: <nil>\n", "crun: <nil>\n"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("got %q, want %q", out, want)
		}
	}
	for _, name := range []string{"youki", "runsc"} {
		// Both live below root's home here, or would need root.
		if !strings.Contains(string(out), name+": "+name+" cannot run here: "+name) {
			t.Errorf("got %q, want a CannotError of %s", out, name)
		}
	}
}

func copyProgram(to, from string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, data, 0o755)
}
