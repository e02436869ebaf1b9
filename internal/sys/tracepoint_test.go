package sys

import (
	"errors"
	"io/fs"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// TestFindTracepoint finds a tracepoint of this kernel, and mounts nothing that stays.
func TestFindTracepoint(t *testing.T) {
	before, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	found, err := FindTracepoint("sched/sched_switch")
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.ENODEV) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if next := found.Fields["next_pid"]; found.ID == 0 || next.Size != 4 || next.Offset < 24 || found.Fields["prev_comm"].Size != 16 {
		t.Errorf("%+v", found)
	}
	for range 50 { // on whichever thread
		if _, err := FindTracepoint("sched/no_such"); !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("a tracepoint that no kernel has: %v", err)
		}
	}
	if after, err := os.ReadFile("/proc/self/mountinfo"); err != nil || string(after) != string(before) {
		t.Errorf("mounts changed: %v\n%s", err, after)
	}
}

// oldSwitch is a format of Linux 3.10, shortened.
const oldSwitch = "name: sched_switch\nID: 51\nformat:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n" +
	"\tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:1;\n\tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;\n" +
	"\tfield:long prev_state;\toffset:32;\tsize:8;\tsigned:1;\n\nprint fmt: \"field:x y; offset:1;\"\n"

func TestParseTracepoint(t *testing.T) {
	found, err := parseTracepoint(oldSwitch)
	if err != nil || found.ID != 51 || len(found.Fields) != 4 || found.Fields["prev_state"] != (TracepointField{32, 8}) || found.Fields["prev_comm"] != (TracepointField{8, 16}) {
		t.Errorf("%+v, %v", found, err)
	}
	for _, text := range []string{"", "ID: x\n", "ID: 99999999999\n", "ID: 1\n\tfield:int a;\toffset:99999;\tsize:4;\tsigned:0;\n"} {
		if _, err := parseTracepoint(text); err == nil {
			t.Errorf("%q is read", text)
		}
	}
}
