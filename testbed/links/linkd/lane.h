/* A direction with its two sockets: frames in at one wire end, out at the other. */
#ifndef LINKD_LANE_H
#define LINKD_LANE_H

#include "direction.h"

struct lane {
    struct direction direction; /* first: a timer's direction is a lane */
    int in, out;                /* packet sockets, owned by the link */
    uint64_t last_arrival_ns;
};

/* What all lanes share: memory, and the batch that is received into. */
struct mover;

struct mover *mover_new(size_t budget_bytes);
struct pool *mover_pool(struct mover *mover);

uint64_t clock_now(void);

/* A packet socket on an interface, with offload information and without what the interface itself
 * sends. Returns a negative errno if it fails. */
int packet_socket(const char *interface);

/* Takes in at most one batch. Returns whether there may be more. */
bool lane_receive(struct mover *mover, struct lane *lane);

/* Puts out what is due, at most one batch. */
void lane_release(struct mover *mover, struct lane *lane, uint64_t now);

/* Counts what the kernel dropped in front of the socket. */
void lane_count_overflow(struct lane *lane);

#endif
