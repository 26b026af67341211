/* One accelerator's part in one tree of one job: docs/protocol.md, and twin.py to read it.
 *
 * It is pure: a packet, its source and the time go in, packets to send come out. It has no timers.
 * What a member contributes to a sequence never changes; so any packet may be lost, doubled, late or
 * summed again, and every sum is the same. */
#ifndef ACCELERATOR_TREE_H
#define ACCELERATOR_TREE_H

#include "arrivals.h"
#include "outbox.h"

enum { CHILDREN_MAX = 64, MEMBERS_MAX = 1024, WINDOW_MAX = 1 << 15 };

/* X(name) in the order in which they are told. */
#define TREE_COUNTERS(X)                                                                           \
    X(packets) X(packet_bytes) X(contributions) X(sums) X(duplicates) X(stale) X(conflicts)        \
    X(evictions) X(foreign) X(corrupt) X(stray) X(flushes) X(asks) X(late) X(lost) X(gaps)         \
    X(resends) X(repeats) X(notices) X(sent)

struct tree_counters {
#define X(name) uint64_t name;
    TREE_COUNTERS(X)
#undef X
};

struct addresses {
    int count;
    struct sockaddr_in *at;
};

struct tree_config {
    uint64_t job, secret;
    uint16_t tree, child; /* child: this accelerator's index at its parent */
    uint32_t window, leaves, notice_every, hold_us;
    struct sockaddr_in up; /* port 0: this is the root */
    struct addresses children, members, results, notices;
};

struct set {
    uint64_t sequence; /* or ATOLL_NO_SEQUENCE */
    uint64_t received; /* bit by child */
    uint64_t sent_us, requested_us;
    bool complete, was_sent, was_requested;
    uint8_t element, congested;
    uint16_t leaves, max_bytes, sum_bytes;
    uint32_t delay_us;
};

struct remembered {
    uint32_t number;
    uint64_t sequence;
};

struct tree {
    struct tree_config config;
    struct tree_counters count;
    uint32_t incarnation;
    uint32_t number, ring_mask;
    struct remembered *ring; /* what was sent under a number */
    struct arrivals *arrivals;
    struct set *sets;
    uint8_t *areas; /* ATOLL_AREA_MAX_BYTES for each set */
    uint64_t all_children;
    uint64_t newest;
    bool unannounced;
    struct atoll_key key;
};

struct arrived {
    const uint8_t *packet; /* aligned to 8 */
    size_t bytes;
    struct sockaddr_in source;
    uint64_t now_us;
    bool congested;
};

/* The configuration's addresses become the tree's. Returns NULL without memory, and then they stay
 * the caller's. */
struct tree *tree_new(const struct tree_config *config, uint32_t incarnation);
void tree_free(struct tree *tree);
void tree_config_free(struct tree_config *config);

/* Takes in a packet whose header was decoded and names this tree. */
void tree_handle(struct tree *tree, const struct atoll_header *header, const struct arrived *arrived,
                 struct outbox *outbox);

#endif
