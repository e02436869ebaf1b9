package vmm

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/tarelab/tare/internal/driver"
)

// allAbilities are all of them, in the order of lists.
func allAbilities() []Ability {
	return []Ability{Emulating, SelfBooting, PrivateCopies, Uncached, Restoring, Cloning,
		Reporting, Ballooning, Plugging, HugePages, Merging, Threading, Vhost, SharingFiles}
}

// Each VMM says of each ability either how it has it or why not, and the docs' table
// says the same.
func TestAbilities(t *testing.T) {
	for _, arch := range Architectures {
		for _, v := range For(arch) {
			for _, a := range allAbilities() {
				how, has := v.Offers.Has[a]
				why, lacks := v.Offers.Lacks[a]
				if has == lacks || how+why == "" {
					t.Errorf("%s, %s on %s: has %q, lacks %q", v.Name, a, arch, how, why)
				}
			}
		}
	}
	docs, err := os.ReadFile("../../docs/targets/vm.md")
	if err != nil {
		t.Fatal(err)
	}
	if want := abilityTable(); !strings.Contains(string(docs), want) {
		t.Errorf("docs/targets/vm.md lacks this table:\n%s", want)
	}
}

// abilityTable are the abilities of all VMMs, an ability a row and a VMM a column, as a
// table in Markdown. Machines of one VMM whose words are the same share a column.
func abilityTable() string {
	type column struct {
		names []string
		cells []string
	}
	var columns []column
	seen := map[string]bool{}
	for _, arch := range Architectures {
		for _, v := range For(arch) {
			if seen[v.Name] {
				continue
			}
			seen[v.Name] = true
			c := column{names: []string{"`" + v.Name + "`"}}
			for _, a := range allAbilities() {
				if how, has := v.Offers.Has[a]; has {
					c.cells = append(c.cells, strings.TrimSuffix("yes: "+how, ": "))
				} else {
					c.cells = append(c.cells, "no: "+v.Offers.Lacks[a])
				}
			}
			i := slices.IndexFunc(columns, func(o column) bool { return slices.Equal(o.cells, c.cells) })
			if i < 0 {
				columns = append(columns, c)
			} else {
				columns[i].names = append(columns[i].names, c.names...)
			}
		}
	}
	var b strings.Builder
	b.WriteString("| |")
	for _, c := range columns {
		fmt.Fprintf(&b, " %s |", strings.Join(c.names, ", "))
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(columns)) + "\n")
	for i, a := range allAbilities() {
		fmt.Fprintf(&b, "| %s |", a)
		for _, c := range columns {
			fmt.Fprintf(&b, " %s |", c.cells[i])
		}
		b.WriteString("\n")
	}
	return b.String()
}

// A machine that its VMM cannot have is refused by the ability that it lacks, and one of
// which two things exclude each other by both.
func TestRefusedMachines(t *testing.T) {
	can := VMM{Name: "can/one", plan: func(Machine) (plan, error) { return plan{}, nil }, Offers: Abilities{Has: map[Ability]string{}}}
	cannot := VMM{Name: "cannot/one", plan: can.plan, Offers: Abilities{Lacks: map[Ability]string{}}}
	for _, a := range allAbilities() {
		can.Offers.Has[a], cannot.Offers.Lacks[a] = "so", "it has no such command"
	}
	const mib = 1 << 20
	for _, c := range []struct {
		vmm  VMM
		m    Machine
		want string // "" for none
	}{
		{can, Machine{From: "/saved", Disks: []Disk{{ReadOnly: true}}}, ""},
		{can, Machine{From: "/saved", Disks: []Disk{{Own: true}}}, "no disk to write to"},
		{can, Machine{SaveTo: "/saved", NIC: &NIC{}}, "no network"},
		{can, Machine{From: "/saved", Share: "/files"}, "no virtio-fs"},
		{can, Machine{From: "/saved", Memory: 512 * mib, Devices: driver.Devices{Balloon: mib}}, "no balloon"},
		{can, Machine{Memory: 512 * mib, Devices: driver.Devices{Balloon: 512 * mib}}, "a balloon of 512 MiB takes all of a guest of 512 MiB"},
		{can, Machine{Memory: 512 * mib, Devices: driver.Devices{Hotplug: 100 * mib}}, "sections of 128 MiB, and 100 MiB"},
		{can, Machine{Memory: 512 * mib, Devices: driver.Devices{Balloon: 256 * mib, Hotplug: 256 * mib, HugePages: true, IOThread: true, Vhost: true, VirtioFS: true}}, ""},
		{cannot, Machine{SaveTo: "/saved"}, "cannot/one cannot run here: snapshot and restore: it has no such command"},
		{cannot, Machine{Devices: driver.Devices{Balloon: mib}}, "memory balloon: it has no such command"},
		{cannot, Machine{Devices: driver.Devices{Hotplug: 128 * mib}}, "memory hotplug: it has"},
		{cannot, Machine{Devices: driver.Devices{HugePages: true}}, "huge pages: it has"},
		{cannot, Machine{Devices: driver.Devices{IOThread: true}}, "a thread of its own for the disks: it has"},
		{cannot, Machine{Devices: driver.Devices{Vhost: true}}, "vhost-net: it has"},
		{cannot, Machine{Share: "/files"}, "virtio-fs: it has"},
		{cannot, Machine{Disks: []Disk{{Path: "/disk"}}}, "private copies of disks: it has"},
		{cannot, Machine{Alone: &Alone{}}, "boots from a disk alone: it has"},
		{cannot, Machine{Disks: []Disk{{Own: true}, {ReadOnly: true}}}, ""},
	} {
		err := c.vmm.Takes(c.m)
		var refused *driver.CannotError
		if c.want == "" && err == nil {
			continue
		}
		if c.want == "" || !errors.As(err, &refused) || !strings.Contains(refused.Error(), c.want) {
			t.Errorf("%s with %+v: %v, want %q", c.vmm.Name, c.m, err, c.want)
		}
	}
}

// The devices that VMMs offer are asked for as their documentation says.
func TestDevicePlans(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/virtiofsd", []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
	nic := &NIC{Tap: "tap0"}
	wants := map[string]map[Ability]string{
		"qemu/q35": {
			HugePages: "memory-backend-memfd,id=memory,size=512M,share=off,merge=off,hugetlb=on,hugetlbsize=2M", Threading: "virtio-blk-pci,drive=disk0,iothread=disks",
			Vhost: "script=no,downscript=no,vhost=on", SharingFiles: "vhost-user-fs-pci,chardev=share,tag=tare", Ballooning: "virtio-balloon-pci,free-page-reporting=off", Plugging: "512M,slots=1,maxmem=768M",
		},
		"qemu/microvm":       {Threading: "virtio-blk-device,drive=disk0,iothread=disks", SharingFiles: "vhost-user-fs-device,chardev=share,tag=tare"},
		"stratovirt/microvm": {Threading: "virtio-blk-device,id=blk0,drive=disk0,iothread=disks", Vhost: "ifname=tap0,vhost=on", Ballooning: "virtio-balloon-device,id=balloon0"},
		"firecracker":        {HugePages: `"huge_pages": "2M"`},
		"cloud-hypervisor":   {HugePages: "mergeable=off,hugepages=on", SharingFiles: "--fs tag=tare,socket=virtiofs"},
	}
	for _, v := range For("amd64") {
		for a, want := range wants[v.Name] {
			m := Machine{Kernel: Kernel{Path: "/kernel"}, CPUs: 1, Memory: 512 << 20, Accel: KVM, Firmware: "/firmware", Disks: []Disk{{Path: "/disk", Own: true}}, NIC: nic}
			text := func() string {
				p, err := v.planned(m)
				if err != nil {
					t.Errorf("%s, %s: %v", v.Name, a, err)
				}
				if a == SharingFiles && m.Share != "" && (len(p.helpers) != 1 || !slices.Equal(p.helpers[0].args, []string{dir + "/virtiofsd", "--fd=0", "-o", "source=/files", "-o", "allow_direct_io"})) {
					t.Errorf("%s: helpers %+v", v.Name, p.helpers)
				}
				return strings.Join(p.args, " ") + string(p.files["machine.json"])
			}
			if strings.Contains(text(), want) {
				t.Errorf("%s has %s unasked", v.Name, a)
			}
			switch a {
			case HugePages:
				m.Devices.HugePages = true
			case Threading:
				m.Devices.IOThread = true
			case Vhost:
				m.Devices.Vhost = true
			case Ballooning:
				m.Devices.Balloon = 128 << 20
			case Plugging:
				m.Devices.Hotplug = 256 << 20
			case SharingFiles:
				m.Share, m.ShareDirect = "/files", true
			}
			if got := text(); !strings.Contains(got, want) {
				t.Errorf("%s, %s: %s lacks %s", v.Name, a, got, want)
			}
		}
	}
	microvm, _ := ByName(QEMUMicroVM)
	if microvm.plan != nil {
		err := microvm.Takes(Machine{CPUs: 1, Memory: 512 << 20, Accel: TCG, Devices: driver.Devices{IOThread: true}})
		if !errors.As(err, new(*driver.CannotError)) {
			t.Errorf("a thread for virtio-mmio under TCG: %v", err)
		}
	}
}

// A balloon is asked for until the guest has given up enough, and memory that was
// added counts when the guest reports it.
func TestAdjustByQMP(t *testing.T) {
	actual := []string{`{"actual":536870912}`, `{"actual":268435456}`}
	serve := func(conn io.ReadWriter, tell func(string)) {
		lines := bufio.NewScanner(conn)
		for lines.Scan() {
			var c struct {
				Execute   string          `json:"execute"`
				Arguments json.RawMessage `json:"arguments"`
			}
			if json.Unmarshal(lines.Bytes(), &c) != nil {
				return
			}
			tell(strings.TrimSpace(c.Execute + " " + string(c.Arguments)))
			answer := "{}"
			if c.Execute == "query-balloon" {
				answer, actual = actual[0], actual[1:]
			}
			fmt.Fprintf(conn, "{\"event\": \"BALLOON_CHANGE\"}\r\n{\"return\": %s}\r\n", answer)
			if c.Execute == "device_add" {
				fmt.Fprint(conn, "{\"event\": \"ACPI_DEVICE_OST\", \"data\": {\"info\": {\"device\": \"dimm\", \"slot\": \"0\", \"slot-type\": \"DIMM\", \"source\": 1, \"status\": 0}}}\r\n")
			}
		}
	}
	var marks []Mark
	got := dialogue(t, serve, func(c net.Conn) error {
		q := &qmp{conn: c, lines: bufio.NewReader(c), heard: make(chan message)}
		go func() { _ = q.watch() }() // ends with the connection
		return adjustQMP(t.Context(), q, Machine{Memory: 512 << 20, Devices: driver.Devices{Balloon: 256 << 20, Hotplug: 128 << 20}}, func(m Mark) { marks = append(marks, m) })
	})
	want := []string{`balloon {"value":268435456}`, "query-balloon", "query-balloon",
		`object-add {"id":"added","qom-type":"memory-backend-ram","size":134217728}`, `device_add {"driver":"pc-dimm","id":"dimm","memdev":"added"}`}
	if !slices.Equal(got, want) || !slices.Equal(marks, []Mark{MarkBallooned, MarkPlugged}) {
		t.Errorf("asked %q, marks %q; want %q", got, marks, want)
	}
}

// dialogue plays a VMM that answers so, and gives the lines or requests that it got.
func dialogue(t *testing.T, serve func(io.ReadWriter, func(string)), use func(net.Conn) error) []string {
	t.Helper()
	ours, theirs := net.Pipe()
	var got []string
	done := make(chan struct{})
	go func() {
		defer close(done)
		serve(theirs, func(s string) { got = append(got, s) })
	}()
	if err := use(ours); err != nil {
		t.Fatal(err)
	}
	ours.Close()
	<-done
	return got
}

// serveQMP answers as QEMU does: a migration has a status that changes.
func serveQMP(statuses ...string) func(io.ReadWriter, func(string)) {
	return func(conn io.ReadWriter, tell func(string)) {
		lines := bufio.NewScanner(conn)
		for lines.Scan() {
			var c struct {
				Execute   string          `json:"execute"`
				Arguments json.RawMessage `json:"arguments"`
			}
			if json.Unmarshal(lines.Bytes(), &c) != nil {
				return
			}
			tell(strings.TrimSpace(c.Execute + " " + string(c.Arguments)))
			answer := "{}"
			if strings.HasPrefix(c.Execute, "query-") && len(statuses) > 0 {
				answer, statuses = statuses[0], statuses[1:]
			}
			fmt.Fprintf(conn, "{\"event\": \"MIGRATION\"}\r\n{\"return\": %s}\r\n", answer)
		}
	}
}

func TestSaveAndRestoreByQMP(t *testing.T) {
	of := func(conn net.Conn) *qmp { return &qmp{conn: conn, lines: bufio.NewReader(conn)} }
	ignore := `migrate-set-capabilities {"capabilities":[{"capability":"x-ignore-shared","state":true}]}`
	got := dialogue(t, serveQMP(`{"status":"active"}`, `{"status":"completed"}`), func(c net.Conn) error {
		return qemuSave(t.Context(), of(c), Machine{SaveTo: "/it's"})
	})
	if want := []string{ignore, "stop", `migrate {"uri":"exec:cat \u003e'/it'\\''s/state'"}`, "query-migrate", "query-migrate"}; !slices.Equal(got, want) {
		t.Errorf("saved by %q, want %q", got, want)
	}
	got = dialogue(t, serveQMP(`{"status":"inmigrate"}`, `{"status":"paused"}`), func(c net.Conn) error {
		return qemuRestore(t.Context(), of(c), Machine{From: "/saved"})
	})
	if want := []string{ignore, `migrate-incoming {"uri":"exec:cat '/saved/state'"}`, "query-status", "query-status", "cont"}; !slices.Equal(got, want) {
		t.Errorf("restored by %q, want %q", got, want)
	}
	got = dialogue(t, serveQMP(`{"status":"completed"}`), func(c net.Conn) error {
		return stratovirtSave(t.Context(), of(c), Machine{SaveTo: "/saved"})
	})
	if want := []string{"stop", `migrate {"uri":"file:/saved"}`, "query-migrate"}; !slices.Equal(got, want) {
		t.Errorf("saved by %q, want %q", got, want)
	}
}

func TestFailedMigration(t *testing.T) {
	dialogue(t, serveQMP(`{"status":"failed","error-desc":"No space left on device"}`), func(c net.Conn) error {
		err := qemuSave(t.Context(), &qmp{conn: c, lines: bufio.NewReader(c)}, Machine{SaveTo: "/saved"})
		if err == nil || !strings.Contains(err.Error(), "No space left on device") {
			return fmt.Errorf("it ended with: %w", err)
		}
		return nil
	})
}

// TestSaveAndRestoreByREST has what the two VMMs' documentation says that they are asked.
func TestSaveAndRestoreByREST(t *testing.T) {
	serve := func(conn io.ReadWriter, tell func(string)) {
		from := bufio.NewReader(conn)
		for {
			r, err := http.ReadRequest(from)
			if err != nil {
				return
			}
			body, _ := io.ReadAll(r.Body) // what is cut short is told by what is missing
			tell(strings.TrimSpace(r.Method + " " + r.URL.Path + " " + string(body)))
			fmt.Fprint(conn, "HTTP/1.1 204 No Content\r\n\r\n")
		}
	}
	m := Machine{SaveTo: "/saved", From: "/saved"}
	for name, c := range map[string]struct {
		do   func(context.Context, control, Machine) error
		want []string
	}{
		"firecracker saves": {firecrackerSave, []string{`PATCH /vm {"state":"Paused"}`,
			`PUT /snapshot/create {"mem_file_path":"/saved/guest-memory","snapshot_path":"/saved/state","snapshot_type":"Full"}`}},
		"firecracker restores": {firecrackerRestore, []string{
			`PUT /snapshot/load {"mem_backend":{"backend_path":"/saved/guest-memory","backend_type":"File"},"resume_vm":true,"snapshot_path":"/saved/state"}`}},
		"cloud-hypervisor saves":    {cloudHypervisorSave, []string{"PUT /api/v1/vm.pause", `PUT /api/v1/vm.snapshot {"destination_url":"file:///saved"}`}},
		"cloud-hypervisor restores": {cloudHypervisorRestore, []string{`PUT /api/v1/vm.restore {"source_url":"file:///saved"}`, "PUT /api/v1/vm.resume"}},
	} {
		got := dialogue(t, serve, func(conn net.Conn) error { return c.do(t.Context(), &rest{conn, bufio.NewReader(conn)}, m) })
		if !slices.Equal(got, c.want) {
			t.Errorf("%s by %q, want %q", name, got, c.want)
		}
	}
}
