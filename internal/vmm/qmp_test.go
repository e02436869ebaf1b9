package vmm

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tarelab/tare/internal/limit"
)

// said gives a connection on which the other side says all of text, and ends.
func said(t *testing.T, text string) net.Conn {
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(t.TempDir(), "s"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	a, err := net.Dial("unix", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	b, err := l.AcceptUnix()
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		_, _ = b.Write([]byte(text)) // a test that reads less is done
		b.CloseWrite()
	}()
	t.Cleanup(func() { a.Close(); b.Close(); l.Close() })
	return a
}

const greeting = `{"QMP": {"version": {"qemu": {"micro": 22, "minor": 2, "major": 7}}, "capabilities": ["oob"]}}` + "\r\n" + `{"return": {}}` + "\r\n"

func TestQMP(t *testing.T) {
	for name, c := range map[string]struct{ says, dial, watch string }{
		"ended well":         {greeting + `{"timestamp": {"seconds": 1}, "event": "SHUTDOWN", "data": {"guest": true}}` + "\n", "", ""},
		"events before":      {strings.Replace(greeting, `{"return"`, `{"event": "RESUME"}`+"\n"+`{"return"`, 1), "", ""},
		"internal error":     {greeting + `{"event": "STOP"}` + "\n" + `{"return": {"status": "internal-error", "running": false}}` + "\n", "", "the VMM stopped the guest: internal-error"},
		"stopped at once":    {strings.Replace(greeting, `{"return"`, `{"event": "STOP"}`+"\n"+`{"return"`, 1) + `{"return": {"status": "internal-error"}}` + "\n", "", "the VMM stopped the guest: internal-error"},
		"stopped twice":      {greeting + `{"event": "STOP"}` + "\n" + `{"event": "STOP"}` + "\n" + `{"return": {"status": "paused"}}` + "\n" + `{"return": {"status": "io-error"}}` + "\n", "", "the VMM stopped the guest: io-error"},
		"paused by a person": {greeting + `{"event": "STOP"}` + "\n" + `{"return": {"status": "paused"}}` + "\n", "", ""},
		"no greeting":        {`{"return": {}}` + "\n", "the first line is no greeting", ""},
		"not JSON":           {"SSH-2.0-OpenSSH\n", `"SSH-2.0-OpenSSH\n" is no QMP`, ""},
		"another JSON":       {"[1, 2]\n", "is no QMP", ""},
		"refused":            {strings.Replace(greeting, `{"return": {}}`, `{"error": {"class": "GenericError", "desc": "no"}}`, 1), "qmp_capabilities: GenericError: no", ""},
		"endless":            {strings.Repeat("x", int(limit.MonitorLine.Bytes)+64<<10), "has more than", ""},
		"nonsense later":     {greeting + "\x00\x01\n", "", "is no QMP"},
	} {
		t.Run(name, func(t *testing.T) {
			ctl, err := dialQMP(t.Context(), said(t, c.says), Machine{})
			expect(t, "negotiation", err, c.dial)
			if err == nil {
				expect(t, "watch", ctl.watch(), c.watch)
			}
		})
	}
}

func expect(t *testing.T, what string, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("%s: %v", what, err)
	case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
		t.Errorf("%s: got %v, want %q", what, err, want)
	}
}

func TestREST(t *testing.T) {
	for name, c := range map[string]struct{ says, want string }{
		"ready":    {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", ""},
		"no body":  {"HTTP/1.1 204 \r\n\r\n", ""},
		"not yet":  {"HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nwait", "503 Busy: wait"},
		"nonsense": {"220 mail ready\r\n", "malformed HTTP"},
		"silence":  {"", "unexpected EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := dialREST("/")(t.Context(), said(t, c.says), Machine{})
			expect(t, "request", err, c.want)
		})
	}
}

// The answer to a command that another waits for is not taken for one's own: a guest may
// stop while its memory is changed.
func TestAnswersKeepApart(t *testing.T) {
	serve := func(conn io.ReadWriter, tell func(string)) {
		lines, asked := bufio.NewScanner(conn), map[string]string{}
		for lines.Scan() {
			var c struct {
				Execute string `json:"execute"`
				ID      string `json:"id"`
			}
			if json.Unmarshal(lines.Bytes(), &c) != nil {
				return
			}
			tell(c.Execute)
			if asked[c.Execute] = c.ID; c.Execute == "balloon" {
				fmt.Fprint(conn, "{\"event\": \"STOP\"}\r\n")
				continue
			}
			fmt.Fprintf(conn, "{\"return\": {\"actual\": 7}, \"id\": %q}\r\n", asked["balloon"])
			fmt.Fprintf(conn, "{\"return\": {\"status\": \"running\"}, \"id\": %q}\r\n", c.ID)
		}
	}
	dialogue(t, serve, func(c net.Conn) error {
		q := &qmp{conn: c, lines: bufio.NewReader(c), heard: make(chan message)}
		q.asking.Store(true)
		go func() { _ = q.watch() }() // ends with the connection
		m, err := q.ask(t.Context(), "balloon", nil)
		if err == nil && m.Return.Actual != 7 {
			err = fmt.Errorf("balloon was answered by %+v", m.Return)
		}
		return err
	})
}
