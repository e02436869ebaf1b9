package kubernetes

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

var tare = flag.String("tare", "", "absolute path of tare; without it nothing is tested")

// cluster is a Kubernetes of two nodes, n1 and n2.
type cluster struct {
	dir     string
	program string // all components
	image   string // with tare, sh and runc
	orders  io.Writer
	answers *bufio.Scanner
}

// up brings a cluster up, and takes it down at the test's end, where it checks that the
// machine is as before.
func up(t *testing.T) *cluster {
	t.Helper()
	program := server(t)
	before := machine(t)
	dir, err := os.MkdirTemp("", "tare-k8s-") // short: sockets are in it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // the cluster has, but where it did not begin
	c := &cluster{dir: dir, program: program}
	var archives []string
	archives, c.image = images(t, t.TempDir())
	script := exec.Command("./cluster.sh", append([]string{dir, "2"}, archives...)...)
	script.Env = append(os.Environ(), "KUBERNETES_SERVER="+program)
	var says bytes.Buffer
	script.Stderr = &says
	orders, err := script.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	answers, err := script.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.orders, c.answers = orders, bufio.NewScanner(answers)
	if err := script.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			c.logs(t)
		}
		_ = orders.Close()
		if err := script.Wait(); err != nil {
			t.Errorf("cluster.sh: %v\n%s", err, &says)
		}
		if after := machine(t); after != before {
			t.Errorf("the cluster has changed the machine, from\n%s\nto\n%s", before, after)
		}
	})
	if err := c.answer("ready"); err != nil {
		t.Fatalf("cluster.sh: %v\n%s", err, &says)
	}
	return c
}

// server is the program with all components.
func server(t *testing.T) string {
	t.Helper()
	if *tare == "" {
		t.Skip("clusters are made by make test-fleet alone, which gives -tare")
	}
	if os.Geteuid() != 0 {
		t.Fatal("nodes are namespaces: run this test as root")
	}
	out, err := exec.Command("../kubernetes-server/build.sh", "path").Output()
	if err != nil {
		t.Skip("Kubernetes is not built on this machine: make test-fleet KUBERNETES=build builds it")
	}
	return strings.TrimSpace(string(out))
}

// order has the cluster do something with a node.
func (c *cluster) order(what, node string) error {
	if _, err := fmt.Fprintln(c.orders, what, node); err != nil {
		return err
	}
	return c.answer(what + " " + node)
}

func (c *cluster) answer(want string) error {
	if !c.answers.Scan() {
		return errors.Join(errors.New("it has ended"), c.answers.Err())
	}
	if got := c.answers.Text(); got != want {
		return fmt.Errorf("it says %q, not %q", got, want)
	}
	return nil
}

// kubectl runs kubectl as the cluster's administrator.
func (c *cluster) kubectl(ctx context.Context, input string, args ...string) (string, error) {
	command := exec.CommandContext(ctx, c.program, append([]string{"kubectl", "--kubeconfig", c.dir + "/admin.conf"}, args...)...)
	command.Stdin = strings.NewReader(input)
	out, err := command.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("kubectl %q: %w\n%s", args, err, out)
	}
	return string(out), nil
}

// logs shows the end of what each component has written.
func (c *cluster) logs(t *testing.T) {
	all, _ := filepath.Glob(c.dir + "/log/*") // the pattern is a constant
	for _, name := range all {
		data, err := os.ReadFile(name)
		t.Logf("%s: ...%s (%v)", filepath.Base(name), data[max(0, len(data)-2000):], err)
	}
	if out, err := c.kubectl(t.Context(), "", "get", "jobs,pods,events", "-A", "-o", "wide"); err == nil {
		t.Log(out)
	}
}

// ours names what a cluster makes on the machine.
var ours = regexp.MustCompile(`tare-k8s|tare-kubernetes`)

// machine is what a cluster could change of the machine: settings of the kernel that
// kubelet sets, links, groups, mounts and processes.
func machine(t *testing.T) string {
	t.Helper()
	var all []string
	for _, setting := range []string{"vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops", "kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes"} {
		data, err := os.ReadFile("/proc/sys/" + setting)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, setting+" "+strings.TrimSpace(string(data)))
	}
	groups, _ := filepath.Glob("/sys/fs/cgroup/tare-kubernetes*") // the patterns are constants
	more, _ := filepath.Glob("/sys/fs/cgroup/*/tare-kubernetes*")
	links, _ := filepath.Glob("/sys/class/net/tare-k8s*")
	all = slices.Concat(all, groups, more, links)
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	processes, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, p := range processes {
		if line, err := os.ReadFile(p); err == nil && ours.Match(line) { // it may have ended meanwhile
			all = append(all, string(bytes.ReplaceAll(line, []byte{0}, []byte{' '})))
		}
	}
	for line := range strings.Lines(string(mounts)) {
		if ours.MatchString(line) {
			all = append(all, line)
		}
	}
	return strings.Join(all, "\n")
}

// eventually asks until there is no error, for a minute at most.
func eventually(ctx context.Context, ask func() error) error {
	ctx, done := context.WithTimeout(ctx, time.Minute)
	defer done()
	for {
		err := ask()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(300 * time.Millisecond):
		}
	}
}
