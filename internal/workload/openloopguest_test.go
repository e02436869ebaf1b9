package workload

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/sample"
)

// web is a server that an open-loop client asks. It is well behaved for the requests that
// warm it up, and then as the test wants.
type web struct {
	answer  func(n int64, w http.ResponseWriter) // of the n-th request after the warm-up, from 0
	skew    int64                                // of its count
	served  atomic.Int64                         // all requests, as nginx counts them
	numbers atomic.Int64
	address string
}

const (
	webBytes    = 64
	warmedUp    = 8 * 4 // of each of the four connections
	webRate     = 1000
	webDuration = time.Second
)

// body is what a right answer holds.
func body() []byte {
	b := make([]byte, webBytes)
	for i := range b {
		b[i] = 'a' + byte(i%23)
	}
	return b
}

func serveWeb(t *testing.T, w *web) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/tare", func(out http.ResponseWriter, _ *http.Request) {
		w.served.Add(1)
		if n := w.numbers.Add(1) - 1 - warmedUp; n >= 0 && w.answer != nil {
			w.answer(n, out)
			return
		}
		_, _ = out.Write(body()) // a client that has gone is the test's own doing
	})
	asked := 0
	mux.HandleFunc("/tare-status", func(out http.ResponseWriter, _ *http.Request) {
		n := w.served.Add(1)
		if asked++; asked > 1 {
			n += w.skew
		}
		fmt.Fprintf(out, "Active connections: 1 \nserver accepts handled requests\n 1 1 %d \nReading: 0\n", n)
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	w.address = listener.Addr().String()
}

// askWeb runs the real client.
func askWeb(t *testing.T, w *web, params map[string]string) (values map[string]float64, said string, err error) {
	t.Helper()
	serveWeb(t, w)
	all := map[string]string{"rate": fmt.Sprint(webRate), "time": webDuration.String(), "connections": "4", "bytes": fmt.Sprint(webBytes)}
	for k, v := range params {
		all[k] = v
	}
	job, err := Resolve("nginx", all, nil)
	if err != nil {
		t.Fatal(err)
	}
	host, port, err := net.SplitHostPort(w.address)
	if err != nil {
		t.Fatal(err)
	}
	program, err := filepath.Abs("../../helpers/bin/linux_" + runtime.GOARCH + "/net")
	if err != nil {
		t.Fatal(err)
	}
	fill := strings.NewReplacer(driver.PeerAddress, host, driver.PeerPort, port)
	var args []string
	for _, a := range job.Args[1:] {
		args = append(args, fill.Replace(a))
	}
	c := exec.CommandContext(t.Context(), program, args...)
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	if err := c.Run(); err != nil {
		return nil, errs.String(), err
	}
	parsed, err := job.Parse(out.Bytes())
	values = map[string]float64{}
	for _, v := range parsed {
		values[v.Metric] = v.Value
	}
	return values, errs.String(), err
}

// A server that stalls once makes all wait that come due meanwhile. A client that waits
// for its answers before it asks again would have seen one slow answer of a connection.
func TestAStallMeetsAllThatComeDue(t *testing.T) {
	const stall = 500 * time.Millisecond
	var gate sync.RWMutex
	var once sync.Once
	for _, arrivals := range []string{"fixed", "poisson"} {
		once = sync.Once{}
		w := &web{answer: func(n int64, out http.ResponseWriter) {
			if n == 100 {
				once.Do(func() { gate.Lock(); time.Sleep(stall); gate.Unlock() })
			}
			gate.RLock()
			defer gate.RUnlock()
			_, _ = out.Write(body())
		}}
		got, said, err := askWeb(t, w, map[string]string{"arrivals": arrivals})
		if err != nil {
			t.Fatalf("%v: %s", err, said)
		}
		// Of a second's requests half come due in the stall, and three tenths of all wait
		// for 200 ms of it or longer.
		if got[sample.ResponseP90] < 0.2 || got[sample.ResponseMax] < 0.45 || got[sample.RequestsFailed] != 0 {
			t.Errorf("%s arrivals: %v", arrivals, got)
		}
		if due := got[sample.RequestsDue]; arrivals == "fixed" && due != webRate || due < webRate*0.8 || due > webRate*1.2 {
			t.Errorf("%s arrivals: %v requests a second were due", arrivals, due)
		}
	}
}

func TestOpenLoopAnswers(t *testing.T) {
	right := func(out http.ResponseWriter) { _, _ = out.Write(body()) }
	over := make(chan struct{})
	defer close(over)
	for name, c := range map[string]struct {
		web    *web
		params map[string]string
		failed float64 // requests
		says   string  // part of the error, "" for none
	}{
		"kept connections": {web: &web{}},
		"new connections":  {web: &web{}, params: map[string]string{"keep": "no", "rate": "300"}},
		"refused": {web: &web{answer: func(n int64, out http.ResponseWriter) {
			if n < 10 {
				http.Error(out, "no", http.StatusServiceUnavailable)
				return
			}
			right(out)
		}}, failed: 10},
		"closed": {web: &web{answer: func(n int64, out http.ResponseWriter) {
			if n < 10 {
				panic(http.ErrAbortHandler)
			}
			right(out)
		}}, failed: 10},
		"never answered": {web: &web{answer: func(n int64, out http.ResponseWriter) {
			if n < 2 { // of four connections
				<-over
			}
			right(out)
		}}, failed: 2},
		"wrong": {web: &web{answer: func(n int64, out http.ResponseWriter) {
			_, _ = out.Write(bytes.ToUpper(body()))
		}}, says: "another answer than was asked for"},
		"counted twice": {web: &web{skew: 7}, says: "both sides did not do the same work"},
		"not counted":   {web: &web{skew: -7}, says: "both sides did not do the same work"},
	} {
		t.Run(name, func(t *testing.T) {
			got, said, err := askWeb(t, c.web, c.params)
			switch {
			case c.says != "":
				if err == nil || !strings.Contains(said+err.Error(), c.says) {
					t.Errorf("%v, %q; want %q", err, said, c.says)
				}
				return
			case err != nil:
				t.Fatalf("%v: %s", err, said)
			}
			if got[sample.RequestsFailed] != c.failed || got[sample.Answers] <= 0 {
				t.Errorf("%v, want %v that failed", got, c.failed)
			}
			// One without an answer waits until the end, and does not make the rest look fast.
			if c.failed > 0 && got[sample.ResponseMax] < webDuration.Seconds() {
				t.Errorf("the longest response is %v s, with %v requests that got none", got[sample.ResponseMax], c.failed)
			}
		})
	}
}

// What is lost near the end has waited since it was due, not since the run began.
func TestLostRequestsWaitFromWhenTheyWereDue(t *testing.T) {
	w := &web{answer: func(n int64, out http.ResponseWriter) {
		if n >= 950 {
			panic(http.ErrAbortHandler)
		}
		_, _ = out.Write(body())
	}}
	got, said, err := askWeb(t, w, map[string]string{"rate": "200", "time": "5s"})
	if err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	if got[sample.RequestsFailed] == 0 || got[sample.ResponseMax] > 4 { // all that were lost were due in the last quarter of a second
		t.Errorf("%v", got)
	}
}
