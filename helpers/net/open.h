/* What the open-loop client (open.c) knows of the servers that it asks. */
#ifndef TARE_NET_OPEN_H
#define TARE_NET_OPEN_H

#include <stddef.h>
#include <stdint.h>

/* One kind of server. A conversation is a hello, where the protocol has one, and
 * then requests, each with one answer. */
struct protocol {
	const char *name;
	/* prepare gives the server what is asked for later; NULL for nothing. */
	void (*prepare)(void);
	/* hello writes the first bytes of a connection; NULL for none. */
	size_t (*hello)(char *out);
	/* greets: the server answers the hello, before it takes requests. */
	int greets;
	/* request writes the n-th request. */
	size_t (*request)(char *out, uint64_t n);
	/* whole is the length of the first answer in what has come, 0 while it is not
	 * all there. It dies of what is no answer. */
	size_t (*whole)(const char *in, size_t have);
	/* right tells an answer as it must be (1) from one by which the server refuses (0),
	 * and dies of a wrong one. */
	int (*right)(const char *in, size_t len);
	/* count is how many requests like ours the server has counted so far. */
	uint64_t (*count)(void);
	int self; /* how many of them a call of count is itself */
	int late; /* the server may count a request some time after its answer */
};

/* protocol_of finds one by its name, for requests of an operation ("" for the usual)
 * whose payload has so many bytes. It dies where there is none. */
const struct protocol *protocol_of(const char *name, const char *operation, size_t bytes);

/* Where the server listens. */
extern struct place asked;

enum { MOST_OUT = 512, MOST_IN = 128 << 10 }; /* beyond the payload */

/* converse asks the server over a connection of its own, which it closes, and returns
 * the answer's length in in. It waits. */
size_t converse(const char *out, size_t len, char *in, size_t cap);

#endif
