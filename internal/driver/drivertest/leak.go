package drivertest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tarelab/tare/internal/driver"
)

// state is what of ours is on the machine: things named by the suite's token,
// descendants of this process, and this process's own descriptors and
// goroutines. Other tests that run on the machine do not show in it.
type state struct {
	processes  []string
	mounts     []string
	cgroups    []string
	files      []string
	fds        []string
	goroutines int
}

// settle is how long things may take to go away after Close has returned. The
// kernel removes a mount namespace after its last process was reaped, and on a busy
// machine podman had not reaped a conmon after 3 s.
const settle = 10 * time.Second

func (s *suite) snapshot() (state, error) {
	var st state
	var err error
	var errs []error
	for _, part := range []struct {
		to   *[]string
		list func() ([]string, error)
	}{
		{&st.processes, s.ourProcesses}, {&st.mounts, s.ourMounts}, {&st.cgroups, s.ourCgroups},
		{&st.files, s.ourFiles}, {&st.fds, ourDescriptors},
	} {
		*part.to, err = part.list()
		errs = append(errs, err)
	}
	st.goroutines = runtime.NumGoroutine()
	return st, errors.Join(errs...)
}

// compare says what is there now and was not before.
func (s *suite) compare(before state) error {
	deadline := time.Now().Add(settle)
	for {
		after, err := s.snapshot()
		if err == nil {
			err = leaked(before, after)
		}
		if err == nil || time.Now().After(deadline) {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func leaked(before, after state) error {
	var errs []error
	for _, part := range []struct {
		what          string
		before, after []string
	}{
		{"process", before.processes, after.processes}, {"mount", before.mounts, after.mounts},
		{"cgroup", before.cgroups, after.cgroups}, {"file", before.files, after.files},
		{"file descriptor", before.fds, after.fds},
	} {
		for _, x := range part.after {
			if !slices.Contains(part.before, x) {
				errs = append(errs, fmt.Errorf("left behind: %s %s", part.what, x))
			}
		}
	}
	if after.goroutines > before.goroutines {
		stacks := make([]byte, 64<<10)
		stacks = stacks[:runtime.Stack(stacks, true)]
		errs = append(errs, fmt.Errorf("left behind: %d goroutines:\n%s", after.goroutines-before.goroutines, stacks))
	}
	return errors.Join(errs...)
}

// ourProcesses are the descendants of this process and those whose cgroup,
// command line or environment holds the token.
func (s *suite) ourProcesses() ([]string, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	parent := map[int]int{}
	var pids []int
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			pids = append(pids, pid)
			parent[pid] = parentOf(pid)
		}
	}
	var ours []string
	for _, pid := range pids {
		if pid != os.Getpid() && (descends(pid, parent) || s.namedIn(pid)) {
			if text := describe(pid); text != "" {
				ours = append(ours, text)
			}
		}
	}
	return ours, nil
}

func descends(pid int, parent map[int]int) bool {
	for range 64 { // deeper trees do not occur; the bound guards against pids that were reused while we read
		if pid = parent[pid]; pid == os.Getpid() {
			return true
		} else if pid == 0 {
			return false
		}
	}
	return false
}

// namedIn reports whether the token stands in one of the process's own texts.
// A process that has ended meanwhile has none.
func (s *suite) namedIn(pid int) bool {
	for _, file := range []string{"cgroup", "cmdline", "environ"} {
		if data, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file)); err == nil && bytes.Contains(data, []byte(s.token)) {
			return true
		}
	}
	return false
}

// parentOf is the parent's pid, 0 when the process is gone.
func parentOf(pid int) int {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	// The name in parentheses may hold blanks: count from the last one.
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	if len(fields) < 2 {
		return 0
	}
	ppid, err := strconv.Atoi(fields[1])
	if err != nil {
		return 0
	}
	return ppid
}

// describe is "pid (name): command line", with a Z for a zombie; "" when the process is
// gone. One that runs and one that sleeps are described alike: the same process before
// and after a check is no other. A zombie that the machine's init has adopted is gone:
// init reaps it in its own time.
func describe(pid int) string {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	end := bytes.LastIndexByte(stat, ')')
	if bytes.HasPrefix(stat[end:], []byte(") Z 1 ")) {
		return ""
	}
	zombie := ""
	if bytes.HasPrefix(stat[end:], []byte(") Z ")) {
		zombie = " Z"
	}
	command, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)) // empty for a zombie
	return fmt.Sprintf("%s%s: %.200q", stat[:end+1], zombie, bytes.ReplaceAll(command, []byte{0}, []byte{' '}))
}

func (s *suite) ourMounts() ([]string, error) {
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	var ours []string
	for line := range strings.Lines(string(data)) {
		if strings.Contains(line, s.token) || strings.Contains(line, s.opts.Lab.TestRootfs) || strings.Contains(line, s.opts.Lab.RunDir) {
			ours = append(ours, strings.TrimSpace(line))
		}
	}
	return ours, nil
}

// ourCgroups are the directories in any hierarchy that hold the token, or a
// container's id, in their names.
func (s *suite) ourCgroups() ([]string, error) {
	return s.findNamed("/sys/fs/cgroup", 5)
}

// ourFiles are the entries that a runtime could leave: in the suite's own
// directories, and by name in the machine's places for state.
func (s *suite) ourFiles() ([]string, error) {
	ours, err := below(s.dir, s.opts.Lab.RunDir)
	for _, dir := range []string{"/run", "/tmp", "/var/lib", "/dev/shm"} {
		named, nerr := s.findNamed(dir, 2)
		ours, err = append(ours, named...), errors.Join(err, nerr)
	}
	return slices.DeleteFunc(ours, func(p string) bool { return p == s.dir }), err
}

func below(dirs ...string) ([]string, error) {
	var all []string
	for _, dir := range dirs {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			all = append(all, filepath.Join(dir, e.Name()))
		}
	}
	return all, nil
}

// findNamed lists what lies at most depth levels below dir and has the token
// in its name. What disappears or is closed to us meanwhile is not ours.
func (s *suite) findNamed(dir string, depth int) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, os.ErrPermission) {
		return nil, err
	}
	var found []string
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if strings.Contains(e.Name(), s.token) && path != s.dir {
			found = append(found, path)
		} else if e.IsDir() && depth > 1 && !strings.HasPrefix(s.dir, path+"/") {
			more, err := s.findNamed(path, depth-1)
			if err != nil {
				return nil, err
			}
			found = append(found, more...)
		}
	}
	return found, nil
}

// ourDescriptors are this process's open descriptors, without the directory
// that the listing itself opens.
func ourDescriptors() ([]string, error) {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return nil, err
	}
	var all []string
	for _, e := range entries {
		if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && !strings.HasPrefix(to, "/proc/") {
			all = append(all, e.Name()+" -> "+to)
		}
	}
	return all, nil
}

func sortedPhases(all []stamped) []driver.Phase {
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b stamped) int { return a.at.Compare(b.at) })
	var order []driver.Phase
	for _, s := range all {
		order = append(order, s.phase)
	}
	return order
}
