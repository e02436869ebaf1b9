/* Files: random reads of 4 KiB, cached and past the page cache, and writes,
 * with and without waiting for the disk. The file is made, made durable and
 * read once before the first turn. */
#define _GNU_SOURCE
#include "slice.h"
#include "../unix/unix.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What is read from the page cache fits into a CPU's own cache, so that a read costs the
 * system call and the copy. From a larger file it costs mostly the memory where the
 * file's pages lie, which is another in each instance. */
enum { PIECES = 2048 /* 8 MiB */, CACHED_PIECES = 64 /* 256 KiB */ };

static int fd;
static uint32_t pieces = PIECES;
static unsigned char *piece; /* aligned for O_DIRECT */
static uint32_t state = 20061;

static uint32_t next_random(void)
{
	state = state * 1664525u + 1013904223u;
	return state >> 8;
}

/* Each piece begins with its own number, so that a wrong one shows. */
static void fill(uint32_t number)
{
	memset(piece, (int)(number & 0xff), FILE_PIECE);
	memcpy(piece, &number, sizeof number);
}

static void check(uint32_t number)
{
	uint32_t got;
	memcpy(&got, piece, sizeof got);
	if (got != number || piece[FILE_PIECE - 1] != (unsigned char)number)
		die(EXIT_BROKEN, "piece %u of the file holds %u", number, got);
}

static void make_file(const struct work *w)
{
	if ((errno = posix_memalign((void **)&piece, FILE_PIECE, FILE_PIECE)) != 0)
		die_errno("%s: no memory", w->name);
	fd = open(w->name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0)
		die_errno("%s: its file cannot be made", w->name);
	for (uint32_t i = 0; i < pieces; i++) {
		fill(i);
		if (pwrite(fd, piece, FILE_PIECE, (off_t)i * FILE_PIECE) != FILE_PIECE)
			die_errno("%s: its file cannot be written (%u KiB are needed)", w->name, pieces * (FILE_PIECE / 1024));
	}
	if (fsync(fd) != 0)
		die_errno("%s: its file cannot be made durable", w->name);
}

static void read_piece(uint32_t number)
{
	if (pread(fd, piece, FILE_PIECE, (off_t)number * FILE_PIECE) != FILE_PIECE)
		die_errno("piece %u of the file cannot be read", number);
	check(number);
}

void read_setup(const struct work *w)
{
	pieces = CACHED_PIECES;
	make_file(w);
	for (uint32_t i = 0; i < pieces; i++)
		read_piece(i);
}

/* Where the file system refuses O_DIRECT (tmpfs before 6.6, some of gVisor's) the
 * work is done cached, and the answers say so: nobody may compare it. */
void read_direct_setup(const struct work *w)
{
	make_file(w);
	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED); /* advice: O_DIRECT does not depend on it */
	int flags = fcntl(fd, F_GETFL);
	if (flags < 0)
		die_errno("%s: the file's flags cannot be read", w->name);
	if (fcntl(fd, F_SETFL, flags | O_DIRECT) != 0)
		remark = " direct=no";
	else if (pread(fd, piece, FILE_PIECE, 0) != FILE_PIECE) {
		if (errno != EINVAL)
			die_errno("%s: the file cannot be read directly", w->name);
		if (fcntl(fd, F_SETFL, flags) != 0)
			die_errno("%s: the file's flags cannot be set", w->name);
		remark = " direct=no";
	}
}

void read_loop(uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		read_piece(next_random() % pieces);
}

void write_setup(const struct work *w) { make_file(w); }

static void write_piece(void)
{
	uint32_t number = next_random() % pieces;
	fill(number);
	if (pwrite(fd, piece, FILE_PIECE, (off_t)number * FILE_PIECE) != FILE_PIECE)
		die_errno("piece %u of the file cannot be written", number);
}

void write_loop(uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		write_piece();
}

void write_sync_loop(uint64_t n)
{
	for (uint64_t i = 0; i < n; i++) {
		write_piece();
		if (fsync(fd) != 0)
			die_errno("fsync failed");
	}
}
