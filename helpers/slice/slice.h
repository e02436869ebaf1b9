/* slice: works in short turns, so that several targets can be measured in
 * alternation within one block.
 *
 *     slice [--copies=N] [--shared] [DIR]
 *                     take turns; files are made in a directory below DIR (/tmp)
 *     slice list      print the names, one a line
 *
 * A turn is one line on standard input, "NAME MICROSECONDS". The program works
 * on NAME for about that long and answers with one line on standard output:
 *
 *     COUNT BEGIN END CPU [bytes=N] [direct=no]
 *
 * COUNT is the number of iterations. BEGIN and END are this program's
 * CLOCK_MONOTONIC and CPU is the CPU time of the work, all in nanoseconds. Where a
 * work is taken back between its batches, as groups are removed that mkdir has made,
 * BEGIN is later by the time that this took.
 * Iterations before BEGIN, for 0.2 ms and of one batch at least, are not counted.
 * bytes is the payload that was read or written, with theirs; direct=no
 * says that the file system refused O_DIRECT. A turn that cannot be worked answers
 * "error: REASON". The end of the input ends the program with 0.
 *
 * With --copies=N, N processes work on each turn at once. COUNT is then the sum of
 * theirs, and END - BEGIN is such that COUNT by it is the sum of their rates. The
 * copies of a Unix test have files of their own, or the same ones with --shared, as
 * in helpers/unix.
 *
 * Each NAME has worker processes of its own, forked at its first turn, so that
 * no workload's memory or descriptors weigh on another's forks and lookups.
 * Between turns all processes block in read(2) and use no CPU.
 */
#ifndef TARE_SLICE_H
#define TARE_SLICE_H

#include <stdint.h>
#include <sys/types.h>

/* One workload. Every loop checks the results of its own work and ends the
 * process with die() where one is wrong: a count is proof of the work. */
struct work {
	const char *name;
	void (*setup)(const struct work *); /* once, in the worker, before its first turn */
	void (*loop)(uint64_t n);           /* n iterations */
	uint64_t bytes;                     /* payload bytes of one iteration; 0 for none */
	void (*undo)(uint64_t n);           /* takes back n iterations, outside of the time; NULL for nothing */
	const char *test;                   /* of the Unix tests: its name there */
	long buffer, blocks;                /* of file-copy: bytes a piece, KiB a file; of namespaces: the flag of clone */
};

extern const struct work works[]; /* ends with a NULL name */
extern const char *self;          /* absolute path of this program */
extern int own_files;             /* 1: each copy has files of its own */

/* What the answer's fields need beyond the count; a setup fills them in. */
extern pid_t helper;       /* a process whose CPU time belongs to the work, 0 for none */
extern const char *remark; /* appended to every answer, "" for nothing */

/* worker.c */
extern int copy; /* which of the copies this worker is, from 0 */
void work_turns(const struct work *, int from, int to);

/* unixtests.c: the loops of helpers/unix */
void unix_setup(const struct work *);
void unix_loop(uint64_t n);

/* calls.c */
void getpid_loop(uint64_t n);
void clock_loop(uint64_t n);
void clock_call_loop(uint64_t n);
void random_loop(uint64_t n);
void name_loop(uint64_t n);
void exec_loop(uint64_t n);
int exec_step(int argc, char **argv);

/* memory.c */
void bandwidth_setup(const struct work *);
void bandwidth_loop(uint64_t n);
void latency_setup(const struct work *);
void latency_loop(uint64_t n);
void fault_setup(const struct work *);
void fault_loop(uint64_t n);
void huge_setup(const struct work *);
void huge_loop(uint64_t n);
void map_loop(uint64_t n);

/* files.c */
void read_setup(const struct work *);
void read_direct_setup(const struct work *);
void read_loop(uint64_t n);
void write_setup(const struct work *);
void write_loop(uint64_t n);
void write_sync_loop(uint64_t n);

/* wakeups.c */
void futex_setup(const struct work *);
void futex_loop(uint64_t n);
void epoll_setup(const struct work *);
void epoll_loop(uint64_t n);
void timer_setup(const struct work *);
void timer_loop(uint64_t n);
void signal_setup(const struct work *);
void signal_loop(uint64_t n);

/* sockets.c */
void stream_setup(const struct work *);
void stream_loop(uint64_t n);
void echo_setup(const struct work *);
void echo_loop(uint64_t n);
void connect_setup(const struct work *);
void connect_loop(uint64_t n);
void datagram_setup(const struct work *);
void datagram_loop(uint64_t n);
void unix_connect_setup(const struct work *);
void unix_connect_loop(uint64_t n);

/* isolation.c */
void cgroup_setup(const struct work *);
void cgroup_loop(uint64_t n);
void cgroup_undo(uint64_t n);
void join_setup(const struct work *);
void join_loop(uint64_t n);
void namespace_setup(const struct work *);
void namespace_loop(uint64_t n);
void links_setup(const struct work *);
void veth_loop(uint64_t n);
void veth_undo(uint64_t n);
void port_setup(const struct work *);
void port_loop(uint64_t n);
void tmpfs_setup(const struct work *);
void tmpfs_loop(uint64_t n);
void overlay_setup(const struct work *);
void overlay_loop(uint64_t n);
void start_setup(const struct work *);
void start_loop(uint64_t n);
void start_undo(uint64_t n);

enum { STREAM_PIECE = 64 << 10, FILE_PIECE = 4096, DATAGRAM = 1400 };

#endif
