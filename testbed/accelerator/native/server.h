/* The control socket: several clients, none of which can hold up the packets. */
#ifndef ACCELERATOR_SERVER_H
#define ACCELERATOR_SERVER_H

#include <stdbool.h>

#include "control.h"
#include "wire.h"

enum { CLIENTS_MAX = 16 };

struct client {
    int fd;     /* negative: this place is free */
    bool owner; /* the accelerator ends with it */
    char line[LINE_MAX_BYTES];
    size_t line_bytes;
    char *answer; /* not yet sent from `answer_sent` on */
    size_t answer_sent;
};

struct server {
    int listener, epoll;
    bool ended;
    struct engine *engine;
    struct wire *wire;
    struct client client[CLIENTS_MAX];
};

bool server_open(struct server *server, int listener, int epoll);
void server_close(struct server *server);

/* Something happened to the listener or to a client. */
void server_handle(struct server *server, void *source);

#endif
