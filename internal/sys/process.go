package sys

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
)

// Children are the processes that pid has started and not outlived, in no order
// (proc(5); every thread has a list of its own). Of a process that has ended there
// are none.
func Children(pid int) ([]int, error) {
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if gone(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("children of process %d: %w", pid, err)
	}
	if _, err := os.Stat(fmt.Sprintf("/proc/self/task/%d/children", os.Getpid())); errors.Is(err, fs.ErrNotExist) {
		return childrenByParent(pid) // a kernel without CONFIG_PROC_CHILDREN
	}
	var all []int
	for _, t := range threads {
		list, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", pid, t.Name()))
		if gone(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("children of process %d: %w", pid, err)
		}
		for _, text := range strings.Fields(string(list)) {
			child, err := strconv.Atoi(text)
			if err != nil {
				return nil, fmt.Errorf("children of process %d: %w", pid, err)
			}
			all = append(all, child)
		}
	}
	return all, nil
}

// childrenByParent is Children by what every process of the machine says of its parent.
func childrenByParent(pid int) ([]int, error) {
	processes, err := procfs.AllProcs()
	if err != nil {
		return nil, fmt.Errorf("children of process %d: %w", pid, err)
	}
	var all []int
	for _, p := range processes {
		stat, err := p.Stat()
		if gone(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("children of process %d: %w", pid, err)
		}
		if stat.PPID == pid {
			all = append(all, p.PID)
		}
	}
	return all, nil
}

// gone says of an error from /proc that the process or thread has ended.
func gone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) }
