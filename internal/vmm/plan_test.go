package vmm

import (
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tarelab/tare/internal/driver"
)

var update = flag.Bool("update", false, "write the command lines to testdata")

// TestPlans compares every VMM's command line, on every architecture, with what
// is kept: those that cannot be run here can at least be read.
func TestPlans(t *testing.T) {
	for _, arch := range Architectures {
		for _, v := range For(arch) {
			name := strings.ReplaceAll(v.Name, "/", "-") + "-" + arch
			t.Run(name, func(t *testing.T) {
				m := Machine{Kernel: Kernel{Path: "/kernel"}, Initrd: "/initrd", Append: []string{"loglevel=6", "panic=-1"}, CPUs: 1, Memory: 512<<20 - 1,
					Disks: []Disk{{Path: "/disk,one", ReadOnly: true}}, Agent: true, Accel: KVM, Firmware: "/firmware",
					NIC: &NIC{Tap: "tap0", Hardware: net.HardwareAddr{2, 0, 0, 0, 0, 1}}}
				if v.Can(Emulating) {
					m.Accel = TCG
				}
				if v.Takes(m) != nil {
					m.Disks[0].Path = "/disk"
				}
				compare(t, name, v, m)
				m.Disks, m.NIC, m.From = nil, nil, "/saved"
				compare(t, name+"-restored", v, m)
			})
		}
	}
}

func compare(t *testing.T, name string, v VMM, m Machine) {
	t.Helper()
	p, err := v.plan(m)
	if err != nil {
		t.Fatal(err)
	}
	text := v.Binary + "\n  " + strings.Join(p.args, "\n  ") + "\n"
	text = regexp.MustCompile(`tsc_early_khz=\d+`).ReplaceAllString(text, "tsc_early_khz=N")
	for file, data := range p.files {
		text += file + ":\n" + string(data) + "\n"
	}
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if text != string(want) {
		t.Errorf("got\n%s\nwant\n%s(go test ./internal/vmm -update keeps the new one)", text, want)
	}
}

// TestWritableDisks sees that a VMM without private copies refuses them: the
// image would be changed for everybody.
func TestWritableDisks(t *testing.T) {
	m := Machine{Kernel: Kernel{Path: "/kernel"}, CPUs: 1, Memory: 64 << 20, Disks: []Disk{{Path: "/disk"}}}
	for _, v := range slices.Concat(qemus("amd64"), stratovirts("amd64")[:1], firecrackers("amd64"), cloudHypervisors("amd64")) {
		p, err := v.planned(m)
		private := slices.ContainsFunc(p.args, func(a string) bool { return strings.Contains(a, "snapshot=on") })
		if (err == nil) != private {
			t.Errorf("%s: private copy %v, error %v", v.Name, private, err)
		}
	}
}

// TestOwnDisks: what a guest flushes to its own disk is written, and a disk that is to
// pass the host's page cache does so where the VMM can.
func TestOwnDisks(t *testing.T) {
	wants := map[string][2]string{ // through the cache, and past it
		"qemu": {"file=/disk,cache=writeback", "file=/disk,cache=none"}, "stratovirt": {"readonly=off,direct=off", "readonly=off,direct=on"},
		"cloud-hypervisor": {"readonly=off,direct=off", "readonly=off,direct=on"}, "firecracker": {`"cache_type": "Writeback"`, `"cache_type": "Writeback"`},
	}
	for _, v := range slices.Concat(qemus("amd64"), stratovirts("amd64"), firecrackers("amd64"), cloudHypervisors("amd64")) {
		family, _, _ := strings.Cut(v.Name, "/")
		for i, want := range wants[family] {
			p, err := v.plan(Machine{Kernel: Kernel{Path: "/kernel"}, CPUs: 1, Memory: 64 << 20, Firmware: "/firmware", Disks: []Disk{{Path: "/disk", Own: true, Direct: i == 1}}})
			if text := strings.Join(p.args, " ") + string(p.files["machine.json"]); err != nil || !strings.Contains(text, want) {
				t.Errorf("%s: %s lacks %s (%v)", v.Name, text, want, err)
			}
		}
		if v.Can(Uncached) == (wants[family][0] == wants[family][1]) {
			t.Errorf("%s: it says that it passes the page cache: %v", v.Name, v.Can(Uncached))
		}
	}
}

// TestCPUUnderKVM: the host's own, but where QEMU knows none of that name.
func TestCPUUnderKVM(t *testing.T) {
	for arch, want := range map[string]string{"amd64": "host", "arm64": "host", "mips64le": "Loongson-3A4000"} {
		p, err := qemus(arch)[0].plan(Machine{Kernel: Kernel{Path: "/kernel"}, CPUs: 1, Memory: 64 << 20, Accel: KVM})
		if at := slices.Index(p.args, "-cpu"); err != nil || at < 0 || p.args[at+1] != want {
			t.Errorf("%s: %q, %v; want -cpu %s", arch, p.args, err, want)
		}
	}
}

// TestNoSeccomp: filters are off where the user asks for that, and only there.
func TestNoSeccomp(t *testing.T) {
	wants := map[string]string{"stratovirt": "-disable-seccomp", "firecracker": "--no-seccomp", "cloud-hypervisor": "--seccomp false"}
	for _, v := range slices.Concat(stratovirts("amd64"), firecrackers("amd64"), cloudHypervisors("amd64")) {
		for _, asked := range []bool{false, true} {
			p, err := v.plan(Machine{Kernel: Kernel{Path: "/kernel"}, CPUs: 1, Memory: 64 << 20, Firmware: "/firmware", NoSeccomp: asked})
			if has := strings.Contains(strings.Join(p.args, " "), wants[v.Binary]); err != nil || has != asked {
				t.Errorf("%s, asked %v: %q, %v", v.Name, asked, p.args, err)
			}
		}
	}
}

// TestCommas: a comma in a disk's path is written as one, or refused.
func TestCommas(t *testing.T) {
	m := Machine{Kernel: Kernel{Path: "/kernel"}, CPUs: 1, Memory: 64 << 20, Firmware: "/firmware", Disks: []Disk{{Path: "/disk,readonly=off", ReadOnly: true}}}
	for _, v := range slices.Concat(qemus("amd64"), stratovirts("amd64"), firecrackers("amd64"), cloudHypervisors("amd64")) {
		refuses := v.Binary == "stratovirt" || v.Binary == "cloud-hypervisor"
		if err := v.Takes(m); (err != nil) != refuses || err != nil && !strings.Contains(err.Error(), "a comma in its path: /disk,readonly=off") {
			t.Errorf("%s: %v", v.Name, err)
		}
	}
}

// TestImageType: a Cloud Hypervisor that knows the option is told that a disk is raw,
// because it lets nobody write to the first sector of one that only looks so.
func TestImageType(t *testing.T) {
	v := cloudHypervisors("amd64")[0]
	for says, want := range map[string]string{
		"--disk  path=<disk_image_path>,readonly=on|off,image_type=<raw,qcow2,vhd,vhdx>": "path=/disk,readonly=off,direct=off,image_type=raw",
		"--disk  path=<disk_image_path>,readonly=on|off":                                 "path=/disk,readonly=off,direct=off",
	} {
		program := filepath.Join(t.TempDir(), "cloud-hypervisor")
		if err := os.WriteFile(program, []byte("#!/bin/sh\n[ \"$*\" = --help ] && echo '"+says+"'\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		m := Machine{Kernel: Kernel{Path: "/kernel"}, CPUs: 1, Memory: 64 << 20, Disks: []Disk{{Path: "/disk", Own: true}}}
		if err := v.ask(t.Context(), program, &m); err != nil {
			t.Fatal(err)
		}
		if p, err := v.plan(m); err != nil || !slices.Contains(p.args, want) {
			t.Errorf("where it says %q: %q, %v", says, p.args, err)
		}
	}
}

// TestFirmware: the first file that is there is taken, and where none is, the VMM cannot
// have the machine, with the package that helps.
func TestFirmware(t *testing.T) {
	there := filepath.Join(t.TempDir(), "OVMF_CODE_4M.fd")
	if err := os.WriteFile(there, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := (&uefi{files: []string{"/no/such", there, "/no/other"}}).find(); err != nil || got != there {
		t.Errorf("found %q, %v", got, err)
	}
	s := stratovirt{uefi: &uefi{files: []string{"/no/such"}, pack: "ovmf"}}
	err := VMM{Name: "stratovirt/q35", plan: s.plan}.Takes(Machine{CPUs: 1})
	var cannot *driver.CannotError
	if !errors.As(err, &cannot) || !strings.Contains(err.Error(), "none of /no/such is there (apt-get install ovmf)") {
		t.Errorf("without firmware: %v", err)
	}
}

// A guest's free pages come back, and its pages are merged, where the level asks for
// it; a VMM that offers none to KSM says so.
func TestGuestMemoryPlans(t *testing.T) {
	wants := map[string][2]string{ // what reports, what merges; "" where it cannot
		"qemu/microvm":       {"virtio-balloon-device,free-page-reporting=on", "microvm,acpi=on,rtc=on,pit=off,mem-merge=on"},
		"qemu/q35":           {"virtio-balloon-pci,free-page-reporting=on", "q35,mem-merge=on"},
		"stratovirt/microvm": {"virtio-balloon-device,id=balloon0,free-page-reporting=true", ""},
		"firecracker":        {`"free_page_reporting": true`, ""},
		"cloud-hypervisor":   {"size=0,free_page_reporting=on", "size=64M,mergeable=on"},
	}
	for _, v := range slices.Concat(qemus("amd64"), stratovirts("amd64")[:1], firecrackers("amd64"), cloudHypervisors("amd64")) {
		m := Machine{Kernel: Kernel{Path: "/kernel"}, CPUs: 1, Memory: 64 << 20}
		holds := func(m Machine, text string) bool {
			p, err := v.plan(m)
			if err != nil {
				t.Errorf("%s: %v", v.Name, err)
			}
			return strings.Contains(strings.Join(p.args, " ")+string(p.files["machine.json"]), text)
		}
		reports, merges := wants[v.Name][0], wants[v.Name][1]
		if plain := m; holds(plain, reports) {
			t.Errorf("%s reports free pages unasked", v.Name)
		}
		with := m
		with.Devices.PageReporting = true
		if !holds(with, reports) {
			t.Errorf("%s does not hold %s", v.Name, reports)
		}
		m.Devices.Mergeable = true
		if err := v.Takes(m); (err == nil) != (merges != "") {
			t.Errorf("%s: merging: %v", v.Name, err)
		} else if err == nil && !holds(m, merges) {
			t.Errorf("%s does not hold %s", v.Name, merges)
		}
	}
}

// Every machine of every architecture has a name everywhere, once: as one of its own
// or as a foreign one, which says where it is at home.
func TestForeignMachines(t *testing.T) {
	all := map[string]bool{}
	for _, arch := range Architectures {
		for _, v := range For(arch) {
			all[v.Name] = true
		}
	}
	for _, arch := range Architectures {
		foreign := Foreign(arch)
		for _, v := range For(arch) {
			if of, ok := foreign[v.Name]; ok {
				t.Errorf("%s is one of %s, and said to be of %v", v.Name, arch, of)
			}
		}
		if len(foreign)+len(For(arch)) != len(all) {
			t.Errorf("%s: %d own and %d foreign machines, of %d", arch, len(For(arch)), len(foreign), len(all))
		}
	}
	if of := Foreign("amd64")["qemu/virt"]; !slices.Equal(of, []string{"arm64", "loong64", "riscv64"}) {
		t.Errorf("qemu/virt is of %v", of)
	}
}

// What the VMM is asked for is what the footprint looks for.
func TestMappedMemory(t *testing.T) {
	for bytes, want := range map[int64]int64{512 << 20: 512 << 20, 100<<20 + 1: 101 << 20, 1_000_000_000: 954 << 20} {
		m := Machine{Memory: bytes, CPUs: 1}
		if m.Mapped() != want {
			t.Errorf("%d bytes are mapped as %d, want %d", bytes, m.Mapped(), want)
		}
		v := VMMs()[0]
		p, err := v.plan(m)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(p.args, fmt.Sprintf("%dM", want>>20)) {
			t.Errorf("%s is not asked for %d MiB: %q", v.Name, want>>20, p.args)
		}
	}
}
