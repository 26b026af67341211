/* One direction of a link: what happens to a frame and when, without any input or output.
 *
 * A virtual clock does rate, queue and delay at once. A frame that arrives at t departs at
 * max(t, last departure) + wire bits / rate and is released at its departure + delay + jitter. The
 * wait for the transmitter is known on arrival, so the queue bound needs no queue of its own, and
 * no token bucket has to be refilled: the rate is exact at any rate, and a daemon that was woken
 * late works off what was due without losing wire time. Remainders below a nanosecond are carried.
 *
 * All times are nanoseconds of one clock that never goes back. Chances are in billionths. */
#ifndef LINKD_DIRECTION_H
#define LINKD_DIRECTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "frame.h"

#define ONE_BILLION 1000000000ull
#define NEVER UINT64_MAX

enum setting {
    RATE,      /* bit/s; 0 is no limit */
    DELAY,     /* ns */
    JITTER,    /* ns, at most the delay */
    QUEUE,     /* ns of wire time */
    LOSS,      /* chance of each frame alone */
    GE_ENTER,  /* Gilbert-Elliott: good to bad; 0 is no such loss */
    GE_LEAVE,  /* bad to good */
    GE_BAD,    /* loss while bad */
    GE_GOOD,   /* loss while good */
    DUPLICATE, /* chance */
    CORRUPT,   /* chance */
    REORDER,   /* 0 or 1 */
    SEED,
    SETTINGS
};

enum drop_cause {
    DROP_QUEUE,
    DROP_LOSS,
    DROP_SOCKET,
    DROP_OVERSIZE,
    DROP_MEMORY,
    DROP_TRANSMIT,
    DROP_CAUSES
};

enum { LATENESS_BUCKETS = 24 };

struct counters {
    uint64_t frames_in, bytes_in, frames_out, bytes_out, queued_frames;
    uint64_t dropped[DROP_CAUSES];
    uint64_t duplicated, corrupted;
    uint64_t late[LATENESS_BUCKETS]; /* releases late by [0, 1), [1, 2), [2, 4) us and so on */
    uint64_t late_max_ns;
};

/* Separate streams, so that setting a jitter leaves the pattern of losses as it was. */
enum random_stream { DRAW_LOSS, DRAW_DUPLICATE, DRAW_CORRUPT, DRAW_BIT, DRAW_JITTER, STREAMS };

struct direction {
    uint64_t set[SETTINGS];
    uint64_t identity; /* makes the draws of two directions with one seed differ */
    uint64_t random[STREAMS];
    bool bad;                /* state of the Gilbert-Elliott chain */
    uint64_t departed_ns;    /* the transmitter is busy until then */
    uint64_t remainder;      /* of bits x 10^9 / rate at `departed_ns` */
    uint64_t last_release_ns;
    uint64_t orders;
    struct frame *head, *tail; /* by release, and by departure */
    struct frame **early;      /* heap by release of frames that overtake the list's tail */
    size_t early_count, early_room;
    size_t timer_slot; /* its place among the directions that wait; owned by the timers */
    struct counters count;
};

struct fate {
    bool lost, duplicated, corrupted;
    uint64_t bit;
};

/* Makes a direction that carries everything at once. */
void direction_open(struct direction *direction, uint64_t identity);

/* Frees every frame inside. */
void direction_close(struct direction *direction, struct pool *pool);

/* Whether wire frames must be told apart: those of one segmentation-offload frame meet one fate
 * each, and at low rates each has its own time. */
bool direction_cuts(const struct direction *direction, const struct frame *frame);

/* Draws what happens to the next frame. */
struct fate direction_draw(struct direction *direction);

/* Whether the queue takes `wire_bytes` more at `now`. */
bool direction_admits(const struct direction *direction, uint64_t now, uint64_t wire_bytes);

/* Takes an admitted frame that arrived at `now`. False if there is no memory to keep it in order;
 * the caller then still owns it. */
bool direction_take(struct direction *direction, struct frame *frame, uint64_t now);

/* When the next frame is due, or NEVER. */
uint64_t direction_due(const struct direction *direction);

/* The next frame that is due at `now`, or NULL; its lateness is counted. */
struct frame *direction_release(struct direction *direction, uint64_t now);

/* Puts other settings in force at `now`. What waits for the transmitter is timed anew, what is in
 * the fibre is not, and nothing is lost. False, and nothing changed, if there is no memory. */
bool direction_change(struct direction *direction, const uint64_t set[SETTINGS], uint64_t now);

#endif
