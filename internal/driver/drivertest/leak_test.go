package drivertest

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"
)

// A process that slept before a check and runs after it was not left behind by it.
func TestRunningIsNoOtherProcess(t *testing.T) {
	busy := exec.Command("sh", "-c", "read go; while :; do :; done")
	door, err := busy.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := busy.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = busy.Process.Kill(), busy.Wait() }()
	inState := func(state string) {
		for until := time.Now().Add(time.Minute); time.Now().Before(until); time.Sleep(time.Millisecond) {
			stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", busy.Process.Pid))
			if err != nil {
				t.Fatal(err)
			}
			if bytes.Contains(stat, []byte("(sh) "+state+" ")) {
				return
			}
		}
		t.Fatalf("never in state %s", state)
	}
	inState("S")
	asleep := describe(busy.Process.Pid)
	if _, err := io.WriteString(door, "go\n"); err != nil {
		t.Fatal(err)
	}
	inState("R")
	if running := describe(busy.Process.Pid); running != asleep || running == "" {
		t.Errorf("%q asleep, %q running", asleep, running)
	}
}
