/* All trees of one accelerator, its limits, and what it counts before it knows the tree. */
#ifndef ACCELERATOR_ENGINE_H
#define ACCELERATOR_ENGINE_H

#include "tree.h"

/* X(name) in the order in which they are told. */
#define PROCESS_COUNTERS(X)                                                                        \
    X(malformed) X(unknown) X(overflow) X(unsent) X(in_dropped) X(in_duplicated) X(out_dropped)    \
    X(out_duplicated) X(busy_us) X(throttled_us)

struct process_counters {
#define X(name) uint64_t name;
    PROCESS_COUNTERS(X)
#undef X
};

/* What the hardware that is emulated could do. */
struct limits {
    uint64_t rate_bps;      /* 0: as fast as this machine */
    uint32_t slots, fan_in; /* slots: windows of all trees together */
};

struct engine {
    struct limits limits;
    struct process_counters count;
    uint32_t incarnation;
    uint32_t slots_taken;
    struct tree **trees;
    int tree_count, last_found;
};

/* Takes part in a tree from now on, with nothing summed yet; an open tree of the same numbers is
 * forgotten. The configuration is the engine's if it succeeds. Returns NULL or why not. */
const char *engine_open_tree(struct engine *engine, const struct tree_config *config);

/* Returns NULL or why not. */
const char *engine_close_tree(struct engine *engine, uint64_t job, uint16_t tree);

void engine_close(struct engine *engine);

/* Takes in what came in, whatever it is. */
void engine_handle(struct engine *engine, const struct arrived *arrived, struct outbox *outbox);

#endif
