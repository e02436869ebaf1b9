package drivertest

import (
	"context"
	"crypto/sha256"
	"fmt"
	"hash"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/tarelab/tare/internal/driver"
)

func checkStreams(ctx context.Context, s *suite) error {
	o := s.run(ctx, sh(`printf 'out\0\n\r\377'; printf 'err\0\n\r\376' >&2; printf end`))
	if err := o.ok(); err != nil {
		return err
	}
	if want := "out\x00\n\r\xffend"; o.stdout != want {
		return fmt.Errorf("standard output: got %q, want %q", o.stdout, want)
	}
	if want := "err\x00\n\r\xfe"; o.stderr != want {
		return fmt.Errorf("standard error: got %q, want %q", o.stderr, want)
	}
	return nil
}

// sum hashes a stream too big to keep.
type sum struct {
	mu sync.Mutex // guards the rest: the reader may still write when a check gives up
	n  int64
	h  hash.Hash
}

func newSum() *sum { return &sum{h: sha256.New()} }

func (s *sum) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n += int64(len(b))
	return s.h.Write(b)
}

func (s *sum) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return fmt.Sprintf("%d bytes, sha256 %x", s.n, s.h.Sum(nil))
}

// checkBigStreams pushes Properties.StreamBytes through both streams at once.
func checkBigStreams(ctx context.Context, s *suite) error {
	times := int((s.props.StreamBytes + patternBytes - 1) / patternBytes)
	want := newSum()
	data := pattern()
	for range times {
		_, _ = want.Write(data) // a hash does not fail
	}
	out, stderr := newSum(), newSum()
	j := sh(`push() { i=0; while [ $i -lt $1 ]; do cat `+patternPath+` || return 1; i=$((i+1)); done; }
push $1 >&2 & push $1 || exit 1; wait $! || exit 1`, fmt.Sprint(times))
	j.stdout, j.stderr = out, stderr
	if err := s.run(ctx, j).ok(); err != nil {
		return err
	}
	if out.text() != want.text() || stderr.text() != want.text() {
		return fmt.Errorf("standard output had %s, standard error %s, want %s", out.text(), stderr.text(), want.text())
	}
	return nil
}

func checkStdin(ctx context.Context, s *suite) error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	fed := make(chan struct{})
	go func() {
		defer close(fed)
		_, _ = w.Write(pattern()) // a payload that stops reading shows in what it printed
		w.Close()
	}()
	j := job{args: []string{"/bin/cat"}, stdin: r}
	got := newSum()
	j.stdout = got
	err = s.run(ctx, j).ok()
	r.Close()
	<-fed
	if err != nil {
		return err
	}
	want := newSum()
	_, _ = want.Write(pattern()) // a hash does not fail
	if got.text() != want.text() {
		return fmt.Errorf("standard input came back as %s, want %s", got.text(), want.text())
	}
	return nil
}

func checkNoStdin(ctx context.Context, s *suite) error {
	o := s.run(ctx, sh("wc -c"))
	if err := o.ok(); err != nil {
		return err
	}
	if strings.TrimSpace(o.stdout) != "0" {
		return fmt.Errorf("without standard input, the payload read %q bytes, want 0", o.stdout)
	}
	return nil
}

func checkMounts(ctx context.Context, s *suite) error {
	host := filepath.Join(s.dir, "mounts")
	shared, fixed, file := filepath.Join(host, "shared"), filepath.Join(host, "fixed dir"), filepath.Join(host, "file")
	defer os.RemoveAll(host)
	for _, d := range []string{shared, fixed} {
		if err := os.MkdirAll(d, 0o777); err != nil {
			return err
		}
	}
	for _, f := range []string{filepath.Join(shared, "in"), filepath.Join(fixed, "in"), file} {
		if err := os.WriteFile(f, []byte(filepath.Base(filepath.Dir(f))+"\n"), 0o644); err != nil {
			return err
		}
	}
	j := sh(`cat /mnt/shared/in "/mnt/fixed dir/in" /etc/file || exit 1
echo changed >/mnt/shared/out || exit 2
if (echo x >"/mnt/fixed dir/out") 2>/dev/null; then exit 3; fi
if (echo x >"/mnt/fixed dir/in") 2>/dev/null; then exit 4; fi
if (echo x >/etc/file) 2>/dev/null; then exit 5; fi`)
	j.mounts = []driver.Mount{{Source: shared, Target: "/mnt/shared"}, {Source: fixed, Target: "/mnt/fixed dir", ReadOnly: true}, {Source: file, Target: "/etc/file", ReadOnly: true}}
	o := s.run(ctx, j)
	if err := o.ok(); err != nil {
		return fmt.Errorf("mounts (exit 1: not there, 2: not writable, 3 to 5: read-only but written): %w", err)
	}
	if want := "shared\nfixed dir\nmounts\n"; o.stdout != want {
		return fmt.Errorf("mounted files hold %q, want %q", o.stdout, want)
	}
	got, err := os.ReadFile(filepath.Join(shared, "out"))
	if err == nil && string(got) != "changed\n" {
		err = fmt.Errorf("what the payload wrote to a shared directory is %q on the host", got)
	}
	return err
}

// checkRootfs lets two payloads write to the same places at once. Neither may
// see the other's files, and the shared rootfs stays as it is.
func checkRootfs(ctx context.Context, s *suite) error {
	before, err := digest(s.opts.Lab.TestRootfs)
	if err != nil {
		return err
	}
	const script = `[ ! -e /data/new ] || exit 10
echo "$1" >/data/new && echo "$1" >/data/pattern && rm /etc/group && mkdir /made && chmod 700 /tmp || exit 11
sleep 0.3
[ "$(cat /data/new /data/pattern)" = "$1
$1" ] || exit 12`
	results := make(chan error, 2)
	for _, name := range []string{"one", "two"} {
		go func() { results <- s.run(ctx, sh(script, name)).ok() }()
	}
	for range 2 {
		if got := <-results; got != nil {
			err = fmt.Errorf("private writes (exit 10: sees another's, 11: cannot write, 12: another's came through): %w", got)
		}
	}
	if err != nil {
		return err
	}
	after, err := digest(s.opts.Lab.TestRootfs)
	if err != nil {
		return err
	}
	if after != before {
		return fmt.Errorf("the shared rootfs %s was written to", s.opts.Lab.TestRootfs)
	}
	return nil
}
