package engine

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/snapshots"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/tarelab/tare/internal/driver"
)

// The mark is found in a log, whatever is around it, and passed on without its line.
func TestMarkInALog(t *testing.T) {
	const mark = "\x00tare:acted\x00"
	stamp := "2026-11-24T06:00:00.000000000Z"
	for name, c := range map[string]struct {
		log, passed string
		err         error
	}{
		"first":         {stamp + " stdout F " + mark + "\n" + stamp + " stdout F more\n", mark, nil},
		"after stderr":  {stamp + " stderr F " + mark + "\n" + stamp + " stdout F " + mark + "\n", mark, nil},
		"a long line":   {stamp + " stdout P " + strings.Repeat("x", 5*logBuffer) + "\n" + stamp + " stdout F " + mark + "\n", mark, nil},
		"in other text": {stamp + " stdout F a" + mark + "\n", "", io.EOF},
		"an end":        {stamp + " stdout F " + mark, "", io.EOF},
		"nothing":       {"", "", io.EOF},
	} {
		var passed strings.Builder
		err := untilMark(bufio.NewReaderSize(strings.NewReader(c.log), logBuffer), &passed)
		if passed.String() != c.passed || !errors.Is(err, c.err) {
			t.Errorf("%s: %q, %v; want %q, %v", name, passed.String(), err, c.passed, c.err)
		}
	}
}

// FuzzMarkInALog: of any log, the mark alone is passed on, at most once.
func FuzzMarkInALog(f *testing.F) {
	f.Add([]byte("2026-11-24T06:00:00Z stdout F \x00tare:acted\x00\n"))
	f.Add([]byte("no line"))
	f.Fuzz(func(t *testing.T, log []byte) {
		var passed bytes.Buffer
		err := untilMark(bufio.NewReaderSize(bytes.NewReader(log), logBuffer), &passed)
		if (err == nil) != (passed.String() == "\x00tare:acted\x00") || err != nil && passed.Len() > 0 {
			t.Errorf("%q, %v", passed.Bytes(), err)
		}
	})
}

// What was written before the gate has opened is not the payload's.
func TestOutputBehindTheGate(t *testing.T) {
	for said, want := range map[string]string{
		"\x00tare:acted\x00\n\n\n\x04out\x04put": "out\x04put",
		"\n\x04":                                 "",
	} {
		a := &attachment{opened: make(chan struct{}, 1)}
		var got strings.Builder
		if err := a.copy(&got, strings.NewReader(said)); err != nil || got.String() != want {
			t.Errorf("%q: %q, %v", said, got.String(), err)
		}
	}
	a := &attachment{opened: make(chan struct{}, 1)}
	if err := a.copy(io.Discard, strings.NewReader("\n\n")); !errors.Is(err, errNoAttach) {
		t.Errorf("an output that ends before the gate has opened: %v", err)
	}
}

// nodesOwn is a containerd that plays the user's own, and a client of it.
func nodesOwn(t *testing.T) (driver.Lab, *containerd.Client) {
	t.Helper()
	lab := laboratory(t)
	d := named(t, lab, "cri/runc")
	t.Cleanup(func() {
		if err := d.(driver.SessionDriver).Teardown(); err != nil {
			t.Error(err)
		}
	})
	e := engineOf(t, d)
	if _, err := d.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := (criDaemon{}).removeAll(t.Context(), e.socket, owner()); err != nil {
		t.Fatal(err)
	}
	c, err := containerdConnect(e.socket, criNamespace)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	t.Setenv("CONTAINER_RUNTIME_ENDPOINT", "unix://"+e.socket)
	lab.RunDir, lab.PrivateEngines = t.TempDir(), false
	return lab, c
}

// inNamespace is all that containerd has for CRI.
func inNamespace(t *testing.T, c *containerd.Client) (all []string) {
	t.Helper()
	pods, err := criRuntime(c).ListPodSandbox(t.Context(), &cri.ListPodSandboxRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pods.GetItems() {
		all = append(all, "pod "+p.GetMetadata().GetName())
	}
	containers, err := c.Containers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range containers {
		all = append(all, "container "+one.ID())
	}
	images, err := c.ListImages(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range images {
		all = append(all, "image "+one.Name())
	}
	leases, err := c.LeasesService().List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range leases {
		all = append(all, "lease "+one.ID)
	}
	if err := c.ContentStore().Walk(t.Context(), func(b content.Info) error {
		all = append(all, "content "+b.Digest.String())
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := c.SnapshotService(snapshotters[0]).Walk(t.Context(), func(_ context.Context, s snapshots.Info) error {
		all = append(all, "snapshot "+s.Name)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	slices.Sort(all)
	return all
}

// In a user's own containerd, whose namespace is everybody's, what tare makes goes, and
// what was there stays: a pod that runs, and images.
func TestUsersOwnCRI(t *testing.T) {
	lab, c := nodesOwn(t)
	users, err := criRuntime(c).RunPodSandbox(t.Context(), &cri.RunPodSandboxRequest{RuntimeHandler: stockRuntime, Config: &cri.PodSandboxConfig{
		Metadata: &cri.PodSandboxMetadata{Name: "users", Uid: "users", Namespace: "default"}, Linux: &cri.LinuxPodSandboxConfig{CgroupParent: "/" + lab.Cgroup + "/users"}}})
	if err != nil {
		t.Fatal(err)
	}
	before := inNamespace(t, c)
	d := named(t, lab, "cri/runc")
	facts, err := d.Check(t.Context())
	if err != nil || !strings.HasPrefix(facts.Notes[noteEngine], "the user's own at ") || facts.Notes[driver.NoteUnread] == "" {
		t.Fatalf("%v: %v", facts.Notes, err)
	}
	inst := prepareIn(t, d, lab, driver.Spec{ID: "tare-in-own", Args: []string{"/bin/busybox", "sh", "-c", "exit 7"}})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err = inst.Start(ctx, func(driver.Phase) {})
	var exit driver.Exit
	if err == nil {
		exit, err = inst.Wait(ctx)
	}
	if err != nil || exit.Code != 7 {
		t.Errorf("%+v, %v", exit, err)
	}
	if during := inNamespace(t, c); len(during) <= len(before) {
		t.Errorf("a pod is not in the user's own containerd: %q", during)
	}
	for _, end := range []func() error{inst.Close, d.(driver.SessionDriver).Teardown} {
		if err := end(); err != nil {
			t.Error(err)
		}
	}
	if after := inNamespace(t, c); !slices.Equal(after, before) {
		t.Errorf("the user has\n%q\nand had\n%q", after, before)
	}
	lab.ToolDirs = []string{t.TempDir()}
	if err := os.WriteFile(filepath.Join(lab.ToolDirs[0], "my-runc"), nil, 0o755); err != nil {
		t.Fatal(err)
	}
	cannotWith(t, named(t, lab, "cri/runc").(driver.Namer).Named(t.Context(), "cri/my-runc"), `no RuntimeClass handler "my-runc"`)
	if _, err := criRuntime(c).RemovePodSandbox(t.Context(), &cri.RemovePodSandboxRequest{PodSandboxId: users.GetPodSandboxId()}); err != nil {
		t.Error(err)
	}
}

// killedVariable has what a process needs that is killed while its pod runs.
const killedVariable = "TARE_TEST_KILLED"

// A process is killed while its pod runs in the user's own containerd. Its note leads
// the sweep to the pod and the image, and to nothing else.
func TestSweepOfPods(t *testing.T) {
	if of := os.Getenv(killedVariable); of != "" {
		runAPod(t, strings.Split(of, "\n"))
		return
	}
	lab, c := nodesOwn(t)
	before := inNamespace(t, c)
	killed := exec.Command(os.Args[0], "-test.run=^TestSweepOfPods$")
	killed.Env = append(os.Environ(), killedVariable+"="+strings.Join([]string{lab.RunDir, lab.TestRootfs, lab.TestImage, lab.MarkPath, lab.LaunchPath, lab.Cgroup}, "\n"))
	killed.Stderr = os.Stderr
	said, err := killed.StdoutPipe()
	if err == nil {
		err = killed.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(said).ReadString('\n')
	if err := errors.Join(err, killed.Process.Kill()); err != nil || line != "runs\n" {
		t.Errorf("the process that is killed said %q: %v", line, err)
	}
	_ = killed.Wait() // it was killed
	if during := inNamespace(t, c); len(during) <= len(before) {
		t.Errorf("nothing was left by the process: %q", during)
	}
	did, err := named(t, lab, "cri/runc").(driver.Sweeper).Sweep(t.Context(), lab.RunDir)
	if err != nil || len(did) != 1 || !strings.Contains(did[0], "removed what was made in cri at ") {
		t.Errorf("swept %q: %v", did, err)
	}
	if after := inNamespace(t, c); !slices.Equal(after, before) {
		t.Errorf("the user has\n%q\nand had\n%q", after, before)
	}
	if left, err := filepath.Glob(filepath.Join(lab.RunDir, "*.json")); err != nil || len(left) > 0 {
		t.Errorf("the note %q is left: %v", left, err)
	}
}

// runAPod starts a pod, says so, and waits to be killed.
func runAPod(t *testing.T, of []string) {
	lab := driver.Lab{RunDir: of[0], TestRootfs: of[1], TestImage: of[2], MarkPath: of[3], LaunchPath: of[4], Cgroup: of[5], Root: true}
	inst := prepareIn(t, named(t, lab, "cri/runc"), lab, driver.Spec{ID: "tare-killed", Args: []string{"/bin/busybox", "sleep", "600"}})
	if err := inst.Start(t.Context(), func(driver.Phase) {}); err != nil {
		t.Fatal(err)
	}
	_, _ = os.Stdout.WriteString("runs\n")
	time.Sleep(time.Minute)
}

// A daemon that gave up an output said so in its log.
func TestLostOutput(t *testing.T) {
	p := &private{dir: t.TempDir()}
	if err := os.WriteFile(p.log(), []byte(`time="x" level=error msg="Failed to pipe stderr of container \"abc\"" error="read /proc/self/fd/20: file already closed"`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := p.complete("abc"); err == nil || err.Error() != lost {
		t.Errorf("%v", err)
	}
	if err := errors.Join(p.complete("other"), (*private)(nil).complete("abc")); err != nil {
		t.Error(err)
	}
}

// A private engine has the runtimes of its drivers, by their binary or their shim's
// name, and its network's configuration among its own files.
func TestCRIConfiguration(t *testing.T) {
	if cniDir() == "" {
		t.Fatal("no network plugins: tare setup installs them")
	}
	dir, tools := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(tools, "runc"), nil, 0o755); err != nil {
		t.Fatal(err)
	}
	e := &engine{lab: driver.Lab{ToolDirs: []string{tools}}, more: map[string]string{"runc": "runc", "kata": "io.containerd.kata.v2", "gone": "no-such-runtime"}}
	if _, err := (criDaemon{}).command(e, "containerd", filepath.Join(dir, "api.sock")); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "config.toml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{`default_runtime_name = "gone"`, `BinaryName = "no-such-runtime"`, "BinaryName = \"" + tools + "/runc\"", `runtimes."kata"]` + "\nruntime_type = \"io.containerd.kata.v2\"", "restrict_oom_score_adj = true", `conf_dir = "` + dir} {
		if !strings.Contains(string(text), part) {
			t.Errorf("no %q in\n%s", part, text)
		}
	}
}

// The engine's network namespace is entered for a connection alone.
func TestThreadsComeBack(t *testing.T) {
	own, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := dialIn(t.Context(), "/no/such/namespace", "127.0.0.1:1"); !driver.IsLab(err) {
		t.Errorf("a namespace that is not there: %v", err)
	}
	if _, err := dialIn(t.Context(), "/proc/self/ns/net", "127.0.0.1:1"); err == nil || driver.IsLab(err) {
		t.Errorf("nobody listens: %v", err)
	}
	threads, err := filepath.Glob("/proc/self/task/*/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	for _, thread := range threads {
		if at, err := os.Readlink(thread); err == nil && at != own {
			t.Errorf("%s is %s, and the process's %s", thread, at, own)
		}
	}
}

// A pod is asked for with all limits that CRI knows.
func TestLimitsOfAPod(t *testing.T) {
	r := podResources(driver.Limits{CPUs: 0.5, CPUSet: "0-1", Mems: "0", Shares: 512, Memory: 64 << 20})
	if r.CpuQuota != 50_000 || r.CpusetCpus != "0-1" || r.CpusetMems != "0" || r.CpuShares != 512 || r.MemoryLimitInBytes != 64<<20 {
		t.Errorf("got %v", r)
	}
}
