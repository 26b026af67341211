/* The directions that hold frames, the one with the earliest due frame first: a binary heap. */
#ifndef LINKD_TIMERS_H
#define LINKD_TIMERS_H

#include "direction.h"

struct timer {
    uint64_t due_ns;
    struct direction *direction;
};

struct timers {
    struct timer *heap; /* from 1, so that slot 0 says "not waiting" */
    size_t count, room;
};

/* Makes room for one more direction. False if there is no memory. */
bool timers_reserve(struct timers *timers, size_t directions);

/* Puts a direction where its next due frame belongs, or out if it has none. */
void timers_update(struct timers *timers, struct direction *direction);

void timers_remove(struct timers *timers, struct direction *direction);

/* When the next frame of all is due, or NEVER. */
uint64_t timers_due(const struct timers *timers);

/* The direction of that frame; there must be one. */
struct direction *timers_first(const struct timers *timers);

#endif
