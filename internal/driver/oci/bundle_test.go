package oci

import (
	"encoding/json"
	"errors"
	"os"
	"slices"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/sys"
)

// bundleOf writes the bundle of spec and reads it back.
func bundleOf(t *testing.T, lab driver.Lab, r Runtime, spec driver.Spec) specs.Spec {
	t.Helper()
	h := home{t.TempDir(), t.TempDir()}
	if err := os.MkdirAll(h.bundle(), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := New(lab, r).writeBundle(spec, h); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(h.bundle() + "/config.json")
	if err != nil {
		t.Fatal(err)
	}
	var got specs.Spec
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	return got
}

func TestLimitsBecomeResources(t *testing.T) {
	got := bundleOf(t, driver.Lab{Root: true}, runc(), driver.Spec{ID: "tare-x", Cgroup: "tare/r/x",
		Limits: driver.Limits{CPUs: 1.5, CPUSet: "0-1", Memory: 64 << 20, Pids: 77}})
	r := got.Linux.Resources
	if *r.Memory.Limit != 64<<20 || *r.Pids.Limit != 77 || *r.CPU.Quota != 150_000 || *r.CPU.Period != 100_000 || r.CPU.Cpus != "0-1" {
		t.Errorf("resources: memory %d, pids %d, CPU %d/%d on %q", *r.Memory.Limit, *r.Pids.Limit, *r.CPU.Quota, *r.CPU.Period, r.CPU.Cpus)
	}
	if got.Linux.CgroupsPath != "/tare/r/x/payload" {
		t.Errorf("group %q", got.Linux.CgroupsPath)
	}
	free := bundleOf(t, driver.Lab{Root: true}, runc(), driver.Spec{ID: "tare-x"}).Linux
	if r := free.Resources; r.Memory != nil || r.Pids != nil || r.CPU != nil || free.CgroupsPath != "" {
		t.Errorf("no limits and no group became %+v in %q", r, free.CgroupsPath)
	}
}

func TestQuirks(t *testing.T) {
	spec := driver.Spec{ID: "tare-x", Env: []string{"A=1"}}
	if got := bundleOf(t, driver.Lab{Root: true}, youki(), spec).Process.Env; !slices.Equal(got, []string{"A=1", usualPath}) {
		t.Errorf("youki's environment is %q", got)
	}
	if got := bundleOf(t, driver.Lab{Root: true}, runc(), spec).Process.Env; !slices.Equal(got, []string{"A=1"}) {
		t.Errorf("runc's environment is %q", got)
	}
	lacks := runc()
	lacks.Lacks = []specs.LinuxNamespaceType{specs.CgroupNamespace}
	has := func(s specs.Spec) bool {
		return slices.ContainsFunc(s.Linux.Namespaces, func(n specs.LinuxNamespace) bool { return n.Type == specs.CgroupNamespace })
	}
	if has(bundleOf(t, driver.Lab{Root: true}, lacks, spec)) || !has(bundleOf(t, driver.Lab{Root: true}, runc(), spec)) {
		t.Error("Lacks does not decide on the cgroup namespace")
	}
	for _, root := range []bool{false, true} {
		for _, m := range bundleOf(t, driver.Lab{Root: root}, runc(), spec).Mounts {
			if m.Type == "devpts" && slices.Contains(m.Options, "gid=5") != root {
				t.Errorf("root %v: devpts has %q", root, m.Options)
			}
		}
	}
}

func TestAColonInALogsPathIsNoKindOfLog(t *testing.T) {
	for log, want := range map[string]string{"/a/log": "/a/log", "/a:b/log": "file:/a:b/log"} {
		if args := New(driver.Lab{}, crun()).arguments("crun", "/s", log, "state"); !slices.Contains(args, want) {
			t.Errorf("crun's log %s: %q", log, args)
		}
	}
	if args := New(driver.Lab{}, runc()).arguments("runc", "/s", "/a:b/log", "state"); !slices.Contains(args, "/a:b/log") {
		t.Errorf("runc's log: %q", args)
	}
}

func TestLastErrorIsTheRuntimesOwn(t *testing.T) {
	for log, want := range map[string]string{
		"": "",
		`{"level":"error","msg":"first"}` + "\n" + `{"level":"error","msg":"second"}` + "\n" + `{"level":"info","msg":"bye"}`: "second",
		`{"level":"warning","msg":"careful"}`: `{"level":"warning","msg":"careful"}`,
		"no JSON\n\n":                         "no JSON",
	} {
		file := t.TempDir() + "/log"
		if err := os.WriteFile(file, []byte(log), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := lastError(file); got != want {
			t.Errorf("log %q: got %q, want %q", log, got, want)
		}
	}
	if got := lastError("/no/such/log"); got != "" {
		t.Errorf("no log: got %q", got)
	}
}

func TestADelegatedGroupIsNamedFromTheTreesRoot(t *testing.T) {
	spec := driver.Spec{ID: "tare-x", Cgroup: "tare/r/x"}
	own := sys.Hierarchies{Mode: sys.V2, All: []sys.Hierarchy{{Version: 2, Writable: true, Root: "/user.slice/me"}}}
	if got := New(driver.Lab{}, runc()).cgroupsPath(spec, own); got != "/user.slice/me/tare/r/x/payload" {
		t.Errorf("group %q", got)
	}
	d := New(driver.Lab{}, runcSystemd())
	if path, group := d.cgroupsPath(spec, own), d.payloadGroup(spec); path != "system.slice:tare:tare-x" || group != "system.slice/tare-tare-x.scope" {
		t.Errorf("of systemd: %q, which is %q", path, group)
	}
}

func TestWithoutRootSomeSpecsAreRefused(t *testing.T) {
	d := New(driver.Lab{}, runc())
	for name, spec := range map[string]driver.Spec{
		"limits":       {Limits: driver.Limits{Memory: 1 << 20}},
		"another user": {User: driver.User{UID: 5}},
	} {
		var cannot *driver.CannotError
		if err := d.refuse(spec); !errors.As(err, &cannot) {
			t.Errorf("%s: got %v, want a CannotError", name, err)
		}
	}
	if err := d.refuse(driver.Spec{}); err != nil {
		t.Error(err)
	}
}
