package sys

import (
	"slices"
	"testing"
)

// Options that are not controllers, as /proc/self/mountinfo has them: with SELinux, and of
// Linux 6.0.
func TestControllersOfVersion1(t *testing.T) {
	for options, want := range map[string][]string{
		"rw,cpu,cpuacct":                 {"cpu", "cpuacct"},
		"rw,seclabel,cpu,cpuacct":        {"cpu", "cpuacct"},
		"ro,memory,favordynmods":         {"memory"},
		"rw,cpuset,noprefix":             {"cpuset"},
		"rw,cpuset,cpuset_v2_mode":       {"cpuset"},
		"rw,cpuset,clone_children":       {"cpuset"},
		"rw,seclabel,xattr,name=systemd": {"name=systemd"},
		"rw,xattr,release_agent=/usr/lib/systemd/systemd-cgroups-agent,name=systemd": {"name=systemd"},
	} {
		if got := controllersV1(options); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", options, got, want)
		}
	}
}
