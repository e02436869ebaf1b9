package containers

import (
	"strings"
	"testing"
)

// Records of the kernel's log, as Linux 6.18 writes them.
const killed = "6,1234,396190844,-;oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/docker,task_memcg=/docker/ab/c,task=tail,pid=21035,uid=0\n SUBSYSTEM=memory\n"

func TestVictim(t *testing.T) {
	for record, want := range map[string]string{
		killed: "/docker/ab/c",
		"6,1,2,-;oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,task_memcg=/a,task=tail,pid=1,uid=0": "/a",
		"14" + killed[1:]: "", // a user's: facility 1
		"6,1,2,-;Killed process 1, oom-kill:,task_memcg=/a,task=b": "",
		"6,1,2,-;oom-kill:,task_memcg=/a":                          "",
		"oom-kill:,task_memcg=/a,task=b":                           "",
		"":                                                         "",
	} {
		if path, ok := victim(record); path != want || ok != (want != "") {
			t.Errorf("%q: %q %v, want %q", record, path, ok, want)
		}
	}
}

func FuzzVictim(f *testing.F) {
	f.Add(killed)
	f.Add("14" + killed[1:])
	f.Fuzz(func(t *testing.T, record string) {
		if path, ok := victim(record); ok && (!strings.HasPrefix(path, "/") || !strings.Contains(record, path)) {
			t.Errorf("%q of %q", path, record)
		}
	})
}

// Of a container that came and went between two readings the log alone knows.
func TestStranger(t *testing.T) {
	id := strings.Repeat("ab", 32)
	if c, ok := named("/docker/" + id); !ok || c.ID != id || c.Engine != "docker" || nameOf(c) != id[:12] {
		t.Errorf("%+v %v", c, ok)
	}
	before := map[string]reading{"x": {container: Container{ID: "x", Path: "/docker/ab"}}}
	for path, want := range map[string]bool{"/docker/ab": true, "/docker/ab/c": true, "/docker/abc": false, "/docker": false} {
		if _, is := owner(path, before); is != want {
			t.Errorf("%s belongs to it: %v", path, is)
		}
	}
}
