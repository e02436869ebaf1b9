package kubernetes

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/tarelab/tare/internal/fleet/engine"
	"github.com/tarelab/tare/internal/limit"
)

// answers are an API server that fails as no real one does on demand: by method and path.
type answers map[string]func(w http.ResponseWriter)

func (a answers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	answer, ok := a[r.Method+" "+r.URL.Path]
	if !ok {
		status(404, "NotFound", r.URL.Path+" not found")(w)
		return
	}
	answer(w)
}

// status is the API server's way to say no.
func status(code int, reason, message string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": message})
	}
}

func says(text string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) { _, _ = io.WriteString(w, text) }
}

const (
	aNode = `{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "2"}, "conditions": [{"type": "Ready", "status": "True"}]}}`
	aJob  = `{"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "tare-lab-n1", "labels": {"tare.dev/fleet": "%s"}}}`
	none  = `{"apiVersion": "v1", "kind": "PodList", "items": []}`
	aPod  = `{"apiVersion": "v1", "kind": "PodList", "items": [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"batch.kubernetes.io/job-name": "tare-lab-n1"}},
		"spec": {"nodeName": "n1"}, "status": {"phase": "Running", "containerStatuses": [{"name": "tare", "state": {"%s": {}}}]}}]}`
	jobsPath = "/apis/batch/v1/namespaces/ns/jobs"
	podsPath = "/api/v1/namespaces/ns/pods"
)

func with(t *testing.T, a answers) *Engine {
	t.Helper()
	server := httptest.NewServer(a)
	t.Cleanup(server.Close)
	e, err := connect(&rest.Config{Host: server.URL}, "ns", Options{Image: "localhost/tare@" + digest})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestRefusals(t *testing.T) {
	ready := answers{"GET /api/v1/nodes/n1": says(aNode), "GET /api/v1/pods": says(none)}
	for name, c := range map[string]struct {
		create func(http.ResponseWriter)
		there  string // the fleet of a job that is there
		want   func(error) bool
	}{
		"taken":     {says(fmt.Sprintf(aJob, "lab")), "", func(err error) bool { return err == nil }},
		"again":     {status(409, "AlreadyExists", "already exists"), "lab", func(err error) bool { return err == nil }},
		"another's": {status(409, "AlreadyExists", "already exists"), "other", refusal("of another fleet", false)},
		"quota":     {status(403, "Forbidden", "exceeded quota: none"), "", refusal("exceeded quota", true)},
		"forbidden": {status(403, "Forbidden", "jobs is forbidden"), "", refusal("jobs is forbidden", false)},
		"invalid":   {status(422, "Invalid", "spec.x: no"), "", refusal("spec.x: no", false)},
		"of the moment": {status(500, "InternalError", "etcd"), "", func(err error) bool {
			var refused *engine.RefusedError
			return err != nil && !errors.As(err, &refused)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			a := answers{"POST " + jobsPath: c.create, "GET " + jobsPath + "/tare-lab-n1": says(fmt.Sprintf(aJob, c.there))}
			for path, answer := range ready {
				a[path] = answer
			}
			if err := with(t, a).Submit(t.Context(), example); !c.want(err) {
				t.Errorf("%v", err)
			}
		})
	}
}

func refusal(words string, full bool) func(error) bool {
	return func(err error) bool {
		var refused *engine.RefusedError
		return errors.As(err, &refused) && strings.Contains(refused.Words, words) && refused.Full == full && refused.Job == example.Name
	}
}

func TestCannot(t *testing.T) {
	server := httptest.NewServer(nil)
	server.Close()
	away, err := connect(&rest.Config{Host: server.URL}, "ns", Options{})
	if err != nil {
		t.Fatal(err)
	}
	for name, e := range map[string]*Engine{
		"away":      away,
		"unknown":   with(t, answers{"GET /api/v1/nodes": status(401, "Unauthorized", "who?")}),
		"forbidden": with(t, answers{"GET /api/v1/nodes": status(403, "Forbidden", "nodes is forbidden")}),
	} {
		var cannot *engine.CannotError
		if _, err := e.Machines(t.Context(), nil); !errors.As(err, &cannot) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A server that never comes to the last page is not asked for ever.
func TestEndlessPages(t *testing.T) {
	const enough = 3000
	requests := 0
	e := with(t, answers{"GET " + podsPath: func(w http.ResponseWriter) {
		requests++
		says(fmt.Sprintf(`{"apiVersion": "v1", "kind": "PodList", "metadata": {"continue": %q}, "items": []}`, map[bool]string{true: "more"}[requests < enough]))(w)
	}})
	if _, err := e.podsOf(t.Context(), "tare-lab-n1"); !errors.As(err, new(*limit.Error)) || requests == enough {
		t.Errorf("%d pages, %v", requests, err)
	}
}

// A connection that breaks while the job runs is made again, at the byte where it broke.
func TestFollowGoesOn(t *testing.T) {
	const log = "0123456789abcdefghij"
	var connections atomic.Int32
	e := with(t, answers{
		"GET " + jobsPath + "/tare-lab-n1": says(fmt.Sprintf(aJob, "lab")),
		"GET /api/v1/nodes/n1":             says(aNode),
		"GET " + podsPath: func(w http.ResponseWriter) {
			says(fmt.Sprintf(aPod, map[bool]string{true: "terminated", false: "running"}[connections.Load() >= 2]))(w)
		},
		"GET " + podsPath + "/p/log": func(w http.ResponseWriter) {
			n := connections.Add(1)
			says(log[:min(len(log), int(n)*7)])(w)
			_ = http.NewResponseController(w).Flush() // or nothing is sent
			if n == 1 {
				panic(http.ErrAbortHandler)
			}
		},
	})
	out, err := e.Follow(t.Context(), "tare-lab-n1", 3)
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(out)
	if err != nil || string(got) != log[3:] {
		t.Errorf("%q (%v), want %q", got, err, log[3:])
	}
	if err := out.Close(); err != nil {
		t.Error(err)
	}
	if n := connections.Load(); n != 3 {
		t.Errorf("%d connections, want 3: one that broke, one until the end, one to see that nothing is missing", n)
	}
}
