/* What the rest of the process calls. Each call is short but `atoll_member_wait`; the member's own
   thread does the work. */

#include "member.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

void *serve_member(void *argument);

enum { COUNTERS_TEXT = 800, COALESCE_PART = 64, COALESCE_MAX_US = 4000 };

static struct sockaddr_in place(uint32_t address, uint16_t port) {
    struct sockaddr_in where = {.sin_family = AF_INET, .sin_port = htons(port)};
    where.sin_addr.s_addr = htonl(address);
    return where;
}

static bool make_slots(struct member *m) {
    size_t room = ATOLL_HEADER_BYTES + m->area_bytes;
    m->slot = calloc(m->slots, sizeof *m->slot);
    m->buffers = aligned_alloc(64, BATCH * ATOLL_PACKET_MAX_BYTES);
    uint8_t *all = m->slot ? calloc(m->slots, room) : NULL;
    if (!all || !m->buffers) return false;
    for (uint32_t i = 0; i < m->slots; i++) {
        m->slot[i].sequence = ATOLL_NO_SEQUENCE;
        m->slot[i].areas = all + i * room + ATOLL_HEADER_BYTES;
    }
    return true;
}

static void free_member(struct member *m) {
    if (m->slot) {
        uint8_t *first = m->slot[0].areas;
        for (uint32_t i = 1; i < m->slots; i++)
            if (m->slot[i].areas < first) first = m->slot[i].areas;
        if (first) free(first - ATOLL_HEADER_BYTES);
    }
    if (m->early) free(m->early[0].areas);
    free(m->early);
    for (uint32_t u = 0; u < m->uplinks; u++) free(m->uplink[u].sequence_of);
    free(m->slot);
    free(m->buffers);
    free(m);
}

/* Time limits count by a clock that nobody sets. */
static void init_condition(pthread_cond_t *condition) {
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(condition, &attributes);
    pthread_condattr_destroy(&attributes);
}

EXPORT struct member *atoll_member_new(uint64_t job, uint64_t key, uint32_t index,
                                       uint32_t multicast, uint32_t window, uint32_t area_bytes,
                                       double rate_bps, uint32_t round_trip_us) {
    struct member *m = calloc(1, sizeof *m);
    if (!m) return NULL;
    m->job = job;
    m->index = (uint16_t)index;
    m->multicast = multicast != 0;
    m->window = window;
    m->slots = 2 * window;
    m->numbers = NUMBERS_PER_WINDOW * window;
    m->area_bytes = area_bytes;
    m->wake = -1;
    m->coalesce_us = round_trip_us / COALESCE_PART;
    if (m->coalesce_us > COALESCE_MAX_US) m->coalesce_us = COALESCE_MAX_US;
    atoll_key_of(&m->key, key);
    flow_open(&m->flow, rate_bps, round_trip_us);
    pthread_mutex_init(&m->lock, NULL);
    init_condition(&m->changed);
    if (area_bytes > ATOLL_AREA_MAX_BYTES || window == 0 || !make_slots(m)) {
        free_member(m);
        return NULL;
    }
    return m;
}

/* How long a full packet takes on all links of its way, where it is sent whole over each. */
EXPORT void atoll_member_frames(struct member *m, uint32_t frames_us) { m->flow.frames_us = frames_us; }

EXPORT void atoll_member_place(struct member *m, uint32_t address) {
    if (m->places < MEMBERS_MAX) m->place[m->places++] = htonl(address);
}

EXPORT int atoll_member_uplink(struct member *m, uint32_t tree, uint32_t child, uint32_t address,
                               uint32_t port) {
    if (m->uplinks == MEMBERS_MAX) return -1;
    struct uplink *up = &m->uplink[m->uplinks];
    up->to = place(address, (uint16_t)port);
    up->tree = (uint16_t)tree;
    up->child = (uint16_t)child;
    up->sequence_of = calloc(m->numbers, sizeof *up->sequence_of);
    if (!up->sequence_of) return -1;
    m->uplinks++;
    return 0;
}

EXPORT int atoll_member_stream(struct member *m, uint32_t tree, uint32_t child, uint32_t source,
                               uint32_t ask_address, uint32_t ask_port, uint32_t leaves) {
    if (m->streams == MEMBERS_MAX) return -1;
    m->stream[m->streams++] = (struct stream){
        .source = htonl(source),
        .ask = place(ask_address, (uint16_t)ask_port),
        .tree = (uint16_t)tree,
        .child = (uint16_t)child,
        .leaves = (uint16_t)leaves,
    };
    m->all_streams = m->all_streams << 1 | 1;
    return 0;
}

EXPORT int atoll_member_join(struct member *m, uint32_t address, uint32_t port) {
    if (m->groups == MEMBERS_MAX) return -1;
    m->group[m->groups++] = place(address, (uint16_t)port);
    return 0;
}

EXPORT int atoll_member_start(struct member *m, uint32_t address, uint32_t port, char *error,
                              uint32_t error_bytes) {
    struct sockaddr_in local = place(address, (uint16_t)port);
    if (!make_early(m)) {
        snprintf(error, error_bytes, "no memory for early results");
        return -1;
    }
    if (!open_sockets(m, &local, error, error_bytes)) return -1;
    if (pthread_create(&m->thread, NULL, serve_member, m) != 0) {
        snprintf(error, error_bytes, "no thread for the endpoint");
        return -1;
    }
    m->has_thread = true;
    return 0;
}

static void ring(struct member *m) {
    uint64_t one = 1;
    if (write(m->wake, &one, sizeof one) < 0 && errno != EAGAIN) m->count.send_errors++;
}

/* Start to sum a message of some chunks; they stay the caller's and in place until it has ended. */
EXPORT int atoll_member_begin(struct member *m, const struct chunk *chunks, uint64_t count,
                              uint64_t max_stride, uint64_t sum_stride) {
    for (uint64_t i = 0; i < count; i++)
        if (atoll_max_room(chunks[i].max_bytes) + chunks[i].sum_bytes > m->area_bytes) return -1;
    pthread_mutex_lock(&m->lock);
    bool busy = m->status == RUNNING;
    if (!busy) {
        m->pending = (struct passage){.chunks = chunks,
                                      .end = count,
                                      .max_stride = max_stride,
                                      .sum_stride = sum_stride};
        m->status = RUNNING;
        m->asked_to_begin = true;
    }
    pthread_mutex_unlock(&m->lock);
    if (!busy) ring(m);
    return busy ? -1 : 0;
}

static struct timespec after_ms(uint32_t ms) {
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += ms / 1000;
    until.tv_nsec += (long)(ms % 1000) * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_nsec -= 1000000000;
        until.tv_sec++;
    }
    return until;
}

/* Wait for the end of the message, though no longer than `limit_ms`; returns the status. */
EXPORT int atoll_member_wait(struct member *m, uint32_t limit_ms) {
    struct timespec until = after_ms(limit_ms);
    pthread_mutex_lock(&m->lock);
    while (m->status == RUNNING && pthread_cond_timedwait(&m->changed, &m->lock, &until) == 0)
        continue;
    int status = (int)m->status;
    pthread_mutex_unlock(&m->lock);
    return status;
}

/* Give the message up. When this returns the thread touches the caller's memory no more. */
EXPORT void atoll_member_abort(struct member *m) {
    pthread_mutex_lock(&m->lock);
    m->asked_to_abort = true;
    ring(m);
    while (m->has_thread && m->asked_to_abort) pthread_cond_wait(&m->changed, &m->lock);
    pthread_mutex_unlock(&m->lock);
}

EXPORT uint64_t atoll_member_sequence(struct member *m) { return m->next_sequence; }

/* How far the message is: how many results of its chunks are here without a gap. */
EXPORT uint64_t atoll_member_progress(struct member *m) {
    return m->passage.base - m->passage.first;
}

/* Go on with a later sequence, which all members agreed upon. */
EXPORT void atoll_member_jump(struct member *m, uint64_t sequence) {
    pthread_mutex_lock(&m->lock);
    m->jump_to = sequence;
    m->asked_to_jump = true;
    ring(m);
    while (m->has_thread && m->asked_to_jump) pthread_cond_wait(&m->changed, &m->lock);
    pthread_mutex_unlock(&m->lock);
}

/* Names and values of all counters, separated by blanks. */
EXPORT int atoll_member_counters(struct member *m, char *text, uint32_t bytes) {
    const struct counters *c = &m->count;
    char all[COUNTERS_TEXT];
    int length = snprintf(
        all, sizeof all,
        "sent %lu repeats %lu results %lu duplicates %lu early %lu stale %lu malformed %lu forged %lu "
        "foreign %lu conflicts %lu asks %lu resends_asked %lu resends_held %lu probes %lu gaps %lu flushes %lu lost %lu "
        "backoffs %lu send_errors %lu rate_kbps %lu least_rate_kbps %lu round_trip_us %lu",
        c->sent, c->repeats, c->results, c->duplicates, c->early, c->stale, c->malformed, c->forged,
        c->foreign, c->conflicts, c->asks, c->resends_asked, c->resends_held, c->probes, c->gaps, c->flushes, c->lost,
        c->backoffs, c->send_errors, (uint64_t)(m->flow.rate_bps / 1e3),
        (uint64_t)(m->flow.least_rate_bps / 1e3), (uint64_t)m->flow.smoothed_us);
    snprintf(text, bytes, "%s", all);
    return length;
}

EXPORT void atoll_member_close(struct member *m) {
    if (m->has_thread) {
        pthread_mutex_lock(&m->lock);
        m->asked_to_stop = true;
        pthread_mutex_unlock(&m->lock);
        ring(m);
        pthread_join(m->thread, NULL);
    }
    close_sockets(m);
    free_member(m);
}
