/* Which packet numbers of one child came in, and how long they queued. */
#ifndef ACCELERATOR_ARRIVALS_H
#define ACCELERATOR_ARRIVALS_H

#include <stdbool.h>
#include <stdint.h>

enum {
    REORDER_PACKETS = 3, /* as QUIC's packet threshold, RFC 9002 section 6.1.1 */
    SEEN_NUMBERS = 64,
    JUMP_NUMBERS = 1024, /* a sender that was started anew */
    BASE_PERIOD_US = 10000000,
};

struct arrivals {
    bool started, timed;
    uint32_t highest;
    uint64_t seen; /* bit i: highest - i came in */
    uint32_t base_us, base_before_us; /* least transit time of this period and of the one before */
    uint64_t period_start_us;
};

/* Takes note of a number; writes those that only now count as lost, at most SEEN_NUMBERS, each
 * once. Returns how many. */
int arrivals_missing(struct arrivals *arrivals, uint32_t number, uint32_t missing[SEEN_NUMBERS]);

/* By how much this transit time exceeds the least of the last 10 to 20 s. */
uint32_t arrivals_queueing(struct arrivals *arrivals, uint64_t now_us, uint32_t sent_us);

#endif
