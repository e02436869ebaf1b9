/* The servers that the open-loop client asks: what is said, and what must come back.
 * Each answer is compared byte by byte with what the request asked for. */
#define _GNU_SOURCE
#include "net.h"
#include "open.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

enum { KEYS = 1000 }; /* different things that are asked for, in turn */

static char *value; /* what every key holds: printable, and not of one byte alone */
static size_t bytes;
static int writing;

static unsigned key_of(uint64_t n) { return (n * 7919) % KEYS; }

static _Noreturn void wrong(const char *in, size_t len) {
	fprintf(stderr, "net: another answer than was asked for, of %zu bytes: ", len);
	for (size_t i = 0; i < len && i < 200; i++)
		fputc(in[i] < ' ' || in[i] > '~' ? ' ' : in[i], stderr);
	fputc('\n', stderr);
	exit(1);
}

/* number_after is the decimal number behind a text in an answer. */
static uint64_t number_after(const char *in, size_t len, const char *text) {
	const char *at = memmem(in, len, text, strlen(text));
	uint64_t n = 0;

	if (!at)
		wrong(in, len);
	for (at += strlen(text); at < in + len && *at >= '0' && *at <= '9'; at++)
		n = n * 10 + (*at - '0');
	return n;
}

/* ---- redis: RESP ---- */

static size_t redis_set(char *out, uint64_t n) {
	size_t head = sprintf(out, "*3\r\n$3\r\nSET\r\n$8\r\ntare%04u\r\n$%zu\r\n", key_of(n), bytes);

	memcpy(out + head, value, bytes);
	memcpy(out + head + bytes, "\r\n", 2);
	return head + bytes + 2;
}

static size_t redis_request(char *out, uint64_t n) {
	if (writing)
		return redis_set(out, n);
	return sprintf(out, "*2\r\n$3\r\nGET\r\n$8\r\ntare%04u\r\n", key_of(n));
}

static size_t redis_whole(const char *in, size_t have) {
	const char *end = memmem(in, have, "\r\n", 2);
	size_t head = end ? (size_t)(end - in) + 2 : 0;

	if (!head || (in[0] != '$' && in[0] != '+' && in[0] != '-')) {
		if (have && in[0] != '$' && in[0] != '+' && in[0] != '-')
			wrong(in, have);
		return 0;
	}
	if (in[0] != '$' || in[1] == '-')
		return head;
	size_t all = head + strtoul(in + 1, NULL, 10) + 2;
	return have >= all ? all : 0;
}

static int redis_right(const char *in, size_t len) {
	if (in[0] == '-')
		return 0;
	if (writing ? len != 5 || memcmp(in, "+OK\r\n", 5) != 0
		    : in[0] != '$' || len < bytes + 2 || strtoul(in + 1, NULL, 10) != bytes || memcmp(in + len - bytes - 2, value, bytes) != 0)
		wrong(in, len);
	return 1;
}

static void redis_prepare(void) {
	char *out = malloc(bytes + MOST_OUT), in[64];

	if (!out)
		die("memory");
	for (unsigned n = 0; n < KEYS; n++)
		if (converse(out, redis_set(out, n), in, sizeof in) != 5 || memcmp(in, "+OK\r\n", 5) != 0)
			wrong(in, 5);
	free(out);
}

static uint64_t redis_count(void) {
	static const char ask[] = "*2\r\n$4\r\nINFO\r\n$12\r\ncommandstats\r\n";
	char in[16384];
	size_t len = converse(ask, sizeof ask - 1, in, sizeof in);
	const char *of = writing ? "cmdstat_set:calls=" : "cmdstat_get:calls=";

	return memmem(in, len, of, strlen(of)) ? number_after(in, len, of) : 0; /* none so far */
}

/* ---- HTTP/1.1 ---- */

static size_t http_request(char *out, uint64_t n) {
	(void)n;
	return sprintf(out, "GET /tare HTTP/1.1\r\nHost: tare\r\n\r\n");
}

static size_t http_head(const char *in, size_t have) {
	const char *end = memmem(in, have, "\r\n\r\n", 4);

	return end ? (size_t)(end - in) + 4 : 0;
}

static size_t http_whole(const char *in, size_t have) {
	size_t head = http_head(in, have);

	if (have >= 5 && memcmp(in, "HTTP/", 5) != 0)
		wrong(in, have);
	for (const char *line = in; head && line < in + head - 2;) {
		line = (const char *)memmem(line, in + head - line, "\r\n", 2) + 2;
		if (strncasecmp(line, "content-length:", 15) != 0)
			continue;
		size_t all = head + strtoul(line + 15, NULL, 10);
		return have >= all ? all : 0;
	}
	if (head)
		wrong(in, have); /* nothing that is asked for comes without a length */
	return 0;
}

static int http_right(const char *in, size_t len) {
	size_t head = http_head(in, len);

	if (len < 12 || memcmp(in + 8, " 200", 4) != 0)
		return 0;
	if (len - head != bytes || memcmp(in + head, value, bytes) != 0)
		wrong(in, len);
	return 1;
}

/* http_count reads nginx's stub_status: "... requests\n ACCEPTED HANDLED REQUESTS". */
static uint64_t http_count(void) {
	static const char ask[] = "GET /tare-status HTTP/1.1\r\nHost: tare\r\n\r\n", title[] = "requests\n ";
	char in[4096];
	size_t len = converse(ask, sizeof ask - 1, in, sizeof in - 1);
	uint64_t requests;

	in[len] = 0;
	const char *at = strstr(in, title);
	if (!at || sscanf(at + sizeof title - 1, "%*u %*u %" SCNu64, &requests) != 1)
		wrong(in, len);
	return requests;
}

/* ---- PostgreSQL: the protocol of version 3, simple queries ---- */

static void put32(char *out, uint32_t n) {
	for (int i = 0; i < 4; i++)
		out[i] = n >> (24 - 8 * i);
}

static uint32_t get32(const char *in) {
	uint32_t n = 0;

	for (int i = 0; i < 4; i++)
		n = n << 8 | (unsigned char)in[i];
	return n;
}

static size_t postgres_hello(char *out) {
	static const char words[] = "user\0tare\0database\0postgres\0";

	put32(out, 8 + sizeof words);
	put32(out + 4, 3 << 16);
	memcpy(out + 8, words, sizeof words);
	return 8 + sizeof words;
}

static size_t postgres_query(char *out, size_t len) { /* the text stands at out + 5 */
	out[0] = 'Q';
	put32(out + 1, 4 + len + 1);
	out[5 + len] = 0;
	return 5 + len + 1;
}

static size_t postgres_request(char *out, uint64_t n) {
	if (writing)
		return postgres_query(out, sprintf(out + 5, "UPDATE tare SET n = n + 1 WHERE id = %u", key_of(n)));
	return postgres_query(out, sprintf(out + 5, "SELECT v FROM tare WHERE id = %u", key_of(n)));
}

static size_t postgres_whole(const char *in, size_t have) {
	for (size_t at = 0; have - at >= 5;) {
		uint32_t len = get32(in + at + 1);
		if (len < 4 || len > 1 << 30)
			wrong(in, have);
		if (have - at < 1 + (size_t)len)
			return 0;
		if (in[at] == 'R' && get32(in + at + 5) != 0) {
			errno = EACCES;
			die("the server wants a password");
		}
		if (in[at] == 'Z')
			return at + 1 + len;
		at += 1 + len;
	}
	return 0;
}

/* message finds the first message of a type in an answer; NULL where there is none. */
static const char *message(const char *in, size_t len, char type) {
	for (size_t at = 0; at < len; at += 1 + get32(in + at + 1))
		if (in[at] == type)
			return in + at;
	return NULL;
}

static int postgres_right(const char *in, size_t len) {
	const char *row = message(in, len, 'D'), *done = message(in, len, 'C');

	if (message(in, len, 'E'))
		return 0;
	if (writing ? !done || strcmp(done + 5, "UPDATE 1") != 0
		    : !row || get32(row + 1) != 4 + 2 + 4 + bytes || get32(row + 7) != bytes || memcmp(row + 11, value, bytes) != 0)
		wrong(in, len);
	return 1;
}

/* postgres_ask runs a query that must succeed. */
static size_t postgres_ask(char *out, size_t len, char *in, size_t cap) {
	size_t got = converse(out, postgres_query(out, len), in, cap);

	if (message(in, got, 'E'))
		wrong(in, got);
	return got;
}

/* postgres_await waits until the server takes connections: it listens before it does,
 * and refuses those that come meanwhile (57P03, cannot_connect_now). */
static void postgres_await(char *in, size_t cap) {
	static const char not_yet[] = "C57P03";
	struct timespec pause = { 0, 10000000 };
	char out[MOST_OUT];

	for (int tries = 0; tries < 6000; tries++, nanosleep(&pause, NULL)) {
		size_t have = 0;
		ssize_t n;
		int fd = connect_to(&asked, SOCK_STREAM), ready = 0;
		write_all(fd, out, postgres_hello(out));
		while (have < cap && (n = read(fd, in + have, cap - have)) > 0) {
			have += n;
			if (in[0] != 'E' && (ready = postgres_whole(in, have) > 0))
				break;
		}
		close_at_once(fd);
		if (ready)
			return;
		if (!memmem(in, have, not_yet, sizeof not_yet - 1))
			wrong(in, have);
	}
	errno = ETIMEDOUT;
	die("the server takes no connections");
}

static void postgres_prepare(void) {
	char *out = malloc(bytes + MOST_OUT), in[8192];

	if (!out)
		die("memory");
	postgres_await(in, sizeof in);
	size_t len = sprintf(out + 5, "CREATE TABLE tare (id int PRIMARY KEY, n bigint NOT NULL, v text NOT NULL); "
				      "INSERT INTO tare SELECT id, 0, '");
	memcpy(out + 5 + len, value, bytes);
	len += bytes + sprintf(out + 5 + len + bytes, "' FROM generate_series(0, %d) id", KEYS - 1);
	postgres_ask(out, len, in, sizeof in);
	postgres_ask(out, sprintf(out + 5, "VACUUM ANALYZE tare"), in, sizeof in);
	free(out);
}

/* postgres_count is how often the table's key was looked for: each request does so once. */
static uint64_t postgres_count(void) {
	char out[MOST_OUT], in[8192];
	size_t len = postgres_ask(out, sprintf(out + 5, "SELECT 'count=' || %s FROM pg_stat_user_tables WHERE relname = 'tare'",
		writing ? "n_tup_upd" : "idx_scan"), in, sizeof in);

	return number_after(in, len, "count=");
}

/* ---- tare's own server ---- */

static size_t echo_hello(char *out) {
	struct request r;

	memset(&r, 0, sizeof r);
	r.what = 'o';
	r.bytes = bytes;
	memcpy(out, &r, sizeof r);
	return sizeof r;
}

static size_t echo_request(char *out, uint64_t n) {
	(void)n;
	memcpy(out, value, bytes);
	return bytes;
}

static size_t echo_whole(const char *in, size_t have) {
	(void)in;
	return have >= bytes ? bytes : 0;
}

static int echo_right(const char *in, size_t len) {
	if (memcmp(in, value, bytes) != 0)
		wrong(in, len);
	return 1;
}

static uint64_t echo_count(void) {
	struct request r;
	uint64_t n;
	int fd = connect_to(&asked, SOCK_STREAM);

	memset(&r, 0, sizeof r);
	r.what = 'n';
	write_all(fd, &r, sizeof r);
	if (!read_all(fd, &n, sizeof n)) {
		errno = ECONNRESET;
		die("the server");
	}
	close_at_once(fd);
	return n;
}

static const struct protocol protocols[] = {
	{ "echo", NULL, echo_hello, 0, echo_request, echo_whole, echo_right, echo_count, 0, 0 },
	{ "redis", redis_prepare, NULL, 0, redis_request, redis_whole, redis_right, redis_count, 0, 0 },
	{ "http", NULL, NULL, 0, http_request, http_whole, http_right, http_count, 1, 1 },
	{ "postgres", postgres_prepare, postgres_hello, 1, postgres_request, postgres_whole, postgres_right, postgres_count, 0, 1 },
};

const struct protocol *protocol_of(const char *name, const char *operation, size_t size) {
	bytes = size;
	writing = strcmp(operation, "write") == 0;
	value = malloc(bytes + 1);
	if (!value)
		die("memory");
	for (size_t i = 0; i < bytes; i++)
		value[i] = 'a' + i % 23;
	value[bytes] = 0;
	errno = EINVAL;
	if (!writing && strcmp(operation, "read") != 0)
		die(operation);
	for (size_t i = 0; i < sizeof protocols / sizeof *protocols; i++)
		if (strcmp(protocols[i].name, name) == 0)
			return &protocols[i];
	die(name);
}
