package workload

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tarelab/tare/internal/sample"
)

// standIn makes a directory whose programs behave as those of a built UnixBench.
func standIn(t *testing.T) string {
	t.Helper()
	home := t.TempDir()
	for _, dir := range []string{"pgms", "testdir"} {
		if err := os.Mkdir(filepath.Join(home, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	program := filepath.Join(home, "standin")
	if out, err := exec.Command("cc", "-O2", "-o", program, "testdata/standin.c").CombinedOutput(); err != nil {
		t.Fatalf("compile standin.c: %v: %s", err, out)
	}
	for _, test := range unixTests() {
		for _, name := range test.theirs {
			if err := os.Link(program, filepath.Join(home, "pgms", name)); err != nil && !os.IsExist(err) {
				t.Fatal(err)
			}
		}
	}
	for name, text := range map[string]string{
		"pgms/multi.sh":    "#! /bin/sh\nn=1\nwhile [ $n -le $1 ]; do /bin/sh \"$UB_BINDIR/tst.sh\" & n=$(($n + 1)); done\nwait\n",
		"pgms/tst.sh":      "sort > sorted.$$ < sort.src\nrm sorted.$$\n",
		"testdir/sort.src": "b\na\n",
	} {
		file := filepath.Join(home, name)
		if err := os.Remove(file); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return home
}

// besideRun is a test next to a UnixBench, as a job runs it, on this machine.
func besideRun(ctx context.Context, t *testing.T, home, kind string, params map[string]string) (*exec.Cmd, Job) {
	t.Helper()
	all := map[string]string{"unixbench": home, "time": "200ms"}
	for name, value := range params {
		all[name] = value
	}
	job, err := Resolve(kind, all, nil)
	if err != nil {
		t.Fatal(err)
	}
	bin, err := filepath.Abs("../../helpers/bin/linux_" + runtime.GOARCH)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "work")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	args := slices.Clone(job.Args)
	for i, a := range args {
		a = strings.Replace(a, unixBenchHome, home, 1)
		a = strings.Replace(a, "/.tare/", bin+"/", 1)
		args[i] = strings.Replace(a, "--dir=/tmp", "--dir="+dir, 1)
	}
	c := exec.CommandContext(ctx, args[0], args[1:]...)
	c.Dir, c.Env = filepath.Dir(dir), append(job.Env, "LANG=C")
	return c, job
}

func nothingLeft(t *testing.T, c *exec.Cmd) {
	t.Helper()
	left, err := os.ReadDir(filepath.Join(c.Dir, "work"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range left {
		t.Errorf("%q left %s behind", c.Args, e.Name())
	}
}

// Each test runs next to its counterpart, with both builds of ours, in two copies.
func TestUnixBenchRunsNextToEachTest(t *testing.T) {
	home := standIn(t)
	for i, test := range unixTests() {
		build := []string{UnixDynamic, UnixStatic}[i%2]
		if test.name == "whetstone" || test.name == "execl" {
			build = UnixDynamic
		}
		t.Run(test.name, func(t *testing.T) {
			c, job := besideRun(t.Context(), t, home, test.Kind(), map[string]string{"copies": "2", "build": build})
			var out, errs bytes.Buffer
			c.Stdout, c.Stderr = &out, &errs
			if err := c.Run(); err != nil {
				t.Fatalf("%v: %s", err, &errs)
			}
			nothingLeft(t, c)
			ours, theirs, err := test.lines(out.Bytes())
			if err != nil || len(ours) != 2 || len(theirs) != 2 {
				t.Fatalf("%d lines of ours, %d of UnixBench's, %v\n%s", len(ours), len(theirs), err, &out)
			}
			for _, l := range theirs {
				if l.Value <= 10 && test.file > 0 || l.Unit != test.unit || l.End-l.Start < 0.9e9 || l.CPU <= 0 {
					t.Errorf("%+v", l)
				}
			}
			values, err := job.Parse(out.Bytes())
			if got := byName(t, values); err != nil || got[sample.UnixBenchScore] <= 0 || got[sample.UnixBenchRatio] <= 0 {
				t.Errorf("%v, %v", got, err)
			}
		})
	}
}

// What goes wrong with a user's programs is told by their names.
func TestUnixBenchThatFails(t *testing.T) {
	home := standIn(t)
	file := filepath.Join(home, "pgms", "syscall")
	for name, c := range map[string]struct{ text, want string }{
		"missing":      {"", "pgms/syscall cannot be executed"},
		"fails":        {"#!/bin/sh\necho broken >&2; exit 3\n", "UnixBench's syscall ended with wait status 0x300: broken"},
		"says nothing": {"#!/bin/sh\necho COUNT >&2\n", "printed no COUNT|number|base|unit"},
		"no number":    {"#!/bin/sh\necho 'COUNT|nan|1|lps' >&2\n", "printed no COUNT"},
		"another unit": {"#!/bin/sh\necho 'COUNT|1|1|bananas' >&2\n", "printed no COUNT"},
		"no time":      {"#!/bin/sh\nprintf 'COUNT|1|1|lps\\nTIME|-1\\n' >&2\n", "printed no time"},
		"much output":  {"#!/bin/sh\nhead -c 1000000 /dev/zero >&2\n", "printed no COUNT"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.Remove(file); err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
			if c.text != "" {
				if err := os.WriteFile(file, []byte(c.text), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			run, _ := besideRun(t.Context(), t, home, "unix-syscall", nil)
			out, err := run.CombinedOutput()
			if err == nil || !strings.Contains(string(out), c.want) {
				t.Errorf("%v: %.300s", err, out)
			}
			nothingLeft(t, run)
		})
	}
}

// A signal ends both, and nothing is left.
func TestUnixBenchEndsOnSignals(t *testing.T) {
	home := standIn(t)
	for _, after := range []time.Duration{100 * time.Millisecond, 700 * time.Millisecond, 1500 * time.Millisecond} {
		c, _ := besideRun(t.Context(), t, home, "unix-pipe-context-switch", map[string]string{"time": "30s", "copies": "2"})
		c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(after)
		if err := c.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		err := c.Wait()
		if code := c.ProcessState.ExitCode(); code != 128+int(syscall.SIGTERM) {
			t.Errorf("after %v: exit code %d, %v", after, code, err)
		}
		nothingLeft(t, c)
	}
}
