package engine

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tarelab/tare/internal/driver"
)

// An engine is slow while some start is answered, and hangs when none is: then every
// container's requests are given up, once.
func TestWatchdog(t *testing.T) {
	const limit = 2 * time.Second // long beside what a busy machine lets a test wait
	given, ended := make(chan struct{}, 9), make(chan struct{}, 9)
	p := watchdog{limit: limit, end: func() { ended <- struct{}{} }}
	runs, slow, forgotten := new(requests), new(requests), new(requests)
	p.ask(runs, func() { given <- struct{}{} })()
	p.ask(forgotten, func() { t.Error("a container that is closed is given up") })()
	p.forget(forgotten)
	answered := p.ask(slow, func() { given <- struct{}{} })
	for range 9 { // others are answered meanwhile
		time.Sleep(limit / 8)
		p.ask(forgotten, nil)()
		p.forget(forgotten)
	}
	if err := p.hung(); err != nil {
		t.Fatalf("a slow engine hangs: %v", err)
	}
	for range 2 {
		<-given
	}
	answered()
	if err := p.hung(); err == nil || !strings.Contains(err.Error(), "answered no request of a start for "+limit.String()) || len(ended) != 1 || len(given) != 0 {
		t.Errorf("%v, ended %d times, %d more given up", err, len(ended), len(given))
	}
	p.reset()
	if p.ask(slow, nil)(); p.hung() != nil {
		t.Error("it has no other chance")
	}
}

// A private engine that answers nothing is ended for it, and the next start has
// another one: docker and containerd are stopped in the midst of their work.
func TestEngineHangs(t *testing.T) {
	for _, name := range []string{"docker", "containerd", "cri/runc"} {
		t.Run(name, func(t *testing.T) { hangs(t, named(t, laboratory(t), name)) })
	}
}

func hangs(t *testing.T, d driver.Driver) {
	t.Cleanup(func() {
		if err := d.(driver.SessionDriver).Teardown(); err != nil {
			t.Error(err)
		}
	})
	e := engineOf(t, d)
	prepare := func() driver.Instance {
		t.Helper()
		inst, err := d.Prepare(t.Context(), driver.Spec{ID: "tare-hangs", Rootfs: e.lab.TestRootfs, Image: e.lab.TestImage,
			Args: []string{"/bin/busybox", "true"}, Env: []string{"PATH=/bin"}}, t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		return inst
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	inst := prepare()
	first := e.private.pid
	e.watchdog.limit = time.Second
	if err := unix.Kill(first, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	blamed(t, run(ctx, inst), e.flavor.program+" hangs: it has answered no request of a start for 1s")
	if err := inst.Close(); err != nil {
		t.Errorf("after the engine has hung: %v", err)
	}
	if took := time.Since(began); took > queueTime {
		t.Errorf("its trial was over after %v", took)
	}
	e.watchdog.limit = hungTime
	inst = prepare()
	if err := run(ctx, inst); err != nil || e.private.pid == first {
		t.Errorf("the next start, in process %d after %d: %v", e.private.pid, first, err)
	}
	if err := inst.Close(); err != nil {
		t.Error(err)
	}
}

// An engine that takes an image and never says so counts as hanging, and one that stops
// taking it.
func TestAnImageThatIsNeverLoaded(t *testing.T) {
	for want, load := range map[string]func(context.Context, source) (string, error){
		"it has not answered a request for " + loadTime.String(): func(ctx context.Context, s source) (string, error) {
			err := s.archive(io.Discard)
			<-ctx.Done()
			return "", errors.Join(err, ctx.Err())
		},
		"it has taken nothing of an image for " + stallTime.String(): func(ctx context.Context, s source) (string, error) {
			r, w := io.Pipe()
			go func() { w.CloseWithError(s.archive(w)) }()
			defer r.Close()
			_, err := io.CopyN(io.Discard, r, 1<<10)
			<-ctx.Done()
			return "", errors.Join(err, ctx.Err())
		},
	} {
		e := engineOf(t, named(t, laboratory(t), "docker"))
		synctest.Test(t, func(t *testing.T) {
			_, err := e.image(t.Context(), driver.Spec{Rootfs: e.lab.TestRootfs, Image: e.lab.TestImage}, load)
			blamed(t, err, "dockerd hangs: "+want)
		})
	}
}
