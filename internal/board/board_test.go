package board_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/tarelab/tare/internal/board"
	"github.com/tarelab/tare/internal/probe/containers"
)

// hostile is a name that would end a label, a line, a script or an element.
const hostile = "a\"} 1\nforged 1\n</script><b>\x1b[2J\\"

func filled() *board.Board {
	b := board.New(board.About{Host: "here", CPUs: 2, Interval: time.Second, Began: time.Unix(1000, 0)})
	p := containers.Point{At: 1, ID: "id1", Name: hostile, Engine: "docker", CPU: 0.5, Memory: 4096, Read: -1, Written: 8, Received: -1, Sent: -1, Tasks: 3, Runnable: 1,
		Total: containers.Use{CPU: 1500 * time.Millisecond, Memory: 4096, Read: -1, Written: 80, Received: -1, Sent: -1, Tasks: 3, Runnable: 1, Killed: 2}}
	b.Add(time.Second, []containers.Point{p}, []containers.Event{{At: 1, Event: containers.OutOfMemory, ID: "id1", Name: hostile, Engine: "docker", Killed: 2}, {At: 1, Event: containers.Died, ID: "id2"}})
	return b
}

// ask asks a board for a path, by method and Host.
func ask(t *testing.T, h http.Handler, method, host, path string) (*http.Response, string) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, nil)
	r.Host = host
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result(), w.Body.String()
}

func TestOpenMetrics(t *testing.T) {
	answer, text := ask(t, filled().Handler(true), "GET", "127.0.0.1:9815", "/metrics")
	if answer.StatusCode != http.StatusOK || !strings.HasPrefix(answer.Header.Get("Content-Type"), "application/openmetrics-text") || !strings.HasSuffix(text, "# EOF\n") {
		t.Fatalf("%v\n%s", answer.Header, text)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if families["forged"] != nil || strings.ContainsRune(text, '\x1b') {
		t.Errorf("a name was taken for a metric:\n%s", text)
	}
	for line, want := range map[string]bool{
		"tare_containers 1.0":                              true,
		`tare_container_events_total{event="start"} 0.0`:   true,
		`tare_container_events_total{event="die"} 1.0`:     true,
		`tare_container_events_total{event="oom"} 2.0`:     true,
		`engine="docker"} 1.5`:                             true, // seconds of CPU time
		`tare_container_block_written_bytes_total{id="id1`: true,
		`tare_container_block_read_bytes_total`:            false, // not accounted
	} {
		if strings.Contains(text, line) != want {
			t.Errorf("%s: want %v in\n%s", line, want, text)
		}
	}
}

func TestReadings(t *testing.T) {
	h := filled().Handler(true)
	_, text := ask(t, h, "GET", "localhost:9815", "/readings")
	var s struct {
		Host   string
		Rounds []struct{ Points []containers.Point }
		Events []containers.Event
	}
	if err := json.Unmarshal([]byte(text), &s); err != nil || s.Host != "here" || len(s.Rounds) != 1 || s.Rounds[0].Points[0].Name != hostile || len(s.Events) != 2 {
		t.Errorf("%v\n%s", err, text)
	}
	if strings.Contains(text, "<b>") {
		t.Errorf("markup in the answer:\n%s", text)
	}
	if _, text := ask(t, h, "GET", "localhost", "/readings?after=1"); !strings.Contains(text, `"rounds":[]`) {
		t.Errorf("a reading that was seen came again:\n%s", text)
	}
	if answer, _ := ask(t, h, "GET", "localhost", "/readings?after=x"); answer.StatusCode != http.StatusBadRequest {
		t.Error(answer.Status)
	}
}

// It can only be read, by those who name this machine, and it loads nothing of others.
func TestGuarded(t *testing.T) {
	h := filled().Handler(true)
	for _, method := range []string{"POST", "PUT", "DELETE", "PATCH", "OPTIONS"} {
		if answer, _ := ask(t, h, method, "localhost", "/metrics"); answer.StatusCode != http.StatusMethodNotAllowed {
			t.Errorf("%s: %s", method, answer.Status)
		}
	}
	for host, want := range map[string]int{"127.0.0.1:9": 200, "[::1]:9": 200, "::1": 200, "localhost": 200, "evil.example": 421, "evil.example:9815": 421, "": 421} {
		if answer, _ := ask(t, h, "GET", host, "/readings"); answer.StatusCode != want {
			t.Errorf("host %q: %s, want %d", host, answer.Status, want)
		}
	}
	if answer, _ := ask(t, filled().Handler(false), "GET", "server.example", "/metrics"); answer.StatusCode != http.StatusOK {
		t.Errorf("a board for a network, by name: %s", answer.Status)
	}
	for path, want := range map[string]int{"/": 200, "/page.js": 200, "/page.css": 200, "/nothing": 404, "/../board.go": 404} {
		answer, text := ask(t, h, "GET", "localhost", path)
		if answer.StatusCode != want && answer.StatusCode != http.StatusTemporaryRedirect || !strings.Contains(answer.Header.Get("Content-Security-Policy"), "default-src 'none'") {
			t.Errorf("%s: %s %v", path, answer.Status, answer.Header)
		}
		if strings.Contains(text, "innerHTML") || strings.Contains(text, "://") && path == "/" {
			t.Errorf("%s writes markup or names another site", path)
		}
	}
}

// A board holds the last readings and events, whatever comes.
func TestBounded(t *testing.T) {
	b := board.New(board.About{Interval: time.Second})
	for i := range 1000 {
		var points []containers.Point
		for j := range 400 {
			points = append(points, containers.Point{ID: fmt.Sprint(j), CPU: float64(j)})
		}
		b.Add(time.Duration(i)*time.Second, points, []containers.Event{{ID: fmt.Sprint(i), Event: containers.Started}})
	}
	_, text := ask(t, b.Handler(true), "GET", "localhost", "/readings")
	var s struct {
		Rounds []struct {
			At     float64
			Points []containers.Point
			Hidden int
		}
		Events []containers.Event
	}
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		t.Fatal(err)
	}
	end := s.Rounds[len(s.Rounds)-1]
	if len(s.Rounds) != 150 || end.At != 999 || len(end.Points) != 300 || end.Hidden != 100 || end.Points[0].ID != "100" || len(s.Events) != 200 || s.Events[199].ID != "999" {
		t.Errorf("%d rounds, the last at %v with %d points and %d hidden; %d events", len(s.Rounds), end.At, len(end.Points), end.Hidden, len(s.Events))
	}
	if _, text := ask(t, b.Handler(true), "GET", "localhost", "/metrics"); !strings.Contains(text, "tare_containers 400.0") || !strings.Contains(text, `event="start"} 1000.0`) {
		t.Error("OpenMetrics has not all containers and events")
	}
}

func TestListen(t *testing.T) {
	for address, local := range map[string]bool{"0": true, ":0": true, "127.0.0.1:0": true, "localhost:0": true, "0.0.0.0:0": false} {
		l, err := board.Listen(t.Context(), address)
		if err != nil {
			t.Errorf("%s: %v", address, err)
			continue
		}
		if board.Local(l) != local {
			t.Errorf("%s listens at %s", address, l.Addr())
		}
		_ = l.Close()
	}
	for _, address := range []string{"example.com:80", "1:2:3", "127.0.0.1:99999", "127.0.0.1:http", "x"} {
		if l, err := board.Listen(t.Context(), address); err == nil {
			t.Errorf("%s listens at %s", address, l.Addr())
		}
	}
}

// The server answers over a socket, ends with its context, and leaves the port.
func TestServe(t *testing.T) {
	l, err := board.Listen(t.Context(), "0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- board.Serve(ctx, l, filled()) }()
	answer, err := http.Get("http://" + l.Addr().String() + "/")
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(answer.Body)
	if err != nil || !strings.Contains(string(text), "<h1>") {
		t.Errorf("%v\n%s", err, text)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if again, err := board.Listen(t.Context(), l.Addr().String()); err != nil {
		t.Errorf("the port is not free: %v", err)
	} else {
		_ = again.Close()
	}
}
