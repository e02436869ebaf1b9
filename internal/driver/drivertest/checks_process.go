package drivertest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/tarelab/tare/internal/driver"
)

func checkArguments(ctx context.Context, s *suite) error {
	args := []string{"a b", "", "'single'", `"double"`, `back\slash`, "$HOME `id` $(id)", "new\nline", "tab\t", "grüße 重さ 🏋", "-n", "--", "", "*", "%s", "#"}
	o := s.run(ctx, sh(`printf '%s\0' "$@"`, args...))
	if err := o.ok(); err != nil {
		return err
	}
	if got := strings.Split(strings.TrimSuffix(o.stdout, "\x00"), "\x00"); !slices.Equal(got, args) {
		return fmt.Errorf("arguments: got %q, want %q", got, args)
	}
	return nil
}

// environment runs env inside and gives what it printed, without what the
// driver says that its target adds.
func (s *suite) environment(ctx context.Context, env []string) (map[string]string, error) {
	o := s.run(ctx, job{args: []string{"/bin/env", "-0"}, env: env, exact: true})
	if err := o.ok(); err != nil {
		return nil, err
	}
	got := map[string]string{}
	for v := range strings.SplitSeq(strings.TrimSuffix(o.stdout, "\x00"), "\x00") {
		key, value, _ := strings.Cut(v, "=")
		asked := slices.ContainsFunc(env, func(e string) bool { return strings.HasPrefix(e, key+"=") })
		if asked || !slices.Contains(s.props.AddsEnv, key) {
			got[key] = value
		}
	}
	return got, nil
}

func checkEnvironment(ctx context.Context, s *suite) error {
	want := map[string]string{"PATH": "/bin", "HOME": "/tmp", "TERM": "dumb", "HOSTNAME": "scale", "EMPTY": "", "TWO": "a=b c",
		"LINES_": "one\ntwo", "QUOTES": `"'$x`, "WORD": "grüße", "TARE_TEST": s.token}
	var env []string
	for _, k := range slices.Sorted(maps.Keys(want)) {
		env = append(env, k+"="+want[k])
	}
	got, err := s.environment(ctx, env)
	if err != nil {
		return err
	}
	if !maps.Equal(got, want) {
		return fmt.Errorf("environment: got %q, want %q", got, want)
	}
	return nil
}

// checkNothingInherited lets a runtime add what it must, and nothing of the
// laboratory's: HOME, which OCI runtimes set from /etc/passwd where it is
// missing, and a PATH of its own, without which youki refuses to start.
func checkNothingInherited(ctx context.Context, s *suite) error {
	const leak, dir = "TARE_TEST_INHERITED", "/tare-test-inherited"
	path := os.Getenv("PATH")
	if err := errors.Join(os.Setenv(leak, s.token), os.Setenv("PATH", path+":"+dir)); err != nil {
		return err
	}
	defer os.Unsetenv(leak)
	defer os.Setenv("PATH", path)
	got, err := s.environment(ctx, []string{"ONLY=this", "TARE_TEST=" + s.token})
	if err != nil {
		return err
	}
	if strings.Contains(got["PATH"], dir) {
		return fmt.Errorf("PATH is the laboratory's own: %q", got["PATH"])
	}
	delete(got, "HOME")
	delete(got, "PATH")
	if want := map[string]string{"ONLY": "this", "TARE_TEST": s.token}; !maps.Equal(got, want) {
		return fmt.Errorf("environment: got %q, want %q and at most HOME and PATH", got, want)
	}
	return nil
}

func checkCwd(ctx context.Context, s *suite) error {
	for cwd, want := range map[string]string{"": "/", "/": "/", "/tmp": "/tmp", blankDir: blankDir} {
		j := sh("pwd")
		j.cwd = cwd
		o := s.run(ctx, j)
		if err := o.ok(); err != nil {
			return fmt.Errorf("cwd %q: %w", cwd, err)
		}
		if o.stdout != want+"\n" {
			return fmt.Errorf("cwd %q: the payload is in %q", cwd, o.stdout)
		}
	}
	return nil
}

func checkUser(ctx context.Context, s *suite) error {
	for _, user := range []driver.User{{}, {UID: 1234, GID: 4321}} {
		// The user's own file in /tmp proves that the identity is real.
		j := sh(`id -u; id -g; id -G; echo x >"/tmp/of $(id -u)" && stat -c '%u %g' "/tmp/of $(id -u)"`)
		j.user = user
		o := s.run(ctx, j)
		if err := o.ok(); err != nil {
			return fmt.Errorf("user %v: %w", user, err)
		}
		want := fmt.Sprintf("%[1]d\n%[2]d\n%[2]d\n%[1]d %[2]d\n", user.UID, user.GID)
		if o.stdout != want {
			return fmt.Errorf("user %v: id said %q, want %q", user, o.stdout, want)
		}
	}
	return nil
}

func checkIsolated(ctx context.Context, s *suite) error {
	o := s.run(ctx, sh("echo $$"))
	if err := o.ok(); err != nil {
		return err
	}
	if first := o.stdout == "1\n"; first != s.props.Isolated {
		return fmt.Errorf("the payload's process id is %q, but Properties.Isolated is %v", o.stdout, s.props.Isolated)
	}
	return nil
}

// checkDevices looks for what ordinary programs take for granted.
func checkDevices(ctx context.Context, s *suite) error {
	o := s.run(ctx, sh(`for d in null zero random urandom; do [ -c /dev/$d ] || { echo "/dev/$d" >&2; exit 1; }; done
[ "$(cat /proc/self/comm)" = cat ] && [ -d /sys/kernel ] && head -c 4 /dev/urandom >/dev/null`))
	if err := o.ok(); err != nil {
		return fmt.Errorf("a device, /proc or /sys is missing: %w", err)
	}
	return nil
}

// checkDescriptors sees that the payload has no descriptor besides its three
// streams: one of the laboratory's would let it hold pipes open, or worse.
func checkDescriptors(ctx context.Context, s *suite) error {
	o := s.run(ctx, sh(`for fd in 3 4 5 6 7 8 9; do eval "true <&$fd" 2>/dev/null && echo $fd; done; true`))
	if err := o.ok(); err != nil {
		return err
	}
	if o.stdout != "" {
		return fmt.Errorf("the payload has more descriptors than its three streams: %q", o.stdout)
	}
	return nil
}

func checkTwo(ctx context.Context, s *suite) error { return s.atOnce(ctx, 2) }

func checkMany(ctx context.Context, s *suite) error {
	return s.atOnce(ctx, min(50, s.props.MaxParallel))
}

// atOnce starts n payloads that all wait for the suite before they end, so that
// they do run at once.
func (s *suite) atOnce(ctx context.Context, n int) error {
	hold, release, err := os.Pipe()
	if err != nil {
		return err
	}
	defer hold.Close()
	defer release.Close()
	results := make(chan error, n)
	var running []*instance
	for range n {
		j := sh("read x; exit 7")
		j.stdin = hold
		i, err := s.prepare(ctx, j)
		if err != nil {
			results <- fmt.Errorf("prepare: %w", err)
			continue
		}
		running = append(running, i)
	}
	for _, i := range running {
		go func() { results <- i.whole(ctx, 7) }()
	}
	for _, i := range running {
		select {
		case <-i.stdout.marked:
		case <-i.stdout.done:
		case <-ctx.Done():
		}
	}
	release.Close()
	var errs []error
	for range n {
		errs = append(errs, <-results)
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("of %d at once: %w", n, err)
	}
	return nil
}

// whole starts, waits for and closes an instance that should end with code.
func (i *instance) whole(ctx context.Context, code int) error {
	var o outcome
	if o.err = i.start(ctx); o.err == nil {
		o.exit, o.err = i.wait(ctx)
	}
	o.close = i.close()
	o.acted, o.stderr = i.stdout.found, i.stderr.kept.String()
	return o.ended(code)
}
