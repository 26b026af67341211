/* A daemon's control socket: several clients, none of which can hold up what the daemon carries.
 *
 * A client sends lines and gets an answer to each: some lines, the last of them `ok` or `error WHY`.
 * What a line means is the daemon's own affair. */
#ifndef ATOLL_SERVER_H
#define ATOLL_SERVER_H

#include <stdbool.h>
#include <stddef.h>

enum { CLIENTS_MAX = 16 };

struct client {
    int fd;     /* negative: this place is free */
    bool owner; /* the daemon ends with it */
    char *line; /* the server's `line_max_bytes` of room */
    size_t line_bytes;
    char *answer; /* not yet sent from `answer_sent` on */
    size_t answer_sent;
};

struct server {
    /* Carries out the client's line, which ends with a zero and may be cut up. The answer is
     * complete, and to be freed; NULL without memory. May make the client the owner, or set `ended`. */
    char *(*carry_out)(struct server *server, struct client *client);
    void *daemon; /* for `carry_out` */
    size_t line_max_bytes;
    bool ended; /* the daemon is to end */
    int listener, epoll;
    struct client client[CLIENTS_MAX];
};

/* Opens a server whose first three fields are set. */
bool server_open(struct server *server, int listener, int epoll);
void server_close(struct server *server);

/* Whether an event's pointer belongs to the server rather than to something else that is watched. */
bool server_owns(const struct server *server, const void *source);

/* Something happened to the listener or to a client. */
void server_handle(struct server *server, void *source);

/* The answer `ok`, or `error` with what is wrong. */
char *server_verdict(const char *wrong);

#endif
