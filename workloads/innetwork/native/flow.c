/* How fast a member sends, and how long it waits.

   It paces at the planned rate, which is right as long as the network is its own. Once a round trip
   it judges what happened. What tells a queue from a processor that is late is that the queue
   stands: the least delay since the last judgement counts, as in CoDel (RFC 8289). A queue longer
   than the target, or a mark, makes it slower, though not below half of the planned rate: a flow that
   fills queues would otherwise push it out altogether. Losses of more than 2 % with such a queue, or
   of more than 10 % with a short one, make it slower without that limit: a path of eight links that
   lose 1 % each loses 8 %, however slowly one sends, and a busy processor always makes some queue.
   Losses without a queue are no sign of congestion; repairs take care of them.

   What a way takes without a queue is known from the quickest packet, which may have been a short
   one; a full one is sent whole over each link. On slow links that is no queue: it is added to the
   target, as CoDel's is no less than the time of a packet on the link. */

#include "member.h"

#include <time.h>

enum { TARGET_QUEUE_US = 20000, JUDGE_AT_LEAST_US = 20000, CATCH_UP_US = 4000, SOME_QUEUE_US = 5000 };

static const double PLANNED_SHARE = 0.97; /* the rest is for repairs, or queues never empty */
static const double LOSS_TOLERATED = 0.02, LOSS_OF_LONG_PATHS = 0.1;
static const double LEAST_SHARE = 1.0 / 64, LEAST_SHARE_FOR_DELAY = 0.5;

uint64_t now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u;
}

void flow_open(struct flow *flow, double rate_bps, uint32_t round_trip_us) {
    *flow = (struct flow){
        .planned_bps = rate_bps * PLANNED_SHARE,
        .rate_bps = rate_bps * PLANNED_SHARE,
        .least_rate_bps = rate_bps * PLANNED_SHARE,
        .configured_us = round_trip_us,
        .smoothed_us = round_trip_us,
        .deviation_us = round_trip_us / 4.0,
        .least_queue_us = UINT32_MAX,
    };
}

/* As TCP does (RFC 6298). */
void flow_sample(struct flow *flow, uint64_t round_trip_us) {
    double error = (double)round_trip_us - flow->smoothed_us;
    flow->smoothed_us += error / 8;
    flow->deviation_us += ((error < 0 ? -error : error) - flow->deviation_us) / 4;
}

/* A result waits for the last member, so that a sample may be of any length: both ends are cut. */
uint64_t flow_timeout_us(const struct flow *flow) {
    double least = flow->configured_us + 40000.0, most = 3.0 * flow->configured_us + 250000.0;
    double timeout = flow->smoothed_us + 4 * flow->deviation_us;
    return (uint64_t)(timeout < least ? least : timeout > most ? most : timeout);
}

/* How long to wait for a result that later ones have overtaken: nobody is merely late then. A repair
   takes at most one round trip of a hop, or of the way from the root and back; asking for one that
   is on its way costs a packet, and waiting for one that was lost costs everybody the time. */
uint64_t flow_hole_us(const struct flow *flow) { return flow->configured_us / 2 + 40000; }

void flow_charge(struct flow *flow, uint64_t now, uint32_t wire_bytes) {
    uint64_t earliest = now > CATCH_UP_US ? now - CATCH_UP_US : 0;
    if (flow->next_send_us < earliest) flow->next_send_us = earliest;
    flow->next_send_us += (uint64_t)(wire_bytes * 8e6 / flow->rate_bps);
}

static void slow_down(struct flow *flow, double factor, double least_share) {
    double least = flow->planned_bps * least_share, rate = flow->rate_bps * factor;
    if (rate < least) rate = flow->rate_bps < least ? flow->rate_bps : least;
    flow->rate_bps = rate;
    if (rate < flow->least_rate_bps) flow->least_rate_bps = rate;
}

static bool is_congestion(const struct flow *flow, bool queued, bool some_queue) {
    return (queued && flow->lost > LOSS_TOLERATED * flow->sent) ||
           (some_queue && flow->lost > LOSS_OF_LONG_PATHS * flow->sent);
}

/* Returns whether it became slower. */
bool flow_judge(struct flow *flow, uint64_t now) {
    uint64_t interval = flow->smoothed_us > JUDGE_AT_LEAST_US ? (uint64_t)flow->smoothed_us
                                                              : (uint64_t)JUDGE_AT_LEAST_US;
    if (now - flow->judged_at_us < interval) return false;
    uint32_t queue_us = flow->least_queue_us == UINT32_MAX ? 0 : flow->least_queue_us;
    uint32_t target_us = flow->configured_us / 4;
    if (target_us < TARGET_QUEUE_US) target_us = TARGET_QUEUE_US;
    target_us += flow->frames_us;
    bool queued = flow->congested || queue_us > target_us;
    bool lossy = flow->sent >= 50 && is_congestion(flow, queued, queue_us > SOME_QUEUE_US);
    if (lossy)
        slow_down(flow, 0.7, LEAST_SHARE);
    else if (queued)
        slow_down(flow, 0.85, LEAST_SHARE_FOR_DELAY);
    else
        flow->rate_bps += 0.1 * (flow->planned_bps - flow->rate_bps) + flow->planned_bps / 50;
    if (flow->rate_bps > flow->planned_bps) flow->rate_bps = flow->planned_bps;
    flow->judged_at_us = now;
    flow->sent = flow->lost = 0;
    flow->least_queue_us = UINT32_MAX;
    flow->congested = false;
    return lossy || queued;
}
