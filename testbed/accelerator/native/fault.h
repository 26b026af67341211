/* Drops and doubles packets on purpose, the same ones for the same seed. */
#ifndef ACCELERATOR_FAULT_H
#define ACCELERATOR_FAULT_H

#include <stdint.h>

#include "protocol.h"

enum { ONE_BILLION = 1000000000 };

struct fault {
    uint64_t drop, duplicate; /* billionths */
    uint64_t random;
};

/* How many copies of the next packet go on: 0, 1 or 2. */
static inline int fault_copies(struct fault *fault)
{
    uint64_t drop, duplicate;

    if (fault->drop == 0 && fault->duplicate == 0)
        return 1;
    drop = (atoll_next_random(&fault->random) >> 32) * ONE_BILLION >> 32;
    duplicate = (atoll_next_random(&fault->random) >> 32) * ONE_BILLION >> 32;
    if (drop < fault->drop)
        return 0;
    return duplicate < fault->duplicate ? 2 : 1;
}

#endif
