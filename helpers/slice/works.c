/* The list of workloads. */
#define _GNU_SOURCE
#include "slice.h"

#include <sched.h>
#include <stddef.h>

#define UNIX(NAME, TEST) {.name = NAME, .setup = unix_setup, .loop = unix_loop, .test = TEST}
#define FILE_COPY(NAME, BUFFER, BLOCKS) {.name = NAME, .setup = unix_setup, .loop = unix_loop, .bytes = BUFFER, .test = "file-copy", .buffer = BUFFER, .blocks = BLOCKS}
#define NAMESPACE(NAME, FLAG) {.name = "namespace-" NAME, .setup = namespace_setup, .loop = namespace_loop, .buffer = FLAG}

const struct work works[] = {
	UNIX("dhrystone2", "dhrystone2"),
	UNIX("whetstone", "whetstone"),
	UNIX("syscall", "syscall"),
	UNIX("pipe-throughput", "pipe-throughput"),
	UNIX("pipe-context-switch", "pipe-context-switch"),
	UNIX("process-creation", "process-creation"),
	UNIX("shell-1", "shell-1"),
	FILE_COPY("file-copy-256", 256, 500),
	FILE_COPY("file-copy-1024", 1024, 2000),
	FILE_COPY("file-copy-4096", 4096, 8000),
	{.name = "execl", .loop = exec_loop},
	{.name = "getpid", .loop = getpid_loop},
	{.name = "clock", .loop = clock_loop},
	{.name = "clock-syscall", .loop = clock_call_loop},
	{.name = "getrandom", .loop = random_loop},
	{.name = "name-lookup", .loop = name_loop},
	{.name = "memory-bandwidth", .setup = bandwidth_setup, .loop = bandwidth_loop, .bytes = 1 << 20},
	{.name = "memory-latency", .setup = latency_setup, .loop = latency_loop},
	{.name = "page-fault", .setup = fault_setup, .loop = fault_loop},
	{.name = "page-fault-huge", .setup = huge_setup, .loop = huge_loop},
	{.name = "mmap", .loop = map_loop},
	{.name = "read-cached", .setup = read_setup, .loop = read_loop, .bytes = FILE_PIECE},
	{.name = "read-direct", .setup = read_direct_setup, .loop = read_loop, .bytes = FILE_PIECE},
	{.name = "write-cached", .setup = write_setup, .loop = write_loop, .bytes = FILE_PIECE},
	{.name = "write-fsync", .setup = write_setup, .loop = write_sync_loop, .bytes = FILE_PIECE},
	{.name = "futex", .setup = futex_setup, .loop = futex_loop},
	{.name = "epoll", .setup = epoll_setup, .loop = epoll_loop},
	{.name = "timer", .setup = timer_setup, .loop = timer_loop},
	{.name = "signal", .setup = signal_setup, .loop = signal_loop},
	{.name = "tcp-throughput", .setup = stream_setup, .loop = stream_loop, .bytes = STREAM_PIECE},
	{.name = "tcp-request", .setup = echo_setup, .loop = echo_loop},
	{.name = "tcp-connect", .setup = connect_setup, .loop = connect_loop},
	{.name = "udp-throughput", .setup = datagram_setup, .loop = datagram_loop, .bytes = DATAGRAM},
	{.name = "udp-request", .setup = echo_setup, .loop = echo_loop},
	{.name = "unix-throughput", .setup = stream_setup, .loop = stream_loop, .bytes = STREAM_PIECE},
	{.name = "unix-request", .setup = echo_setup, .loop = echo_loop},
	{.name = "unix-connect", .setup = unix_connect_setup, .loop = unix_connect_loop},
	{.name = "cgroup-mkdir", .setup = cgroup_setup, .loop = cgroup_loop, .undo = cgroup_undo},
	{.name = "cgroup-join", .setup = join_setup, .loop = join_loop},
	NAMESPACE("uts", CLONE_NEWUTS),
	NAMESPACE("ipc", CLONE_NEWIPC),
	NAMESPACE("pid", CLONE_NEWPID),
	NAMESPACE("mount", CLONE_NEWNS),
	NAMESPACE("net", CLONE_NEWNET),
	NAMESPACE("cgroup", CLONE_NEWCGROUP),
	NAMESPACE("user", CLONE_NEWUSER),
	{.name = "veth", .setup = links_setup, .loop = veth_loop, .undo = veth_undo},
	{.name = "bridge-port", .setup = port_setup, .loop = port_loop},
	{.name = "mount-tmpfs", .setup = tmpfs_setup, .loop = tmpfs_loop},
	{.name = "mount-overlay", .setup = overlay_setup, .loop = overlay_loop},
	{.name = "container-start", .setup = start_setup, .loop = start_loop, .undo = start_undo},
	{.name = NULL},
};
