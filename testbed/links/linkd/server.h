/* The control socket: several clients, none of which can hold up the frames. */
#ifndef LINKD_SERVER_H
#define LINKD_SERVER_H

#include <stdbool.h>

#include "links.h"

enum { CLIENTS_MAX = 16 };

struct client {
    int fd; /* negative: this place is free */
    bool owner; /* the daemon ends with it */
    char line[LINE_MAX_BYTES];
    size_t line_bytes;
    char *answer; /* not yet sent from `answer_sent` on */
    size_t answer_sent;
};

struct server {
    int listener, epoll;
    struct links *links;
    struct client client[CLIENTS_MAX];
};

bool server_open(struct server *server, struct links *links, int listener, int epoll);
void server_close(struct server *server);

/* Whether an event's pointer belongs to the server rather than to a lane. */
bool server_owns(const struct server *server, const void *source);

/* Something happened to the listener or to a client. */
void server_handle(struct server *server, void *source);

#endif
