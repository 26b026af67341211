/* What a request does to the accelerator, and what is answered. */
#ifndef ACCELERATOR_ANSWERS_H
#define ACCELERATOR_ANSWERS_H

#include "server.h"
#include "wire.h"

/* The server's `daemon`. */
struct parts {
    struct engine *engine;
    struct wire *wire;
};

/* Carries a client's line out; see server.h. */
char *carry_out(struct server *server, struct client *client);

#endif
