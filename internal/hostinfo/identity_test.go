package hostinfo

import (
	"strings"
	"testing"

	"github.com/moby/sys/mountinfo"
)

// The expected id is what systemd-id128(1) 252 prints for this machine-id with
// machine-id --app-specific=9c1f4e6b0d5243a8b7e02a9563d4187f.
func TestMachineIDIsKeyed(t *testing.T) {
	const raw = "0123456789abcdef0123456789abcdef"
	if got := machineID(raw + "\n"); got != "b3542c7aa00848c9915fc85b13600676" {
		t.Errorf("%q", got)
	}
	for _, none := range []string{"", "uninitialized", raw[:31], raw + "00", "zz" + raw[2:]} {
		if got := machineID(none); got != "" {
			t.Errorf("%q is a machine-id: %q", none, got)
		}
	}
}

func TestTagTellsMachinesApart(t *testing.T) {
	seen := map[string]Host{}
	for _, h := range []Host{{}, {Machine: "m"}, {Machine: "m", Hostname: "a"}, {Machine: "m", Hostname: "b"}, {Hostname: "a"}, {Machine: "m", Hostname: "a", BootID: "1"}, {Machine: "m", Hostname: "a", BootID: "2"}} {
		tag := h.Tag()
		if other, ok := seen[tag]; ok || len(tag) != 8 {
			t.Errorf("%+v and %+v: %q", h, other, tag)
		}
		seen[tag] = h
	}
}

func TestMachineFacts(t *testing.T) {
	const raw = "0123456789abcdef0123456789abcdef"
	root := machine(t, map[string]string{
		"/etc/machine-id":                                raw + "\n",
		"/proc/cpuinfo":                                  "model name : X\nstepping\t: 7\nmicrocode\t: 0x5003604\n",
		"/proc/cmdline":                                  "root=UUID=2f1d0b52-33a4-4c0e-8f6b-0a1b2c3d4e5f systemd.machine_id=" + raw + " quiet\n",
		"/proc/self/cgroup":                              "2:cpu:/\n1:name=systemd:/a/b/c\n0::/a/b\n",
		"/sys/class/dmi/id/sys_vendor":                   "Dell Inc.\n",
		"/sys/class/dmi/id/product_name":                 "R640\n",
		"/sys/class/dmi/id/bios_version":                 "2.1\n",
		"/sys/devices/system/cpu/smt/control":            "forceoff\n",
		"/sys/devices/system/node/online":                "0-3\n",
		"/sys/kernel/mm/transparent_hugepage/enabled":    "always [madvise] never\n",
		"/sys/devices/system/clocksource/clocksource0/x": "",
	})
	h := gather(root, func(mountinfo.FilterFunc) ([]*mountinfo.Info, error) { return nil, nil })
	got := []string{h.Product, h.BIOS, h.Stepping, h.Microcode, h.CommandLine, h.SMT, h.HugePages}
	want := []string{"Dell Inc. R640", "2.1", "7", "0x5003604", "root=UUID=ID systemd.machine_id=ID quiet", "forceoff", "madvise"}
	if strings.Join(got, "|") != strings.Join(want, "|") || h.NUMANodes != 4 || h.CgroupDepth != 3 || h.Machine != machineID(raw) {
		t.Errorf("%q, %d nodes, depth %d, machine %s", got, h.NUMANodes, h.CgroupDepth, h.Machine)
	}
}

func TestPlace(t *testing.T) {
	for want, c := range map[string]struct {
		files    map[string]string
		variable string
	}{
		PlaceHost: {}, PlaceContainer: {files: map[string]string{"/.dockerenv": ""}},
		PlacePod: {files: map[string]string{"/.dockerenv": ""}, variable: "KUBERNETES_SERVICE_HOST"}, PlaceJob: {variable: "SLURM_JOB_ID"},
	} {
		set := func(name string) string { return map[bool]string{true: "1"}[name == c.variable] }
		if got := place(machine(t, c.files), set); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestPartOfAMachine(t *testing.T) {
	for _, c := range []struct {
		variable string
		cpus     int
		granted  int
		shared   bool
	}{
		{"", 4, 0, false}, {"4", 4, 4, false}, {"2", 4, 2, true}, {"many", 4, 0, false}, {"-1", 4, 0, false},
	} {
		h := Host{CPUs: c.cpus, Granted: granted(func(string) string { return c.variable })}
		if got := h.Shared(); h.Granted != c.granted || (got != "") != c.shared {
			t.Errorf("SLURM_CPUS_ON_NODE=%q of %d CPUs: granted %d, %q", c.variable, c.cpus, h.Granted, got)
		}
	}
}
