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

// Each VMM says of each ability either how it has it or why not, and the docs' table
// says the same.
func TestAbilities(t *testing.T) {
	for _, arch := range Architectures {
		for _, v := range For(arch) {
			for _, a := range AllAbilities() {
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
	if want := AbilityTable(); !strings.Contains(string(docs), want) {
		t.Errorf("docs/targets/vm.md lacks this table:\n%s", want)
	}
}

// A guest whose VMM cannot save it, or that has what is not saved, is refused by name.
func TestRefusedRestores(t *testing.T) {
	can := VMM{Name: "can/one", plan: func(Machine) (plan, error) { return plan{}, nil }}
	cannot := can
	cannot.Name, cannot.Offers.Lacks = "cannot/one", map[Ability]string{Restoring: "it has no such command"}
	for _, c := range []struct {
		vmm  VMM
		m    Machine
		want string // "" for none
	}{
		{can, Machine{From: "/saved", Disks: []Disk{{ReadOnly: true}}}, ""},
		{can, Machine{From: "/saved", Disks: []Disk{{Own: true}}}, "no disk to write to"},
		{can, Machine{SaveTo: "/saved", NIC: &NIC{}}, "no network"},
		{cannot, Machine{SaveTo: "/saved"}, "cannot/one cannot run here: snapshot and restore: it has no such command"},
		{cannot, Machine{}, ""},
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
