package vmm

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/tarelab/tare/internal/driver"
)

func firecrackers(arch string) []VMM {
	formats := map[string][]Format{"amd64": {PVH, Vmlinux}, "arm64": {Image}}[arch]
	if formats == nil {
		return nil
	}
	early := []string{"earlycon=" + earlyX86}
	if arch == "arm64" {
		early = nil // where the port lies there differs between releases
	}
	return []VMM{{
		Name: "firecracker", Binary: "firecracker", Version: []string{"--version"},
		Remedy:  firecrackerRelease(arch),
		Formats: formats, Modules: []string{"virtio_mmio", "vmw_vsock_virtio_transport", "virtio_blk"},
		Symbols: []string{map[string]string{"amd64": "VIRTIO_MMIO_CMDLINE_DEVICES", "arm64": "VIRTIO_MMIO"}[arch], "VIRTIO_VSOCKETS"},
		Offers: Abilities{Has: map[Ability]string{
			Restoring: "`/snapshot/create`, `/snapshot/load`", Cloning: "the memory file is mapped privately",
			Reporting: "`/balloon`, from 1.14", HugePages: "`huge_pages`",
		}, Lacks: map[Ability]string{
			Emulating: "KVM alone", SelfBooting: "it has no firmware", PrivateCopies: "what a guest writes goes into the file", Uncached: "it opens no disk so",
			Ballooning: "tare does not use its `/balloon` for that", Plugging: "tare does not use its `/hotplug/memory`", Merging: "it offers none",
			Threading: "one thread serves all devices", Vhost: "not in its documentation", SharingFiles: "not in its documentation",
		}},
		MaxCPUs: 32, StartTime: 500 * time.Millisecond, Order: 640,
		plan: func(m Machine) (plan, error) { return firecrackerPlan(m, early) },
	}}
}

// firecrackerRelease is how a user gets the program.
func firecrackerRelease(arch string) string {
	const version = "v1.14.0"
	machine := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[arch]
	return fmt.Sprintf("curl -fL https://github.com/firecracker-microvm/firecracker/releases/download/%[1]s/firecracker-%[1]s-%[2]s.tgz | tar xzO release-%[1]s-%[2]s/firecracker-%[1]s-%[2]s >/usr/local/bin/firecracker && chmod +x /usr/local/bin/firecracker", version, machine)
}

// agentPort is the port of vsock on which guests find tare.
const agentPort = 1024

// vsockPlug is for VMMs that hand a guest's connection to port P of the host on
// to the socket NAME_P, on which tare listens.
func vsockPlug(name string) plug {
	return plug{socket: fmt.Sprintf("%s_%d", name, agentPort), way: fmt.Sprintf("vsock:%d", agentPort)}
}

// firecrackerPlan gives Firecracker a file with all that its API would be told
// (docs/api_requests in its sources): it boots without a request. The API still
// says when it is ready. Its log would go to standard output (from 1.5 on), which is
// the guest's console.
func firecrackerPlan(m Machine, early []string) (plan, error) {
	p := plan{console: plug{}, control: plug{socket: "api", dial: true}, protocol: dialREST("/"), save: firecrackerSave, restore: firecrackerRestore}
	parameters := append([]string{"console=ttyS0", "reboot=k", "tare_off=reset"}, early...)
	type object = map[string]any
	size := object{"vcpu_count": m.CPUs, "mem_size_mib": mebibytes(m.Memory)}
	if m.Devices.HugePages {
		size["huge_pages"] = "2M"
	}
	config := object{"machine-config": size}
	if m.Agent {
		p.channels = []plug{vsockPlug("vsock")}
		parameters = append(parameters, ways(p.channels))
		config["vsock"] = object{"guest_cid": 3, "uds_path": "vsock"}
	}
	drives := []object{}
	for i, d := range m.Disks {
		drives = append(drives, object{"drive_id": fmt.Sprintf("disk%d", i), "path_on_host": d.Path, "is_root_device": false, "is_read_only": d.ReadOnly,
			"cache_type": "Writeback"}) // else what the guest flushes is not written
	}
	config["drives"] = drives
	if m.Devices.PageReporting { // from Firecracker 1.14 on
		config["balloon"] = object{"amount_mib": 0, "deflate_on_oom": false, "free_page_reporting": true}
	}
	if n := m.NIC; n != nil {
		config["network-interfaces"] = []object{{"iface_id": "net0", "host_dev_name": n.Tap, "guest_mac": n.Hardware.String()}}
	}
	boot := object{"kernel_image_path": m.Kernel.Path, "boot_args": strings.Join(append(parameters, m.Append...), " ")}
	if m.Initrd != "" {
		boot["initrd_path"] = m.Initrd
	}
	config["boot-source"] = boot
	text, err := json.MarshalIndent(config, "", "\t")
	if err != nil {
		return p, err
	}
	p.args = []string{"--api-sock", "api"}
	if m.From == "" { // else the saved state has all of it
		p.files = map[string][]byte{"machine.json": text}
		p.args = append(p.args, "--config-file", "machine.json")
	}
	p.args = append(p.args, "--log-path", "/dev/stderr", "--level", "Warning")
	if m.NoSeccomp {
		p.args = append(p.args, "--no-seccomp")
	}
	return p, nil
}

// The files of a saved guest.
const (
	firecrackerState  = "state"
	firecrackerMemory = driver.GuestMemoryFile
)

func firecrackerSave(ctx context.Context, c control, m Machine) error {
	api := c.(*rest)
	if err := api.request(ctx, http.MethodPatch, "/vm", map[string]string{"state": "Paused"}); err != nil {
		return err
	}
	return api.request(ctx, http.MethodPut, "/snapshot/create", map[string]string{
		"snapshot_type": "Full", "snapshot_path": filepath.Join(m.SaveTo, firecrackerState), "mem_file_path": filepath.Join(m.SaveTo, firecrackerMemory),
	})
}

func firecrackerRestore(ctx context.Context, c control, m Machine) error {
	return c.(*rest).request(ctx, http.MethodPut, "/snapshot/load", map[string]any{
		"snapshot_path": filepath.Join(m.From, firecrackerState), "resume_vm": true,
		"mem_backend": map[string]string{"backend_type": "File", "backend_path": filepath.Join(m.From, firecrackerMemory)},
	})
}
