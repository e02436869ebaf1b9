package containers

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// An Event is a change in the life of a container.
type Event struct {
	At     float64   `json:"at"` // of the reading that found it: seconds since the watch began
	Event  EventKind `json:"event"`
	ID     string    `json:"id"`
	Name   string    `json:"name"`
	Engine string    `json:"engine"`
	Killed int64     `json:"killed,omitempty"` // OutOfMemory: how many of its processes the kernel killed
}

// EventKind is what happened, in the words of Docker's events.
type EventKind string

// The kinds of events.
const (
	Started     EventKind = "start"
	Died        EventKind = "die"
	OutOfMemory EventKind = "oom"
)

// kills are the processes of a container that were killed because it was out of memory.
type kills struct {
	base   int64 // the group's count when the container was first seen
	logged int64 // those that the kernel's log named since then
	told   int64 // those that events have reported
}

// eventsOf are the events between two readings: first the kills, which may be why a
// container died. What ran at the first reading, which has none before it, started earlier.
func (w *Watch) eventsOf(before, after map[string]reading, at float64) []Event {
	logged, strangers := w.logged(before, after)
	var out []Event
	add := func(kind EventKind, c Container, killed int64) {
		out = append(out, Event{At: at, Event: kind, ID: c.ID, Name: c.Name, Engine: c.Engine, Killed: killed})
	}
	kill := func(r reading) {
		k := w.kills[r.container.ID]
		k.logged += logged[r.container.ID]
		if n := max(k.logged, r.use.Killed-k.base) - k.told; n > 0 {
			k.told += n
			add(OutOfMemory, r.container, n)
		}
		w.kills[r.container.ID] = k
	}
	for _, c := range strangers {
		add(OutOfMemory, c, logged[c.ID])
	}
	for _, r := range inOrder(before) {
		now, there := after[r.container.ID]
		if there && now.container.group == r.container.group {
			kill(now)
			continue
		}
		kill(r)
		delete(w.kills, r.container.ID)
		delete(logged, r.container.ID)
		add(Died, r.container, 0)
	}
	for _, r := range inOrder(after) {
		then, there := before[r.container.ID]
		switch {
		case before == nil:
			w.kills[r.container.ID] = kills{base: max(r.use.Killed, 0)}
		case !there || then.container.group != r.container.group:
			add(Started, r.container, 0)
			kill(r)
		}
	}
	return out
}

func inOrder(of map[string]reading) []reading {
	return slices.SortedFunc(maps.Values(of), func(x, y reading) int {
		return cmp.Or(strings.Compare(x.container.Name, y.container.Name), strings.Compare(x.container.ID, y.container.ID))
	})
}

// logged counts the kills that the kernel's log has named since the last reading, by
// container. Strangers are containers that came and went between two readings: the form
// of their group's name tells them.
func (w *Watch) logged(before, after map[string]reading) (count map[string]int64, strangers []Container) {
	count = map[string]int64{}
	for _, path := range w.kernel.victims() {
		c, known := owner(path, after)
		if !known {
			c, known = owner(path, before)
		}
		if !known {
			if c, known = named(path); !known {
				continue
			}
			if count[c.ID] == 0 {
				c.Name = nameOf(c)
				strangers = append(strangers, c)
			}
		}
		count[c.ID]++
	}
	return count, strangers
}

// owner is the container whose group, or one below it, has the path.
func owner(path string, of map[string]reading) (Container, bool) {
	for _, r := range of {
		if rest, is := strings.CutPrefix(path, r.container.Path); is && (rest == "" || rest[0] == '/') {
			return r.container, true
		}
	}
	return Container{}, false
}

// kernelLog is the kernel's log from now on. A group that is removed with its counts as
// soon as its last process was killed leaves a line there. Who may not read the log has
// the counts alone.
type kernelLog struct {
	descriptor int // -1: cannot be read
	record     [recordSize]byte
}

// recordSize is that of the longest record (kernel/printk/internal.h: PRINTK_MESSAGE_MAX
// is 2048, CONSOLE_EXT_LOG_MAX was 8192 before).
const recordSize = 8192

// recordsMost bounds what one reading takes from the log: a flood of records must not
// keep the watch from reading.
const recordsMost = 20_000

func openKernelLog() *kernelLog {
	descriptor, err := unix.Open("/dev/kmsg", unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return &kernelLog{descriptor: -1}
	}
	if _, err := unix.Seek(descriptor, 0, unix.SEEK_END); err != nil {
		_ = unix.Close(descriptor) // nothing was written there
		return &kernelLog{descriptor: -1}
	}
	return &kernelLog{descriptor: descriptor}
}

func (k *kernelLog) close() {
	if k.descriptor >= 0 {
		_ = unix.Close(k.descriptor) // nothing was written there
	}
}

// victims are the groups of the processes that the kernel has killed, by its log since
// the last call.
func (k *kernelLog) victims() (paths []string) {
	if k.descriptor < 0 {
		return nil
	}
	for range recordsMost {
		n, err := unix.Read(k.descriptor, k.record[:])
		if errors.Is(err, unix.EPIPE) || errors.Is(err, unix.EINTR) { // EPIPE: records were overwritten before they were read
			continue
		}
		if err != nil || n <= 0 { // EAGAIN: no record is left
			return paths
		}
		if path, ok := victim(string(k.record[:n])); ok {
			paths = append(paths, path)
		}
	}
	return paths
}

// victim is the group of a process that the kernel killed for want of memory, where a
// record of its log says so (mm/oom_kill.c: dump_oom_victim, from Linux 5.0 on):
//
//	6,1234,396190844,-;oom-kill:constraint=CONSTRAINT_MEMCG,...,oom_memcg=/a,task_memcg=/a/b,task=tail,pid=21035,uid=0
//
// What users write to /dev/kmsg never has the kernel's facility, which is 0.
func victim(record string) (path string, ok bool) {
	prefix, text, _ := strings.Cut(record, ";")
	priority, _, _ := strings.Cut(prefix, ",")
	if n, err := strconv.Atoi(priority); err != nil || n < 0 || n >= 8 || !strings.HasPrefix(text, "oom-kill:") {
		return "", false
	}
	_, rest, found := strings.Cut(text, ",task_memcg=")
	path, _, whole := strings.Cut(rest, ",task=")
	if !found || !whole || !strings.HasPrefix(path, "/") {
		return "", false
	}
	return path, true
}
