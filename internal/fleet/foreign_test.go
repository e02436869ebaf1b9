package fleet_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/tarelab/tare/internal/fleet"
)

// A fleet's directory may be anybody's: it is read, and never obeyed.

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// submitted is a fleet with a job in the engine, which has output.
func submitted(t *testing.T) (c *cluster, dir, job string) {
	t.Helper()
	c = newCluster(1, map[string][]script{"m1": {writes(nil, 0)}})
	dir = begin(t, c, "all", unchanged)
	must(t, (&fleet.Collector{Dir: dir, Engine: c}).Submit(t.Context()))
	job = statuses(t, dir)[0].Job
	must(t, os.WriteFile(filepath.Join(dir, "streams", job), streamOf(t, "m1", 1, 9, -1), 0o644))
	return c, dir, job
}

func TestForeignFleetIsOnlyRead(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to give files away")
	}
	const nobody = 65534
	for what, spoil := range map[string]func(at func(string) string) error{
		"directory of another user":      func(at func(string) string) error { return os.Chown(at(""), nobody, nobody) },
		"plan of another user":           func(at func(string) string) error { return os.Chown(at("fleet.json"), nobody, nobody) },
		"jobs of another user":           func(at func(string) string) error { return os.Chown(at("jobs.jsonl"), nobody, nobody) },
		"output of another user":         func(at func(string) string) error { return os.Chown(at("streams"), nobody, nobody) },
		"directory all may write":        func(at func(string) string) error { return os.Chmod(at(""), 0o777) },
		"plan its group may write":       func(at func(string) string) error { return os.Chmod(at("fleet.json"), 0o664) },
		"output all may write":           func(at func(string) string) error { return os.Chmod(at("streams"), 0o777) },
		"runs that are a link":           func(at func(string) string) error { return os.Symlink(at("streams"), at("runs")) },
		"jobs that have another name":    func(at func(string) string) error { return os.Link(at("jobs.jsonl"), at("other")) },
		"a lock that has another name":   func(at func(string) string) error { return os.Link(at("lock"), at("other")) },
		"a plan that has another name":   func(at func(string) string) error { return os.Link(at("fleet.json"), at("other")) },
		"a plan that is a link":          func(at func(string) string) error { return replaced(at, "fleet.json", 0) },
		"output that is a link":          func(at func(string) string) error { return replaced(at, "streams", 0) },
		"output that is not a directory": func(at func(string) string) error { return replaced(at, "streams", syscall.S_IFIFO) },
	} {
		c, dir, _ := submitted(t)
		must(t, spoil(func(name string) string { return filepath.Join(dir, name) }))
		asked := c.Requests()
		collector := &fleet.Collector{Dir: dir, Engine: c, Pace: quick}
		for how, err := range map[string]error{"collect": collector.Collect(t.Context()), "submit": collector.Submit(t.Context()), "cancel": collector.Cancel(t.Context()),
			"begin": fleet.Begin(dir, fleet.Plan{})} {
			if !errors.Is(err, fleet.ErrForeign) {
				t.Errorf("%s: %s: %v", what, how, err)
			}
		}
		if _, err := fleet.ReadPlan(dir); !errors.Is(err, fleet.ErrForeign) {
			t.Errorf("%s: its plan is obeyed: %v", what, err)
		}
		if n := c.Requests(); n != asked {
			t.Errorf("%s: the engine was asked %d times", what, n-asked)
		}
		if all := statuses(t, dir); len(all) != 1 || all[0].Job == "" {
			t.Errorf("%s: it cannot be read: %+v", what, all)
		}
	}
}

// replaced puts a link, or a node of another kind, in the place of a file.
func replaced(at func(string) string, name string, kind uint32) error {
	err := os.Rename(at(name), at("moved"))
	if kind == 0 {
		return errors.Join(err, os.Symlink("moved", at(name)))
	}
	return errors.Join(err, syscall.Mknod(at(name), kind|0o644, 0))
}

// Names of jobs become names of files.
func TestEventsNameJobsOfTheFleet(t *testing.T) {
	for _, job := range []string{"../../../etc/foo", "tare-abcd-0-1-../x", "tare-abcd-0-1-m1.out", "tare-other-0-1-m1", "tare-abcd-0-1-" + strings.Repeat("m", 64), "tare-abcd-m1", "--all"} {
		c, dir, _ := submitted(t)
		f, err := os.OpenFile(filepath.Join(dir, "jobs.jsonl"), os.O_APPEND|os.O_WRONLY, 0)
		must(t, err)
		_, err = f.WriteString(`{"slot":0,"machine":"m1","attempt":1,"job":"` + job + `","what":"submitting"}` + "\n")
		must(t, err, f.Close())
		asked := c.Requests()
		collector := &fleet.Collector{Dir: dir, Engine: c, Pace: quick}
		_, _, _, readErr := fleet.Statuses(dir)
		for how, err := range map[string]error{"collect": collector.Collect(t.Context()), "cancel": collector.Cancel(t.Context()), "status": readErr} {
			if err == nil || !strings.Contains(err.Error(), "is not the name of a job") {
				t.Errorf("%s: %s: %v", job, how, err)
			}
		}
		if c.Requests() != asked {
			t.Errorf("%s: the engine was asked", job)
		}
	}
}

// Who only reads opens no pipe and no device, and nothing outside of the directory.
func TestForeignFilesAreNotOpened(t *testing.T) {
	for what, spoil := range map[string]func(dir, job string) error{
		"nothing": func(string, string) error { return nil },
		"output outside": func(dir, _ string) error {
			moved := filepath.Join(filepath.Dir(dir), "moved")
			return errors.Join(os.Rename(filepath.Join(dir, "streams"), moved), os.Symlink(moved, filepath.Join(dir, "streams")))
		},
		"output that is a pipe": func(dir, job string) error {
			file := filepath.Join(dir, "streams", job)
			return errors.Join(os.Remove(file), syscall.Mkfifo(file, 0o644))
		},
	} {
		_, dir, job := submitted(t)
		must(t, spoil(dir, job))
		all := statuses(t, dir)
		if records := all[0].Records; (records > 0) != (what == "nothing") {
			t.Errorf("%s: %d records", what, records)
		}
	}
	_, dir, _ := submitted(t)
	lock := filepath.Join(dir, "lock")
	must(t, os.Remove(lock), syscall.Mkfifo(lock, 0o644))
	if _, _, collecting, err := fleet.Statuses(dir); collecting || err != nil {
		t.Errorf("a lock that is a pipe: %v, %v", collecting, err)
	}
	must(t, os.Rename(lock, dir+"-pipe"))
	if _, _, _, err := fleet.Statuses(dir + "-pipe"); err == nil {
		t.Error("a pipe was read as a fleet")
	}
}

// A plan of a few MiB does not become a GiB of machines.
func TestHostilePlan(t *testing.T) {
	dir := t.TempDir()
	plan := []byte(`{"schema":1,"token":"abcd","atOnce":1,"attempts":1,"time":1,"wanted":1000000,"order":[""`)
	plan = append(append(plan, bytes.Repeat([]byte(`,""`), 1_000_000)...), "]}"...)
	must(t, os.WriteFile(filepath.Join(dir, "fleet.json"), plan, 0o644))
	if _, _, _, err := fleet.Statuses(dir); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("%v", err)
	}
}
