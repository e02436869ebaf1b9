package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"strings"
	"testing"

	"github.com/moby/moby/client"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/limit"
)

// TestEndlessAnswers: an engine that does not stop to answer, which no real one does,
// costs memory up to a limit, and the answer is an error.
func TestEndlessAnswers(t *testing.T) {
	long := strings.Repeat("x", 4000)
	for name, c := range map[string]struct{ path, head, piece string }{
		"one message":   {"/images/load", `{"status":"`, long},
		"many messages": {"/images/load", "", `{"status":"` + long + `"}` + "\n"},
		"a list":        {"/containers/json", "[{}", `,{"Id":"` + long + `"}`},
	} {
		t.Run(name, func(t *testing.T) {
			path, c := c.path, endless(t, c.path, c.head, c.piece)
			var err error
			over := limit.DaemonAnswer.CheckAlloc(func() {
				if path == "/containers/json" {
					_, err = c.ContainerList(t.Context(), client.ContainerListOptions{})
					return
				}
				var result client.ImageLoadResult
				if result, err = c.ImageLoad(t.Context(), strings.NewReader("")); err == nil {
					err = errors.Join(said(result), result.Close())
				}
			})
			if over != nil {
				t.Error(over)
			}
			if !errors.As(err, new(*limit.Error)) {
				t.Errorf("%v", err)
			}
		})
	}
}

// A request that waits for a container's end has a connection of its own, which ends with
// the request's context.
func TestWaitEndsWithItsContext(t *testing.T) {
	left := make(chan struct{})
	socket := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Api-Version", "1.41")
		if path.Base(r.URL.Path) != "wait" {
			return
		}
		w.(http.Flusher).Flush() // dockerd tells by this that it waits
		<-r.Context().Done()
		close(left)
	})
	c, err := connect(socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	waiting := c.ContainerWait(ctx, "box", client.ContainerWaitOptions{})
	cancel()
	select {
	case r := <-waiting.Result:
		t.Errorf("the container has ended: %+v", r)
	case err := <-waiting.Error:
		if err == nil {
			t.Error("no error")
		}
	}
	<-left
}

// endless is a client of an engine that answers a request with a head, and a piece again
// and again.
func endless(t *testing.T, path, head, piece string) *client.Client {
	t.Helper()
	socket := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Api-Version", "1.41")
		w.Header().Set("Content-Type", "application/json")
		if !strings.HasSuffix(r.URL.Path, path) {
			return
		}
		_, err := io.WriteString(w, head)
		for err == nil { // until the client hangs up
			_, err = io.WriteString(w, piece)
		}
	})
	c, err := connect(socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// FuzzSaid: what an engine says while it loads does not make the reader panic, and takes
// no more memory than its limit.
func FuzzSaid(f *testing.F) {
	for _, text := range []string{`{"stream":"Loaded image: x\n"}`, `{"error":"no space"}`, `{"status":"x"}{"error":""}`, `[`, `{"error":1}`, "null"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if over := limit.DaemonAnswer.CheckAlloc(func() { _ = said(strings.NewReader(text)) }); over != nil { // any answer will do
			t.Fatal(over)
		}
	})
}

// A removal that an engine has failed at is asked for again, and one that it refuses is
// not. The engine is none, because a real one fails on busy machines alone.
func TestRemovalIsAskedForAgain(t *testing.T) {
	for status, want := range map[int]int{http.StatusInternalServerError: 3, http.StatusConflict: 1} {
		asked := 0
		socket := serve(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Api-Version", "1.41")
			if r.Method != http.MethodDelete {
				return
			}
			if asked++; asked < 3 {
				w.WriteHeader(status)
				fmt.Fprint(w, `{"message":"no"}`)
				return
			}
			w.WriteHeader(http.StatusNoContent)
		})
		c, err := connect(socket)
		if err != nil {
			t.Fatal(err)
		}
		err = (&instance{client: c, spec: driver.Spec{ID: "one"}}).removed(t.Context())
		if asked != want || (err == nil) != (want == 3) {
			t.Errorf("%d: asked %d times: %v", status, asked, err)
		}
		c.Close()
	}
}
