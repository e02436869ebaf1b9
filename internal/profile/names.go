package profile

import (
	"slices"
	"strings"
)

// A clue says which lock a function takes. Kernels without CONFIG_KALLSYMS_ALL
// tell no variable's name, so the name is inferred from the code that waits.
type clue struct {
	function string // of the kernel, without the compiler's suffixes
	kind     Kind
	lock     string
}

// clues are the global locks of a container's start, and what is taken most
// beside them. The first frame outside of the lock's own code that stands here
// decides. Names were read off the sources of Linux 6.1 and 6.18 and seen on
// 6.18 (names_test.go holds the stacks); older kernels share most of them.
var clues = []clue{
	// kernel/cgroup/cgroup.c, cgroup-v1.c
	{"cgroup_kn_lock_live", Mutex, "cgroup_mutex"},
	{"cgroup_lock_and_drain_offline", Mutex, "cgroup_mutex"},
	{"cgroup_procs_write_start", Mutex, "cgroup_mutex"},
	{"cgroup_css_set_fork", Mutex, "cgroup_mutex"},
	{"cgroup_can_fork", Mutex, "cgroup_mutex"},
	{"cgroup_attach_task_all", Mutex, "cgroup_mutex"},
	{"proc_cgroup_show", Mutex, "cgroup_mutex"},
	{"proc_cgroupstats_show", Mutex, "cgroup_mutex"},
	{"css_killed_work_fn", Mutex, "cgroup_mutex"},
	{"css_release_work_fn", Mutex, "cgroup_mutex"},
	{"cgroup_bpf_release", Mutex, "cgroup_mutex"},
	{"blkcg_css_alloc", Mutex, "blkcg_pol_mutex"},
	{"blkcg_css_free", Mutex, "blkcg_pol_mutex"},
	{"cgroup1_pidlist_destroy_all", Mutex, "pidlist_mutex of a cgroup"},
	{"__flush_workqueue", Mutex, "a work queue"},
	{"cgroup1_release_agent", Mutex, "cgroup_mutex"},
	{"cgroup_show_path", Spinlock, "css_set_lock"},
	{"cgroup_attach_lock", PercpuRWSem, "cgroup_threadgroup_rwsem"},
	{"cgroup_procs_write_start", PercpuRWSem, "cgroup_threadgroup_rwsem"},
	{"cgroup_update_dfl_csses", PercpuRWSem, "cgroup_threadgroup_rwsem"},
	{"cgroup_can_fork", PercpuRWSem, "cgroup_threadgroup_rwsem"},
	{"cgroup_css_set_fork", PercpuRWSem, "cgroup_threadgroup_rwsem"},
	{"exit_signals", PercpuRWSem, "cgroup_threadgroup_rwsem"},
	{"begin_new_exec", PercpuRWSem, "cgroup_threadgroup_rwsem"},
	{"de_thread", PercpuRWSem, "cgroup_threadgroup_rwsem"},
	{"cgroup_exit", Spinlock, "css_set_lock"},
	{"cgroup_release", Spinlock, "css_set_lock"},
	{"cgroup_post_fork", Spinlock, "css_set_lock"},
	{"cgroup_migrate_execute", Spinlock, "css_set_lock"},
	{"cgroup_file_notify", Spinlock, "cgroup_file_kn_lock"},
	{"cpuset_css_online", Mutex, "cpuset_mutex"},
	{"cpuset_can_attach", Mutex, "cpuset_mutex"},
	{"cpuset_attach", Mutex, "cpuset_mutex"},
	{"cpuset_write_resmask", Mutex, "cpuset_mutex"},
	{"freezer_css_online", Mutex, "freezer_mutex"},
	{"freezer_attach", Mutex, "freezer_mutex"},
	{"freezer_css_offline", Mutex, "freezer_mutex"},
	{"sched_online_group", Spinlock, "task_group_lock"},
	{"sched_release_group", Spinlock, "task_group_lock"},
	{"mem_cgroup_css_alloc", Mutex, "memcg_idr"},
	{"alloc_shrinker_info", Mutex, "shrinker_mutex"},
	{"reparent_shrinker_deferred", Mutex, "shrinker_mutex"},
	{"devcgroup_online", Mutex, "devcgroup_mutex"},
	{"devcgroup_access_write", Mutex, "devcgroup_mutex"},
	{"pcpu_alloc", Mutex, "pcpu_alloc_mutex"},
	{"pcpu_alloc_noprof", Mutex, "pcpu_alloc_mutex"},
	{"wb_shutdown", Mutex, "bdi_lock"},
	{"kernfs_add_one", RWSem, "kernfs_rwsem"},
	{"kernfs_activate", RWSem, "kernfs_rwsem"},
	{"kernfs_remove", RWSem, "kernfs_rwsem"},
	{"kernfs_remove_by_name_ns", RWSem, "kernfs_rwsem"},
	{"kernfs_remove_self", RWSem, "kernfs_rwsem"},
	{"kernfs_iop_lookup", RWSem, "kernfs_rwsem"},
	{"kernfs_dop_revalidate", RWSem, "kernfs_rwsem"},
	{"kernfs_iop_permission", RWSem, "kernfs_iattr_rwsem"},
	{"kernfs_iop_getattr", RWSem, "kernfs_iattr_rwsem"},
	{"kernfs_fop_readdir", RWSem, "kernfs_rwsem"},
	{"kernfs_drain", RWSem, "kernfs_rwsem"},
	// fs/namei.c, namespace.c
	{"filename_create", RWSem, "i_rwsem of a directory"},
	{"do_mkdirat", RWSem, "i_rwsem of a directory"},
	{"do_rmdir", RWSem, "i_rwsem of a directory"},
	{"do_unlinkat", RWSem, "i_rwsem of a directory"},
	{"lookup_slow", RWSem, "i_rwsem of a directory"},
	{"walk_component", RWSem, "i_rwsem of a directory"},
	{"open_last_lookups", RWSem, "i_rwsem of a directory"},
	{"path_openat", RWSem, "i_rwsem of a directory"},
	{"iterate_dir", RWSem, "i_rwsem of a directory"},
	{"vfs_rmdir", RWSem, "i_rwsem of a directory"},
	{"start_dirop", RWSem, "i_rwsem of a directory"},
	{"__start_dirop", RWSem, "i_rwsem of a directory"},
	{"__start_removing", RWSem, "i_rwsem of a directory"},
	{"lock_rename", RWSem, "i_rwsem of a directory"},
	{"lock_rename", Mutex, "s_vfs_rename_mutex of a file system"},
	{"namespace_lock", RWSem, "namespace_sem"},
	{"do_lock_mount", RWSem, "namespace_sem"},
	{"lock_mount", RWSem, "namespace_sem"},
	{"copy_mnt_ns", RWSem, "namespace_sem"},
	{"put_mnt_ns", RWSem, "namespace_sem"},
	{"do_umount", RWSem, "namespace_sem"},
	{"path_umount", RWSem, "namespace_sem"},
	{"path_pivot_root", RWSem, "namespace_sem"},
	{"do_change_type", RWSem, "namespace_sem"},
	{"path_mount", RWSem, "namespace_sem"},
	{"do_move_mount", RWSem, "namespace_sem"},
	{"m_start", RWSem, "namespace_sem"},
	{"collect_mounts", RWSem, "namespace_sem"},
	{"drop_collected_paths", RWSem, "namespace_sem"},
	{"__do_sys_pivot_root", RWSem, "namespace_sem"},
	{"__x64_sys_pivot_root", RWSem, "namespace_sem"},
	{"sync_inodes_sb", RWSem, "wb_switch_rwsem of a device"},
	{"sync_inodes_sb", Mutex, "s_sync_lock of a file system"},
	{"super_lock", RWSem, "s_umount of a file system"},
	{"grab_super", RWSem, "s_umount of a file system"},
	{"deactivate_super", RWSem, "s_umount of a file system"},
	{"alloc_super", RWSem, "s_umount of a file system"},
	{"prealloc_shrinker", RWSem, "shrinker_rwsem"},
	{"register_shrinker_prepared", RWSem, "shrinker_rwsem"},
	{"unregister_shrinker", RWSem, "shrinker_rwsem"},
	{"shrinker_alloc", Mutex, "shrinker_mutex"},
	{"shrinker_register", Mutex, "shrinker_mutex"},
	{"shrinker_free", Mutex, "shrinker_mutex"},
	// net/core
	{"rtnl_lock", Mutex, "rtnl_mutex"},
	{"rtnl_lock_killable", Mutex, "rtnl_mutex"},
	{"rtnl_net_lock", Mutex, "rtnl_mutex"},
	{"rtnl_nets_lock", Mutex, "rtnl_mutex"},
	{"rtnetlink_rcv_msg", Mutex, "rtnl_mutex"},
	{"rtnl_newlink", Mutex, "rtnl_mutex"},
	{"rtnl_setlink", Mutex, "rtnl_mutex"},
	{"rtnl_dellink", Mutex, "rtnl_mutex"},
	{"rtnl_dumpit", Mutex, "rtnl_mutex"},
	{"addrconf_dad_work", Mutex, "rtnl_mutex"},
	{"addrconf_verify_work", Mutex, "rtnl_mutex"},
	{"linkwatch_event", Mutex, "rtnl_mutex"},
	{"dev_ioctl", Mutex, "rtnl_mutex"},
	{"devinet_ioctl", Mutex, "rtnl_mutex"},
	{"inet6_rtm_newaddr", Mutex, "rtnl_mutex"},
	{"inet_rtm_newaddr", Mutex, "rtnl_mutex"},
	{"inet6_rtm_newroute", Mutex, "rtnl_mutex"},
	{"inet_rtm_newroute", Mutex, "rtnl_mutex"},
	{"cleanup_net", Mutex, "rtnl_mutex"},
	{"register_netdev", Mutex, "rtnl_mutex"},
	{"unregister_netdev", Mutex, "rtnl_mutex"},
	{"netdev_run_todo", Mutex, "rtnl_mutex"},
	{"default_device_exit_batch", Mutex, "rtnl_mutex"},
	{"default_device_exit_net", Mutex, "rtnl_mutex"},
	{"ops_undo_list", Mutex, "rtnl_mutex"},
	{"loopback_net_init", Mutex, "rtnl_mutex"},
	{"fib_net_exit_batch", Mutex, "rtnl_mutex"},
	{"fib_net_exit", Mutex, "rtnl_mutex"},
	{"ip6_route_net_exit_late", Mutex, "rtnl_mutex"},
	{"copy_net_ns", RWSem, "pernet_ops_rwsem"},
	{"cleanup_net", RWSem, "pernet_ops_rwsem"},
	{"register_netdevice_notifier", RWSem, "pernet_ops_rwsem"},
	{"unregister_netdevice_notifier", RWSem, "pernet_ops_rwsem"},
	{"rtnl_link_unregister", RWSem, "pernet_ops_rwsem"},
	{"setup_net", RWSem, "net_rwsem"},
	{"register_nexthop_notifier", Mutex, "rtnl_mutex"},
	{"inet_rtm_deladdr", Mutex, "rtnl_mutex"},
	{"rtnl_getlink", Mutex, "rtnl_mutex"},
	{"peernet2id_alloc", Spinlock, "nsid_lock"},
	{"genl_rcv", RWSem, "cb_lock"},
	{"genl_rcv_msg", Mutex, "genl_mutex"},
	{"proc_register", RWLock, "proc_subdir_lock"},
	{"remove_proc_subtree", RWLock, "proc_subdir_lock"},
	{"remove_proc_entry", RWLock, "proc_subdir_lock"},
	{"nf_register_net_hook", Mutex, "nf_hook_mutex"},
	{"__nf_register_net_hook", Mutex, "nf_hook_mutex"},
	{"__nf_unregister_net_hook", Mutex, "nf_hook_mutex"},
	{"insert_header", Spinlock, "sysctl_lock"},
	{"__register_sysctl_table", Spinlock, "sysctl_lock"},
	{"unregister_sysctl_table", Spinlock, "sysctl_lock"},
	{"drop_sysctl_table", Spinlock, "sysctl_lock"},
	// kernel/fork.c, exit.c, pid.c
	{"alloc_pid", Spinlock, "pidmap_lock"},
	{"free_pid", Spinlock, "pidmap_lock"},
	{"free_pids", Spinlock, "pidmap_lock"},
	{"copy_process", RWLock, "tasklist_lock"},
	{"release_task", RWLock, "tasklist_lock"},
	{"exit_notify", RWLock, "tasklist_lock"},
	{"do_exit", RWLock, "tasklist_lock"},
	{"do_wait", RWLock, "tasklist_lock"},
	{"__do_wait", RWLock, "tasklist_lock"},
	{"ksys_setsid", RWLock, "tasklist_lock"},
	{"ksys_unshare", RWLock, "tasklist_lock"},
	{"cpus_read_lock", PercpuRWSem, "cpu_hotplug_lock"},
	{"static_key_slow_inc", PercpuRWSem, "cpu_hotplug_lock"},
	{"uevent_net_init", Mutex, "uevent_sock_mutex"},
	{"uevent_net_exit", Mutex, "uevent_sock_mutex"},
	{"kobject_uevent_env", Mutex, "uevent_sock_mutex"},
	// kernel/sched, mm/percpu.c
	{"task_rq_lock", Spinlock, "a run queue"},
	{"__task_rq_lock", Spinlock, "a run queue"},
	{"raw_spin_rq_lock_nested", Spinlock, "a run queue"},
	{"sched_balance_rq", Spinlock, "a run queue"},
	{"exit_to_user_mode_loop", Spinlock, "a run queue"},
	{"irqentry_exit_to_user_mode", Spinlock, "a run queue"},
	{"free_percpu", Spinlock, "pcpu_lock"},
	{"pcpu_alloc_noprof", Spinlock, "pcpu_lock"},
	{"__proc_create", RWLock, "proc_subdir_lock"},
	// kernel/rcu: the queue before an expedited grace period
	{"exp_funnel_lock", Mutex, "rcu_state.exp_mutex"},
	{"synchronize_rcu_expedited", Mutex, "rcu_state.exp_mutex"},
	{"rcu_barrier", Mutex, "rcu_state.barrier_mutex"},
	// mm
	{"shrink_slab", RWSem, "shrinker_rwsem"},
	{"vm_mmap_pgoff", RWSem, "mmap_lock"},
	{"__vm_munmap", RWSem, "mmap_lock"},
	{"do_user_addr_fault", RWSem, "mmap_lock"},
	{"lock_mm_and_find_vma", RWSem, "mmap_lock"},
	{"dup_mmap", RWSem, "mmap_lock"},
	{"exit_mmap", RWSem, "mmap_lock"},
	{"unlink_file_vma_batch_process", RWSem, "i_mmap_rwsem of a file"},
	{"unlink_file_vma_batch_final", RWSem, "i_mmap_rwsem of a file"},
	{"vma_prepare", RWSem, "i_mmap_rwsem of a file"},
	{"vma_link", RWSem, "i_mmap_rwsem of a file"},
	{"vma_link_file", RWSem, "i_mmap_rwsem of a file"},
	{"unlink_anon_vmas", RWSem, "an anon_vma"},
	{"anon_vma_fork", RWSem, "an anon_vma"},
	{"anon_vma_clone", RWSem, "an anon_vma"},
	{"pipe_write", Mutex, "a pipe"},
	{"pipe_read", Mutex, "a pipe"},
	{"anon_pipe_write", Mutex, "a pipe"},
	{"anon_pipe_read", Mutex, "a pipe"},
	{"futex_wait_setup", Spinlock, "a futex's bucket"},
	{"futex_wake", Spinlock, "a futex's bucket"},
	{"vfs_read", Mutex, "a file's position"},
	// What is slept for, outermost of the sleep's own functions.
	{"synchronize_rcu", Sleep, "RCU grace period"},
	{"synchronize_rcu_normal", Sleep, "RCU grace period"},
	{"synchronize_rcu_expedited", Sleep, "RCU expedited grace period"},
	{"synchronize_net", Sleep, "RCU grace period (network)"},
	{"rcu_barrier", Sleep, "RCU barrier"},
	{"synchronize_srcu", Sleep, "SRCU grace period"},
	{"synchronize_srcu_expedited", Sleep, "SRCU grace period"},
	{"__synchronize_srcu", Sleep, "SRCU grace period"},
	{"cgroup_procs_write_start", Sleep, "readers of cgroup_threadgroup_rwsem"},
	{"cgroup_attach_lock", Sleep, "readers of cgroup_threadgroup_rwsem"},
	{"__flush_work", Sleep, "work queue"},
	{"flush_work", Sleep, "work queue"},
	{"__flush_workqueue", Sleep, "work queue"},
	{"flush_workqueue", Sleep, "work queue"},
	{"io_schedule", Sleep, "I/O"},
	{"io_schedule_timeout", Sleep, "I/O"},
	{"wb_wait_for_completion", Sleep, "write-back of a file system"},
	{"kernel_clone", Sleep, VFork},
	{"wait_for_vfork_done", Sleep, VFork},
	{"zap_pid_ns_processes", Sleep, "end of a PID namespace"},
	{"do_coredump", Sleep, "core dump"},
	{"kthread_stop", Sleep, "end of a kernel thread"},
	{"msleep", Sleep, "timer"},
	{"usleep_range_state", Sleep, "timer"},
}

// ownCode are the beginnings of the names of functions that are the lock's or
// the scheduler's own: they say how is waited, not for what.
var ownCode = []string{
	"__mutex_", "mutex_", "__ww_mutex", "ww_mutex", "osq_",
	"down_read", "down_write", "__down_read", "__down_write", "__down_", "down_killable", "down_interruptible", "down_timeout", "rwsem_",
	"percpu_rwsem_wait", "__percpu_down_read", "percpu_down_", "percpu_rwsem",
	"queued_spin_lock_slowpath", "native_queued_spin_lock_slowpath", "__pv_queued_spin_lock_slowpath", "pv_queued_spin",
	"_raw_", "queued_read_lock_slowpath", "queued_write_lock_slowpath", "do_raw_", "rt_mutex_", "__rt_mutex", "rtlock_", "rt_read_lock", "rt_write_lock",
	"__schedule", "schedule", "preempt_schedule", "__cond_resched", "__wait_for_common", "wait_for_completion", "__wait_rcu_gp", "__wait_event",
	"synchronize_", "__synchronize_", "rcu_sync_", "rcu_barrier", "rcu_exp_wait",
}

// probeDepth is how many frames a probe adds at most.
const probeDepth = 4

// WithoutProbe drops the innermost frames that the probe itself has made: those
// up to the tracepoint's call of its program.
func WithoutProbe(frames []string) []string {
	for i := min(probeDepth, len(frames)) - 1; i >= 0; i-- {
		if strings.HasPrefix(frames[i], "bpf_trace_run") || strings.HasPrefix(frames[i], "__traceiter_") {
			return frames[i+1:]
		}
	}
	return frames
}

// isOwnCode reports whether a function is the lock's or the scheduler's own.
func isOwnCode(name string) bool {
	return slices.ContainsFunc(ownCode, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

// plain cuts off what the compiler appends: ".constprop.0", ".isra.0".
func plain(function string) string {
	name, _, _ := strings.Cut(function, ".")
	return name
}

// byFunction indexes clues.
var byFunction = func() map[clue]string {
	m := map[clue]string{}
	for _, c := range clues {
		m[clue{c.function, c.kind, ""}] = c.lock
	}
	return m
}()

// taker is the innermost function that is not the lock's own; "" for none.
func taker(frames []string) string {
	for _, f := range frames {
		if name := plain(f); !isOwnCode(name) {
			return name
		}
	}
	return ""
}

// mostFar is how far from the lock's own code a clue may stand: functions
// between are inlined by one compiler and not by another.
const mostFar = 4

// spinFar is the same for locks that spin, which are taken and released within
// a function.
const spinFar = 1

// infer names what is waited for by the code that waits; "" where no clue fits.
// For sleep the whole stack counts: what is slept in says little, and who called
// it much.
func infer(kind Kind, frames []string) string {
	far, most := 0, mostFar
	switch kind {
	case Spinlock, RWLock:
		most = spinFar
	case Sleep:
		most = len(frames)
	}
	for _, f := range frames {
		name := plain(f)
		if lock := byFunction[clue{name, kind, ""}]; lock != "" {
			return lock
		}
		if isOwnCode(name) {
			continue
		}
		if far++; far == most {
			return ""
		}
	}
	return ""
}
