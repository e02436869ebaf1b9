package workload

import (
	"slices"
	"testing"

	"github.com/tarelab/tare/internal/driver"
)

// Every server of tare's own is taken, with all parameters, and no other command is.
func TestServerIsOneOfOurs(t *testing.T) {
	own := 0
	for _, c := range []struct {
		kind   string
		params map[string]string
		user   driver.User
	}{
		{"net-tcp", map[string]string{"time": "3s"}, driver.User{}},
		{"net-latency", map[string]string{"bytes": "64"}, driver.User{}},
		{"net-connections", nil, driver.User{}},
		{"net-open", map[string]string{"rate": "7"}, driver.User{}},
		{"nginx", map[string]string{"bytes": "4KiB", "workers": "3"}, driver.User{}},
		{"redis", nil, driver.User{}},
		{"postgres", map[string]string{"connections": "3"}, nobody},
	} {
		job, err := Resolve(c.kind, c.params, nil)
		if err != nil {
			t.Fatal(err)
		}
		if as, ok := Server(job.Peer); !ok || as != c.user {
			t.Errorf("%s: the server %q is not known as one of tare's, for %v", c.kind, job.Peer, as)
		}
		own++
		for n := range job.Peer {
			other := slices.Clone(job.Peer)
			other[n] += "; id"
			if _, ok := Server(other); ok {
				t.Errorf("%s: %q was taken for one of tare's servers", c.kind, other)
			}
		}
		if _, ok := Server(append(slices.Clone(job.Peer), "1")); ok {
			t.Errorf("%s: a server with one argument more was taken", c.kind)
		}
	}
	for _, args := range [][]string{nil, {}, {"/bin/sh"}, {"/bin/sh", "-c", "id"}, {netPath, "again", "--", "/bin/sh"}, {netPath, "serve", "10.0.0.1:22"}, tooLarge(t)} {
		if _, ok := Server(args); ok {
			t.Errorf("%q was taken for one of tare's servers", args)
		}
	}
	if own == 0 {
		t.Fatal("nothing was tried")
	}
}

// tooLarge is nginx with a file that is larger than its parameter may be.
func tooLarge(t *testing.T) []string {
	job, err := Resolve("nginx", map[string]string{"bytes": "4KiB"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	args := slices.Clone(job.Peer)
	at := slices.Index(args, "4096")
	if at < 0 {
		t.Fatalf("no size in %q", args)
	}
	args[at] = "4294967295"
	return args
}
