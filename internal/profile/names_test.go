package profile

import (
	"slices"
	"testing"
)

// TestNames infers locks from stacks as Linux 6.18 gives them.
func TestNames(t *testing.T) {
	for _, test := range []struct {
		kind   Kind
		frames []string
		want   string
	}{
		{Mutex, []string{"__mutex_lock.constprop.0", "cgroup_kn_lock_live", "cgroup_mkdir", "kernfs_iop_mkdir", "vfs_mkdir", "do_mkdirat"}, "cgroup_mutex"},
		{Mutex, []string{"__mutex_lock.isra.0", "rtnl_newlink", "rtnetlink_rcv_msg", "netlink_rcv_skb"}, "rtnl_mutex"},
		{Mutex, []string{"__mutex_lock", "cleanup_net", "process_one_work"}, "rtnl_mutex"},
		{RWSem, []string{"rwsem_down_write_slowpath", "down_write", "cleanup_net", "process_one_work"}, "pernet_ops_rwsem"},
		{RWSem, []string{"rwsem_down_read_slowpath", "down_read_killable", "copy_net_ns", "create_new_namespaces"}, "pernet_ops_rwsem"},
		{RWSem, []string{"rwsem_down_write_slowpath", "down_write", "namespace_lock", "do_umount"}, "namespace_sem"},
		{RWSem, []string{"rwsem_down_write_slowpath", "down_write_nested", "filename_create", "do_mkdirat"}, Directory},
		{PercpuRWSem, []string{"percpu_rwsem_wait", "__percpu_down_read", "cgroup_css_set_fork", "cgroup_can_fork", "copy_process"}, "cgroup_threadgroup_rwsem"},
		{Sleep, []string{"__schedule", "schedule", "exp_funnel_lock", "synchronize_rcu_expedited", "namespace_unlock"}, "RCU expedited grace period"},
		{Sleep, []string{"__schedule", "schedule_timeout", "__wait_for_common", "__wait_rcu_gp", "synchronize_rcu_normal", "synchronize_rcu"}, "RCU grace period"},
		// The same function under another kind of lock is no clue.
		{RWSem, []string{"rwsem_down_write_slowpath", "cgroup_kn_lock_live"}, ""},
		// A clue too far from the lock's own code is another lock's.
		{Mutex, []string{"__mutex_lock", "a", "b", "c", "d", "rtnl_lock"}, ""},
		{Spinlock, []string{"_raw_spin_lock", "somewhere", "alloc_pid"}, ""},
		{Mutex, nil, ""},
	} {
		if got := infer(test.kind, test.frames); got != test.want {
			t.Errorf("%s %q: %q, want %q", test.kind, test.frames, got, test.want)
		}
	}
}

// TestCluesAreOfUse refuses a clue that stands twice with two meanings, and one
// that the lock's own code hides.
func TestCluesAreOfUse(t *testing.T) {
	for _, c := range clues {
		if got := byFunction[clue{c.function, c.kind, ""}]; got != c.lock {
			t.Errorf("%s of %s is both %q and %q", c.kind, c.function, c.lock, got)
		}
		if c.function != plain(c.function) {
			t.Errorf("%s is no plain name: it is never found", c.function)
		}
	}
}

func TestWithoutProbe(t *testing.T) {
	for _, test := range []struct{ in, want []string }{
		{[]string{"bpf_prog_1_on_begin", "bpf_trace_run2", "__traceiter_contention_begin", "__mutex_lock", "rtnl_lock"}, []string{"__mutex_lock", "rtnl_lock"}},
		{[]string{"bpf_trace_run2", "__mutex_lock"}, []string{"__mutex_lock"}},
		{[]string{"__mutex_lock", "rtnl_lock"}, []string{"__mutex_lock", "rtnl_lock"}},
		{[]string{"bpf_trace_run2"}, []string{}},
		{nil, nil},
	} {
		if got := WithoutProbe(test.in); !slices.Equal(got, test.want) {
			t.Errorf("%q: %q, want %q", test.in, got, test.want)
		}
	}
}
