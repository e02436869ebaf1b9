/* file-copy: read a buffer from one file, write it to another, start again at
 * the end. The files fit into the page cache, so this measures the path of
 * read and write through the kernel, not a disk.
 *
 * Before the window the source is written, made durable and read once. (UnixBench
 * writes and reads for two seconds each and calls sync for the whole machine,
 * which would disturb the neighbours of a container.) All copies of a crew use
 * one pair of files, as in UnixBench 5.1.3; --own gives each its own. */
#define _GNU_SOURCE
#include "unix.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST = 8192 }; /* UnixBench's limit for a buffer */

static char *buffer;

void copy_plan(const struct options *o)
{
	if (o->buffer < 256 || o->buffer > MOST || o->blocks * 1024 % o->buffer != 0)
		die(EXIT_USAGE, "--buffer %ld: must be from 256 to %d and divide the file's %ld KiB", o->buffer, MOST,
		    o->blocks);
}

/* The byte at an offset of the source, so that a misplaced block shows. */
static char content(long offset) { return (char)(offset ^ (offset >> 8) ^ (offset >> 16) * 31); }

static int open_file(const char *stem, const struct run *r)
{
	char name[64];
	snprintf(name, sizeof name, "%s-%d", stem, r->opt->own ? r->out.copy : 0);
	int fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0)
		die_errno("file-copy: %s cannot be opened", name);
	return fd;
}

static void fill_source(int fd, const struct options *o)
{
	for (long at = 0; at < o->blocks * 1024; at += o->buffer) {
		for (long i = 0; i < o->buffer; i++)
			buffer[i] = content(at + i);
		if (write(fd, buffer, (size_t)o->buffer) != o->buffer)
			die_errno("file-copy: source cannot be written (%ld KiB are needed)", 2 * o->blocks);
	}
	if (fsync(fd) != 0)
		die_errno("file-copy: source cannot be made durable");
}

/* Reads size bytes from the start and compares them with the source's content. */
static void verify(int fd, long size, const char *which)
{
	if (lseek(fd, 0, SEEK_SET) != 0)
		die_errno("file-copy: %s cannot be rewound", which);
	for (long at = 0, n; at < size; at += n) {
		if ((n = read(fd, buffer, MOST)) <= 0)
			die_errno("file-copy: %s ends after %ld of %ld bytes", which, at, size);
		for (long i = 0; i < n && at + i < size; i++)
			if (buffer[i] != content(at + i))
				die(EXIT_BROKEN, "file-copy: %s holds a wrong byte at %ld", which, at + i);
	}
	if (lseek(fd, 0, SEEK_SET) != 0)
		die_errno("file-copy: %s cannot be rewound", which);
}

void copy_setup(struct run *r)
{
	buffer = pages(MOST);
	r->fd[0] = open_file("source", r);
	r->fd[1] = open_file("target", r);
	fill_source(r->fd[0], r->opt);
	verify(r->fd[0], r->opt->blocks * 1024, "the source");
}

static void rewind_both(struct run *r)
{
	if (lseek(r->fd[0], 0, SEEK_SET) != 0 || lseek(r->fd[1], 0, SEEK_SET) != 0)
		die_errno("file-copy: files cannot be rewound");
}

void copy_loop(struct run *r, uint64_t n)
{
	const size_t size = (size_t)r->opt->buffer;
	while (n > 0) {
		ssize_t got = read(r->fd[0], buffer, size);
		if (got == 0) {
			rewind_both(r);
			continue;
		}
		if (got != (ssize_t)size)
			die_errno("file-copy: read gave %zd of %zu bytes", got, size);
		if (write(r->fd[1], buffer, size) != (ssize_t)size)
			die_errno("file-copy: write of %zu bytes failed", size);
		n--;
	}
}

void copy_finish(struct run *r)
{
	uint64_t copied = r->out.count * (uint64_t)r->opt->buffer, size = (uint64_t)r->opt->blocks * 1024;
	verify(r->fd[1], (long)(copied < size ? copied : size), "the copy");
}

/* KB are 1024 bytes. */
double copy_value(struct run *r, double seconds)
{
	return r->out.within * (double)r->opt->buffer / 1024 / seconds;
}
