package engine

import (
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tarelab/tare/internal/driver/launch"
)

// A user's own container that was made of an image with an owner's label (docker commit)
// inherits it: on a2ee321 it was removed by force.
func TestInheritedLabelIsNotAnOwners(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "api.sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	var removed []string
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Api-Version", "1.41")
		w.Header().Set("Content-Type", "application/json")
		answer := func(text string) { _, _ = w.Write([]byte(text)) }
		switch _, path, _ := strings.Cut(r.URL.Path, "/v1."); {
		case strings.HasSuffix(r.URL.Path, "/containers/json"):
			answer(`[{"Id":"ours","ImageID":"sha256:plain","Labels":{"tare.owner":"me"}},{"Id":"users","ImageID":"sha256:committed","Labels":{"tare.owner":"me"}},{"Id":"orphan","ImageID":"sha256:gone","Labels":{"tare.owner":"me"}}]`)
		case strings.Contains(path, "images/sha256:plain"):
			answer(`{"Id":"sha256:plain","Config":{"Labels":{}}}`)
		case strings.Contains(path, "images/sha256:committed"):
			answer(`{"Id":"sha256:committed","Config":{"Labels":{"tare.owner":"me"}}}`)
		case r.Method == http.MethodDelete:
			removed = append(removed, filepath.Base(r.URL.Path))
			w.WriteHeader(http.StatusNoContent)
		case strings.Contains(path, "images/"):
			w.WriteHeader(http.StatusNotFound)
			answer(`{"message":"no such image"}`)
		default:
			answer("{}")
		}
	})}
	go func() { _ = server.Serve(listener) }() // until it is closed
	defer server.Close()
	c, err := connect(socket)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := removeContainers(t.Context(), c, "me"); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(removed, []string{"ours"}) {
		t.Errorf("removed %q", removed)
	}
}

// A private engine finds no modules to load: on a2ee321 dockerd loaded br_netfilter,
// which switched bridge filtering on for the host.
func TestPrivateEngineLoadsNoModules(t *testing.T) {
	defer func(dirs []string) { moduleDirs = dirs }(moduleDirs)
	there := filepath.Join(t.TempDir(), "modules")
	if err := os.Mkdir(there, 0o755); err != nil {
		t.Fatal(err)
	}
	moduleDirs = []string{there, filepath.Join(t.TempDir(), "absent")}
	steps, err := surroundings("/var/lib/tare/sessions/s1", daemonCommand{})
	if err != nil {
		t.Fatal(err)
	}
	hidden := func(dir string) bool {
		return slices.ContainsFunc(steps, func(s launch.Step) bool {
			return s[0] == "mount" && slices.Contains(s, dir) && slices.Contains(s, "tmpfs")
		})
	}
	if !hidden(there) || hidden(moduleDirs[1]) {
		t.Errorf("the steps are %q", steps)
	}
}

// The log of an engine that says the same for ever fills no disk.
func TestLogIsBounded(t *testing.T) {
	file := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(file, []byte(strings.Repeat("level=error again\n", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	if text, err := tail(file, 20); err != nil || string(text) != "n\nlevel=error again\n" {
		t.Errorf("the end is %q, %v", text, err)
	}
	for _, most := range []int64{1800, 1799} {
		if err := shorten(file, most); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(file); err != nil || (info.Size() == 0) != (most < 1800) {
			t.Errorf("at most %d: %v, %v", most, info.Size(), err)
		}
	}
}
