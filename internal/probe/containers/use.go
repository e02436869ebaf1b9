package containers

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tarelab/tare/internal/sys"
)

// Use is what a container has used since it started, and holds now. A number
// that the machine does not account is -1.
type Use struct {
	CPU             time.Duration `json:"cpu"`
	Memory          int64         `json:"memory"` // bytes, without the page cache that can go at once, as docker stats has it
	Read, Written   int64         // bytes of block devices; see blocks
	Received, Sent  int64         // bytes of its network namespace, without loopback; -1 where that is the machine's
	Tasks, Runnable int64         // processes and threads; processes that run or wait for a CPU or a disk
	Killed          int64         // processes that the kernel killed because the container was out of memory
}

// read reads a container's counters. fs.ErrNotExist says that it has ended.
func (c *Container) read(m *machine) (Use, error) {
	u := Use{CPU: -1, Memory: -1, Read: -1, Written: -1, Received: -1, Sent: -1, Tasks: -1, Runnable: -1, Killed: -1}
	if !m.blocks {
		u.Read, u.Written = 0, 0
	}
	for _, one := range []func(*Use, *machine) error{c.cpu, c.memory, c.killed, c.tasks, c.blocks, c.traffic} {
		if err := one(&u, m); err != nil {
			return u, err
		}
	}
	return u, nil
}

// machine is what of the machine all readings depend on.
type machine struct {
	network string // its network namespace
	blocks  bool   // its groups count what devices read and write
	files   *files
}

const v1Blocks = "blkio.throttle.io_service_bytes_recursive"

// countsBlocks is false where version 1 counts nothing, as kernels from 6.10 on do
// as long as nobody has set a limit (blk-throttle is initialised with the first).
func countsBlocks(trees sys.Hierarchies) bool {
	for _, h := range trees.All {
		if h.Version != 1 || !slices.Contains(h.Controllers, "blkio") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(h.Path, v1Blocks))
		return err != nil || bytes.ContainsRune(text, ':') // of the whole machine, so that a device is named
	}
	return true
}

// file is a counter's file in the group of a controller; empty where the
// machine has neither.
func (c *Container) file(controller, one, two string) (name string, version int) {
	if dir, ok := c.groups[controller]; ok && dir != c.groups[""] {
		return filepath.Join(dir, one), 1
	}
	if dir, ok := c.groups[""]; ok {
		return filepath.Join(dir, two), 2
	}
	return "", 0
}

// content is a file's text; none for a file that this kernel does not have.
func (m *machine) content(name string) ([]byte, error) {
	if name == "" {
		return nil, nil
	}
	text, err := m.files.read(name)
	if errors.Is(err, fs.ErrNotExist) {
		if _, gone := os.Stat(filepath.Dir(name)); gone != nil {
			return nil, gone
		}
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", fs.ErrNotExist, err) // ENODEV: the group is being removed
	}
	return text, nil
}

// field is the number after a word at the beginning of a line, -1 for none.
func field(text []byte, word string) int64 {
	for line := range bytes.Lines(text) {
		if rest, ok := bytes.CutPrefix(line, []byte(word+" ")); ok {
			return integer(rest)
		}
	}
	return -1
}

func integer(text []byte) int64 {
	n, err := strconv.ParseInt(string(bytes.TrimSpace(text)), 10, 64)
	if err != nil {
		return -1
	}
	return n
}

func (c *Container) cpu(u *Use, m *machine) error {
	name, version := c.file("cpuacct", "cpuacct.usage", "cpu.stat")
	text, err := m.content(name)
	if err != nil || text == nil {
		return err
	}
	if version == 1 {
		u.CPU = time.Duration(integer(text))
	} else if us := field(text, "usage_usec"); us >= 0 {
		u.CPU = time.Duration(us) * time.Microsecond
	}
	return nil
}

func (c *Container) memory(u *Use, m *machine) error {
	name, version := c.file("memory", "memory.usage_in_bytes", "memory.current")
	text, err := m.content(name)
	if err != nil || text == nil {
		return err
	}
	u.Memory = integer(text)
	stat, err := m.content(filepath.Join(filepath.Dir(name), "memory.stat"))
	inactive := "inactive_file"
	if version == 1 {
		inactive = "total_inactive_file"
	}
	if cache := field(stat, inactive); cache > 0 && cache <= u.Memory {
		u.Memory -= cache
	}
	return err
}

// killed counts from Linux 4.13 on. Version 1 counts those of the group itself, version 2
// of those below it, too.
func (c *Container) killed(u *Use, m *machine) error {
	name, _ := c.file("memory", "memory.oom_control", "memory.events")
	text, err := m.content(name)
	u.Killed = field(text, "oom_kill")
	return err
}

func (c *Container) blocks(u *Use, m *machine) error {
	if !m.blocks {
		return nil
	}
	name, version := c.file("blkio", v1Blocks, "io.stat")
	text, err := m.content(name)
	if err != nil || text == nil {
		return err
	}
	u.Read, u.Written = 0, 0
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if version == 1 && len(words) == 3 { // 254:0 Read 4096
			switch n := max(integer([]byte(words[2])), 0); words[1] {
			case "Read":
				u.Read += n
			case "Write":
				u.Written += n
			}
		} else if version == 2 { // 254:0 rbytes=4096 wbytes=0 ...
			for _, w := range words {
				if n, ok := strings.CutPrefix(w, "rbytes="); ok {
					u.Read += max(integer([]byte(n)), 0)
				} else if n, ok := strings.CutPrefix(w, "wbytes="); ok {
					u.Written += max(integer([]byte(n)), 0)
				}
			}
		}
	}
	return nil
}

// tasks counts processes and, where groups do not count it, adds up what they and
// the children that they have waited for had read from and written to storage,
// where a write counts when its page becomes dirty (proc(5), /proc/pid/io).
func (c *Container) tasks(u *Use, m *machine) error {
	name, _ := c.file("pids", "pids.current", "pids.current")
	text, err := m.content(name)
	if err != nil {
		return err
	}
	if text != nil {
		u.Tasks = integer(text)
	}
	procs, err := m.content(filepath.Join(filepath.Dir(name), "cgroup.procs"))
	if err != nil || name == "" {
		return err
	}
	u.Runnable = 0
	for pid := range bytes.FieldsSeq(procs) {
		stat, err := m.files.read("/proc/" + string(pid) + "/stat")
		if err != nil {
			continue // it has ended
		}
		if after := bytes.LastIndexByte(stat, ')'); len(stat) > after+2 && (stat[after+2] == 'R' || stat[after+2] == 'D') {
			u.Runnable++
		}
		if m.blocks {
			continue
		}
		counters, err := m.files.read("/proc/" + string(pid) + "/io")
		if err != nil {
			continue // it has ended, or is not ours to read
		}
		u.Read += max(field(counters, "read_bytes:"), 0)
		u.Written += max(field(counters, "write_bytes:"), 0)
	}
	return nil
}

// traffic sums up the devices of the leader's network namespace.
func (c *Container) traffic(u *Use, m *machine) error {
	if !c.ownNetwork {
		namespace, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", c.Leader))
		if err != nil || namespace == m.network {
			return nil // the leader has ended, or may not be looked at, or shares the machine's network
		}
		c.ownNetwork = true
	}
	// Kept open it would hold the namespace after the container.
	text, err := m.files.once(fmt.Sprintf("/proc/%d/net/dev", c.Leader))
	if err != nil {
		return nil
	}
	u.Received, u.Sent = 0, 0
	for line := range strings.Lines(string(text)) {
		device, counters, ok := strings.Cut(line, ":")
		words := strings.Fields(counters)
		if !ok || len(words) < 9 || strings.TrimSpace(device) == "lo" {
			continue
		}
		u.Received += max(integer([]byte(words[0])), 0)
		u.Sent += max(integer([]byte(words[8])), 0)
	}
	return nil
}
