package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// What a run leaves is told, and what was there before is not.
func TestLeavingNothing(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TARE_STATE", dir)
	session := func(name string) error { return os.MkdirAll(filepath.Join(dir, "sessions", name), 0o755) }
	if err := session("before"); err != nil {
		t.Fatal(err)
	}
	// What others make meanwhile on the machine may be told too: only this test's is asked for.
	if _, err := leavingNothing(func() (usage, error) { return usage{}, nil }); err != nil && (strings.Contains(err.Error(), dir) || strings.Contains(err.Error(), "session")) {
		t.Errorf("a run that makes nothing: %v", err)
	}
	if _, err := leavingNothing(func() (usage, error) { return usage{}, session("after") }); err == nil || !strings.Contains(err.Error(), "left behind") || !strings.Contains(err.Error(), "session after") || strings.Contains(err.Error(), "session before") {
		t.Errorf("a session: %v", err)
	}
	stays := exec.Command("sleep", "60")
	stays.Args[0] = filepath.Join(dir, "engine")
	_, err := leavingNothing(func() (usage, error) {
		if err := stays.Start(); err != nil {
			return usage{}, err
		}
		for { // Start returns in the midst of execve, before /proc has the new command line
			line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", stays.Process.Pid))
			if err != nil || strings.HasPrefix(string(line), stays.Args[0]) {
				return usage{}, err
			}
		}
	})
	if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("process %d ", stays.Process.Pid)) {
		t.Errorf("a process: %v", err)
	}
	if err := stays.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = stays.Wait() // it was killed
}
