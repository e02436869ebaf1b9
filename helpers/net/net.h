/*
 * net: two ends that talk, and what a laboratory needs around them.
 *
 *     net as client|server PIN -- CMD ARG...   pin this process, become CMD
 *     net both PIN PORT -- SERVER... -- CLIENT...   both ends as children of one payload
 *     net ready PIN PORT -- SERVER...          a server; the line "net: listening" once it does
 *     net serve PLACE                          answer one client after the other
 *     net rtt PROTO PLACE BYTES MS             request and response, one at a time
 *     net connect PLACE MS                     connections, one after the other
 *     net packets PLACE BYTES MS               datagrams, as many as arrive
 *     net stream PLACE BYTES MS                bytes, as many as arrive
 *     net open PROTOCOL PLACE OPERATION BYTES RATE ARRIVALS SEED CONNECTIONS KEEP MS
 *                                              requests at a rate that no answer shifts
 *     net relay PORT ADDRESS PORT              copy between a client and a server
 *     net idle                                 nothing, until it is killed
 *     net chatter PLACE                        ten datagrams a second
 *     net again -- CMD ARG...                  a command, again and again
 *
 * The last three print "net: listening" once they run. PIN is apart, same or free: client and server on different CPUs of those that
 * they may use, on the same one, or wherever the scheduler puts them. PLACE is
 * ADDRESS:PORT, of IPv4 or IPv6 (without brackets), or unix:PATH. Results are lines "KEY NUMBER"
 * on standard output, times in nanoseconds of CLOCK_MONOTONIC. PROTOCOL is echo
 * (that of "net serve"), redis, http or postgres; OPERATION is read or write, RATE is
 * requests a second, ARRIVALS fixed or poisson (by SEED), and KEEP is keep for
 * connections that are kept or new for one with each request.
 */
#ifndef TARE_NET_H
#define TARE_NET_H

#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

/* A place where a server listens. */
struct place {
	union {
		struct sockaddr any;
		struct sockaddr_in in;
		struct sockaddr_in6 in6;
		struct sockaddr_un un;
	};
	socklen_t len;
};

/* What a client asks for, the first bytes of its connection. Both ends run the
 * same build, so the layout is the same. */
struct request {
	char what;    /* 'r', 'c', 'p', 's', 'o': the first letter of the subcommand; 'n': how many 'o' were answered */
	char datagram; /* rtt: over UDP */
	uint32_t bytes;
};

enum { MOST_BYTES = 1 << 20 };

/* die says what failed, with errno unless it is 0, and ends with code 1. */
_Noreturn void die(const char *what);

uint64_t now(void);
long number(const char *text, long low, long high);
void parse_place(const char *text, struct place *p);

/* all of len bytes, or 0 at a clean end before the first; else it dies. */
int read_all(int fd, void *buf, size_t len);
void write_all(int fd, const void *buf, size_t len);

int listen_at(const struct place *p);
int datagrams_at(const struct place *p);
int connect_to(const struct place *p, int type);
void no_delay(int fd);
void close_at_once(int fd);

void pin(const char *role, const char *how);

int serve(char **a);
int rtt(char **a);
int connections(char **a);
int packets(char **a);
int stream(char **a);
int open_loop(char **a);
int relay(char **a);
int do_nothing(char **a);
int send_a_little(char **a);
int do_again(char **a);
int both(char **a);
int ready(char **a);

#endif
