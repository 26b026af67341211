/* A member of a group: what it knows of its trees, its streams and the message under way.

   One thread per member owns the sockets and all of this. It goes on when no message is under way,
   because others may still lack what this member sent last. docs/protocol.md has the rules. */
#ifndef ATOLL_MEMBER_H
#define ATOLL_MEMBER_H

#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "protocol.h"

enum {
    MEMBERS_MAX = 64, /* a bit each in a slot's mask of streams */
    BATCH = 16,
    FDS_MAX = MEMBERS_MAX + 2,
    NUMBERS_PER_WINDOW = 8,
    REPAIRS_MAX = 512,
};

enum status { IDLE, RUNNING, DONE, DISAGREE, LOST, ABORTED };

/* One chunk of a message, as the caller describes it: addresses of its areas and of the results'. */
struct chunk {
    uint64_t max_in, max_out, sum_in, sum_out;
    uint32_t max_bytes, sum_bytes, element;
    uint32_t is_guard; /* its result must be what this member sent, or members disagree */
};

/* A message under way. The result of the stream k goes `k` strides further. */
struct passage {
    const struct chunk *chunks;
    uint64_t first, end, base; /* base: the oldest sequence that lacks a result */
    uint64_t max_stride, sum_stride;
};

/* Where this member's packets go: the entry of a tree, or a group. */
struct uplink {
    struct sockaddr_in to;
    uint16_t tree, child;
    uint32_t next_number;
    uint64_t *sequence_of; /* by number, the last few windows of them */
};

/* Where results come from: the root of a tree, or another member. */
struct stream {
    uint32_t source; /* IPv4 address in network order; 0: not checked */
    struct sockaddr_in ask;
    uint16_t tree, child, leaves; /* leaves: how many members are summed in a result */
    bool started;
    uint64_t furthest; /* sequences below it that lack a result have a timer */
    uint32_t incarnation, highest;
    uint64_t seen; /* bit i: number highest - i came */
    uint32_t least_transit_us, next_least_us;
    uint64_t least_until_us;
};

/* A result that came before this member began the message to which it belongs. */
struct early {
    struct atoll_header header;
    uint8_t *areas;
};

/* What is sent under one sequence, kept for two windows. */
struct slot {
    uint64_t sequence, got; /* got: a bit for each stream whose result is here */
    uint64_t overtaken;     /* a bit for each stream of which later results came first */
    uint64_t sent_at_us, ask_at_us, payload_hash; /* ask_at_us 0: there is no timer */
    uint32_t sends, asks;
    uint16_t max_bytes, sum_bytes;
    uint8_t element;
    uint8_t *areas;
};

/* Pacing, and what it reacts to. */
struct flow {
    double planned_bps, rate_bps;
    uint64_t next_send_us, judged_at_us;
    uint32_t sent, lost, least_queue_us; /* since it was judged last */
    bool congested;
    uint32_t frames_us;     /* a full packet's on all links of its way, up and down */
    uint32_t configured_us; /* round trip without queues */
    double smoothed_us, deviation_us;
    double least_rate_bps;
};

/* What somebody lacks and waits for its turn: repairs are part of what is paced. */
struct repair {
    uint64_t sequence;
    uint32_t uplink;
    bool to_member; /* to one member alone, at `to` */
    struct sockaddr_in to;
};

/* A packet to be sent: its header, where to, and the slot whose areas it carries, or none. */
struct outgoing {
    struct atoll_header header;
    struct sockaddr_in to;
    const struct slot *slot;
};

struct counters {
    uint64_t sent, repeats, results, duplicates, early, stale, malformed, forged, foreign, conflicts;
    uint64_t asks, probes, resends_asked, resends_held, gaps, flushes, lost, backoffs, send_errors;
};

struct member {
    uint64_t job;
    struct atoll_key key;
    uint16_t index;
    bool multicast;
    uint32_t window, slots, area_bytes, numbers;
    struct slot *slot;
    struct early *early; /* by stream, a window each */
    struct uplink uplink[MEMBERS_MAX];
    struct stream stream[MEMBERS_MAX];
    uint32_t uplinks, streams, groups;
    struct sockaddr_in group[MEMBERS_MAX];
    uint32_t place[MEMBERS_MAX]; /* members' addresses, for who may ask */
    uint32_t places;
    uint64_t all_streams;
    uint64_t next_sequence; /* the first that was not sent yet */
    uint64_t filled;        /* the first that has no slot yet; results may come before it is sent */
    struct passage passage;
    struct flow flow;
    struct counters count;
    struct repair repair[REPAIRS_MAX]; /* a ring */
    uint32_t repair_first, repairs;
    bool repair_is_next;
    struct outgoing outbox[BATCH]; /* what goes with the next system call */
    uint32_t outgoing;
    uint64_t coalesce_us, woken_at_us;
    uint32_t flushes_left, probes;
    uint64_t flush_at_us, timers_at_us, probe_at_us;
    int fd[FDS_MAX];
    uint32_t fds;
    int wake;
    uint8_t *buffers;
    pthread_t thread;
    bool has_thread, has_begun;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    enum status status;      /* under the lock */
    bool asked_to_begin, asked_to_abort, asked_to_stop, asked_to_jump; /* under the lock */
    struct passage pending;  /* under the lock */
    uint64_t jump_to;        /* under the lock */
};

uint64_t now_us(void);

/* sockets.c */
bool open_sockets(struct member *m, const struct sockaddr_in *local, char *error, size_t size);
void close_sockets(struct member *m);
void transmit(struct member *m); /* all that is in the outbox */
bool receive_some(struct member *m, int fd); /* false: all of it */

/* flow.c */
void flow_open(struct flow *flow, double rate_bps, uint32_t round_trip_us);
void flow_sample(struct flow *flow, uint64_t round_trip_us);
uint64_t flow_timeout_us(const struct flow *flow);
void flow_charge(struct flow *flow, uint64_t now, uint32_t wire_bytes);
bool flow_judge(struct flow *flow, uint64_t now);
uint64_t flow_hole_us(const struct flow *flow);

/* member.c */
bool make_early(struct member *m);
void handle_packet(struct member *m, const struct sockaddr_in *from, uint8_t *packet, size_t bytes);

#endif
