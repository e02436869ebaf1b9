package sys

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestSplitKeepsTheTotal(t *testing.T) {
	for _, c := range []struct{ in, want CPUTime }{
		{CPUTime{1, 3, 1}, CPUTime{0, 0.75, 0.25}},
		{CPUTime{1, 0, 0}, CPUTime{0, 1, 0}},
		{CPUTime{1, 0, 4}, CPUTime{0, 0, 1}},
		{CPUTime{1, 4, 0}, CPUTime{0, 1, 0}},
	} {
		if user, system := c.in.Split(); user != c.want.UserTicks || system != c.want.SystemTicks {
			t.Errorf("%+v: %v and %v", c.in, user, system)
		}
	}
}

func TestCPUV2(t *testing.T) {
	dir := t.TempDir()
	write := func(text string) {
		if err := os.WriteFile(filepath.Join(dir, "cpu.stat"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("usage_usec 3000000\nuser_usec 2000000\nsystem_usec 1000000\nnr_periods 0\n")
	if got, err := cpuV2(dir); err != nil || got != (CPUTime{3, 2, 1}) {
		t.Errorf("%+v, %v", got, err)
	}
	for _, broken := range []string{"", "usage_usec x\nuser_usec 1\nsystem_usec 1\n", "usage_usec 1\n"} {
		write(broken)
		if _, err := cpuV2(dir); err == nil {
			t.Errorf("%q was taken", broken)
		}
	}
}

// Before Linux 4.7 a group of version 1 has its parts in ticks.
func TestCPUV1(t *testing.T) {
	dir := t.TempDir()
	write := func(file, text string) {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := cpuV1(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no group: %v", err)
	}
	write("cpuacct.usage", "3000000000\n")
	write("cpuacct.stat", "user 200\nsystem 100\n")
	if got, err := cpuV1(dir); err != nil || got != (CPUTime{3, 2, 1}) {
		t.Errorf("in ticks: %+v, %v", got, err)
	}
	write("cpuacct.stat", "user x\n")
	if got, err := cpuV1(dir); err == nil {
		t.Errorf("broken ticks: %+v", got)
	}
	write("cpuacct.usage_user", "2500000000\n")
	write("cpuacct.usage_sys", "500000000\n")
	if got, err := cpuV1(dir); err != nil || got != (CPUTime{3, 2.5, 0.5}) {
		t.Errorf("in nanoseconds: %+v, %v", got, err)
	}
}
