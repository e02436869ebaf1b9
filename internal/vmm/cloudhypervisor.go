package vmm

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

func cloudHypervisors(arch string) []VMM {
	formats := map[string][]Format{"amd64": {PVH, BzImage}, "arm64": {Image}}[arch]
	if formats == nil {
		return nil
	}
	// On arm64 it adds the other one itself.
	serial := map[string][]string{"amd64": {"console=ttyS0", "earlycon=" + earlyX86}, "arm64": {"console=ttyAMA0"}}[arch]
	return []VMM{{
		Name: "cloud-hypervisor", Binary: "cloud-hypervisor", Version: []string{"--version"},
		Remedy:  "curl -fLo /usr/local/bin/cloud-hypervisor https://github.com/cloud-hypervisor/cloud-hypervisor/releases/download/v50.0/cloud-hypervisor-static" + map[string]string{"arm64": "-aarch64"}[arch] + " && chmod +x /usr/local/bin/cloud-hypervisor",
		Formats: formats, Modules: []string{"virtio_pci", "vmw_vsock_virtio_transport", "virtio_blk"}, Symbols: []string{"VIRTIO_PCI", "VIRTIO_VSOCKETS"},
		Options: []string{"--help"},
		Offers: Abilities{
			Has: map[Ability]string{
				Uncached: "`direct=on`", Restoring: "`vm.snapshot`, `vm.restore`", Reporting: "`--balloon`", HugePages: "`hugepages=on`", Merging: "`mergeable=on`",
				SharingFiles: "`--fs` and virtiofsd",
			},
			Lacks: map[Ability]string{
				Emulating: "KVM alone", SelfBooting: "tare boots it with a kernel alone", PrivateCopies: "what a guest writes goes into the file", Cloning: "each restore copies the memory",
				Ballooning: "tare does not use its `vm.resize`", Plugging: "tare does not use its `vm.resize`",
				Threading: "each queue always has one", Vhost: "it has vhost-user alone",
			},
		},
		StartTime: 500 * time.Millisecond, Order: 650,
		plan: func(m Machine) (plan, error) { return cloudHypervisorPlan(m, serial) },
	}}
}

// cloudHypervisorPlan boots from the command line; the API says when the VMM is
// ready.
func cloudHypervisorPlan(m Machine, serial []string) (plan, error) {
	p := plan{console: plug{socket: "console", dial: true}, control: plug{socket: "api", dial: true}, protocol: dialREST("/api/v1/vmm.ping"), save: cloudHypervisorSave, restore: cloudHypervisorRestore}
	if m.From != "" { // the saved guest has all the rest
		p.args = []string{"--api-socket", "path=api"}
		if m.NoSeccomp {
			p.args = append(p.args, "--seccomp", "false")
		}
		if m.Agent {
			p.channels = []plug{vsockPlug("vsock")}
		}
		return p, nil
	}
	memory := ""
	if m.Devices.HugePages {
		memory += ",hugepages=on"
	}
	if m.Share != "" {
		memory += ",shared=on"
	}
	args := []string{
		"--api-socket", "path=api", "--cpus", fmt.Sprintf("boot=%d", m.CPUs),
		"--memory", fmt.Sprintf("size=%dM,mergeable=%s", mebibytes(m.Memory), onOff(m.Devices.Mergeable)) + memory,
		"--kernel", m.Kernel.Path, "--serial", "socket=console", "--console", "off",
	}
	if m.NoSeccomp {
		args = append(args, "--seccomp", "false")
	}
	if m.Initrd != "" {
		args = append(args, "--initramfs", m.Initrd)
	}
	for i, d := range m.Disks {
		if err := noComma(d.Path); err != nil {
			return p, err
		}
		if i == 0 {
			args = append(args, "--disk")
		}
		disk := "path=" + d.Path + ",readonly=" + onOff(d.ReadOnly) + ",direct=" + onOff(d.Direct)
		if strings.Contains(m.options, "image_type=") { // from 50.1 on: else nobody may write to the first sector
			disk += ",image_type=raw"
		}
		args = append(args, disk)
	}
	if m.Devices.PageReporting {
		args = append(args, "--balloon", "size=0,free_page_reporting=on")
	}
	if m.Share != "" {
		h, err := virtiofsd(m)
		if err != nil {
			return p, err
		}
		p.helpers = append(p.helpers, h)
		args = append(args, "--fs", "tag="+shareTag+",socket="+h.socket)
	}
	parameters := slices.Clone(serial)
	if n := m.NIC; n != nil {
		args = append(args, "--net", fmt.Sprintf("tap=%s,mac=%s", n.Tap, n.Hardware))
	}
	if m.Agent {
		p.channels = []plug{vsockPlug("vsock")}
		args = append(args, "--vsock", "cid=3,socket=vsock")
		parameters = append(parameters, ways(p.channels))
	}
	p.args = append(args, "--cmdline", strings.Join(append(parameters, m.Append...), " "))
	return p, nil
}

func cloudHypervisorSave(ctx context.Context, c control, m Machine) error {
	api := c.(*rest)
	if err := api.request(ctx, http.MethodPut, "/api/v1/vm.pause", nil); err != nil {
		return err
	}
	return api.request(ctx, http.MethodPut, "/api/v1/vm.snapshot", map[string]string{"destination_url": "file://" + m.SaveTo})
}

func cloudHypervisorRestore(ctx context.Context, c control, m Machine) error {
	api := c.(*rest)
	if err := api.request(ctx, http.MethodPut, "/api/v1/vm.restore", map[string]string{"source_url": "file://" + m.From}); err != nil {
		return err
	}
	return api.request(ctx, http.MethodPut, "/api/v1/vm.resume", nil)
}
