/* The rules of a member: what it may send, what it makes of what comes, and when it asks.

   The window: a sequence may be sent once the result of the one a window before is here. Whoever
   contributed to that result had the result of two windows before, so that nothing older than two
   windows can be asked for, and the slots of this member suffice to answer. */

#include "member.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum {
    ETHERNET_IP_UDP_BYTES = 42,
    REORDER_TOLERANCE = 3,
    GAP_BITS = 64,
    JUMP_NUMBERS = 1024, /* not a gap, but another beginning */
    ASKS_AT_ONCE = 4,
    PROBES_AT_ONCE = 2,
    TIMER_US = 2000,
    IDLE_US = 200000,
    FLUSHES = 3,
    FLUSH_INTERVAL_US = 4000,
    LONGEST_ASK_INTERVAL_US = 2000000,
    DELAY_MEMORY_US = 10000000,
    NICENESS = -10,
};

static struct slot *slot_of(struct member *m, uint64_t sequence) {
    return &m->slot[sequence % m->slots];
}

static bool was_sent(struct member *m, uint64_t sequence) {
    struct slot *slot = slot_of(m, sequence);
    return slot->sequence == sequence && slot->sends > 0;
}

static bool is_complete(struct member *m, uint64_t sequence) {
    struct slot *slot = slot_of(m, sequence);
    return slot->sequence == sequence && slot->got == m->all_streams;
}

static bool is_outstanding(const struct member *m, uint64_t sequence) {
    return sequence >= m->passage.base && sequence < m->filled && sequence < m->passage.end;
}

/* Nothing new follows: the network is idle, and what is lost now holds everybody up. */
static bool is_at_tail(const struct member *m) { return m->next_sequence == m->passage.end; }

/* --- sending ---------------------------------------------------------------------------------- */

static struct outgoing *next_packet(struct member *m, const struct sockaddr_in *to) {
    if (m->outgoing == BATCH) transmit(m);
    struct outgoing *packet = &m->outbox[m->outgoing++];
    *packet = (struct outgoing){.to = *to};
    packet->header.member = m->index;
    return packet;
}

static struct outgoing *packet_up(struct member *m, struct uplink *up, enum atoll_type type,
                                  uint64_t sequence, const struct slot *slot) {
    struct outgoing *packet = next_packet(m, &up->to);
    packet->slot = slot;
    packet->header.type = type;
    packet->header.child = up->child;
    packet->header.tree = up->tree;
    packet->header.number = up->next_number;
    packet->header.sequence = sequence;
    if (slot) {
        packet->header.element = slot->element;
        packet->header.max_bytes = slot->max_bytes;
        packet->header.sum_bytes = slot->sum_bytes;
        packet->header.leaves = 1;
    }
    up->sequence_of[up->next_number % m->numbers] = sequence;
    up->next_number++;
    return packet;
}

static uint32_t wire_bytes(const struct slot *slot) {
    return (uint32_t)(ETHERNET_IP_UDP_BYTES + ATOLL_HEADER_BYTES +
                      atoll_max_room(slot->max_bytes) + slot->sum_bytes);
}

static enum atoll_type data_type(const struct member *m) {
    return m->multicast ? ATOLL_RESULT : ATOLL_DATA;
}

static void send_slot(struct member *m, struct slot *slot, uint64_t now) {
    for (uint32_t u = 0; u < m->uplinks; u++)
        packet_up(m, &m->uplink[u], data_type(m), slot->sequence, slot);
    slot->sent_at_us = now;
    slot->sends++;
    m->count.sent += m->uplinks;
    m->flow.sent++;
    flow_charge(&m->flow, now, wire_bytes(slot));
}

/* Once more, on the one tree where it is lacking. */
static void send_repair(struct member *m, const struct repair *repair, uint64_t now) {
    struct uplink *up = &m->uplink[repair->uplink];
    struct slot *slot = slot_of(m, repair->sequence);
    uint32_t number = up->next_number;
    if (!was_sent(m, repair->sequence)) return;
    struct outgoing *packet = packet_up(m, up, data_type(m), slot->sequence, slot);
    if (repair->to_member) { /* apart from the numbers of the group */
        up->next_number = number;
        packet->to = repair->to;
    }
    packet->header.flags |= ATOLL_REPEAT;
    slot->sends++;
    slot->sent_at_us = now;
    m->count.repeats++;
    m->flow.lost++;
    flow_charge(&m->flow, now, wire_bytes(slot));
}

static bool is_queued(const struct member *m, const struct repair *repair) {
    for (uint32_t i = 0; i < m->repairs; i++) {
        const struct repair *other = &m->repair[(m->repair_first + i) % REPAIRS_MAX];
        if (other->sequence == repair->sequence && other->uplink == repair->uplink &&
            other->to_member == repair->to_member &&
            other->to.sin_addr.s_addr == repair->to.sin_addr.s_addr)
            return true;
    }
    return false;
}

/* If there is no room for it, whoever lacks it asks again. */
static void queue_repair(struct member *m, const struct repair *repair) {
    if (m->repairs == REPAIRS_MAX || is_queued(m, repair)) return;
    m->repair[(m->repair_first + m->repairs++) % REPAIRS_MAX] = *repair;
}

static void send_next_repair(struct member *m, uint64_t now) {
    struct repair repair = m->repair[m->repair_first];
    m->repair_first = (m->repair_first + 1) % REPAIRS_MAX;
    m->repairs--;
    send_repair(m, &repair, now);
}

static void fill_slot(struct member *m, uint64_t sequence) {
    struct slot *slot = slot_of(m, sequence);
    const struct chunk *chunk = &m->passage.chunks[sequence - m->passage.first];
    struct atoll_header header = {.max_bytes = 0};
    size_t room = atoll_max_room(chunk->max_bytes);
    uint8_t *areas = slot->areas;
    memset(slot, 0, sizeof *slot);
    slot->areas = areas;
    slot->sequence = sequence;
    slot->max_bytes = (uint16_t)chunk->max_bytes;
    slot->sum_bytes = (uint16_t)(chunk->sum_in ? chunk->sum_bytes : 0);
    slot->element = (uint8_t)(chunk->sum_in ? chunk->element : ATOLL_NONE);
    memset(areas, 0, room);
    if (chunk->max_bytes) memcpy(areas, (void *)(uintptr_t)chunk->max_in, chunk->max_bytes);
    if (slot->sum_bytes) memcpy(areas + room, (void *)(uintptr_t)chunk->sum_in, slot->sum_bytes);
    uint8_t *packet = areas - ATOLL_HEADER_BYTES;
    memcpy(packet, &header, sizeof header);
    slot->payload_hash = atoll_check(&m->key, packet, ATOLL_HEADER_BYTES + room + slot->sum_bytes) -
                         atoll_check(&m->key, packet, ATOLL_HEADER_BYTES);
}

static void fill_slots(struct member *m, uint64_t last) {
    for (; m->filled <= last; m->filled++) fill_slot(m, m->filled);
}

static bool may_send(struct member *m) {
    const struct passage *p = &m->passage;
    uint64_t next = m->next_sequence;
    if (next >= p->end) return false;
    return next < p->first + m->window || is_complete(m, next - m->window) ||
           next - m->window < p->base;
}

static void finish(struct member *m, enum status status) {
    pthread_mutex_lock(&m->lock);
    if (m->status == RUNNING) m->status = status;
    if (status != DONE) m->passage.end = m->filled = m->next_sequence;
    m->passage.base = m->passage.end;
    pthread_cond_broadcast(&m->changed);
    pthread_mutex_unlock(&m->lock);
}

static void advance_base(struct member *m) {
    struct passage *p = &m->passage;
    if (p->base == p->end) return;
    while (p->base < m->filled && p->base < p->end && is_complete(m, p->base)) p->base++;
    if (p->base == p->end && m->next_sequence == p->end)
        finish(m, DONE);
    else if (p->base == p->end)
        p->base--; /* all is here, but not all was sent */
}

static void send_next(struct member *m, uint64_t now) {
    fill_slots(m, m->next_sequence);
    send_slot(m, slot_of(m, m->next_sequence), now);
    m->next_sequence++;
}

/* The result is late if nothing came for as long as a result may take. */
static void start_probe_timer(struct member *m, uint64_t now) {
    uint64_t interval = flow_timeout_us(&m->flow) << (m->probes < 4 ? m->probes : 4);
    if (interval > LONGEST_ASK_INTERVAL_US) interval = LONGEST_ASK_INTERVAL_US;
    m->probe_at_us = now + interval;
}

/* New packets and repairs in turn, so that neither stands in the way of the other. */
static void send_what_may(struct member *m, uint64_t now) {
    bool sent = false, repaired = false;
    while (m->flow.next_send_us <= now) {
        bool can_send = may_send(m);
        if (m->repairs && (m->repair_is_next || !can_send)) {
            send_next_repair(m, now);
            m->repair_is_next = false;
            repaired = true;
        } else if (can_send) {
            send_next(m, now);
            m->repair_is_next = true;
            sent = true;
        } else {
            break;
        }
    }
    if (sent) start_probe_timer(m, now);
    if (!(sent || repaired) || !is_at_tail(m)) return;
    m->flushes_left = FLUSHES;
    m->flush_at_us = now;
    advance_base(m);
}

static void send_flush(struct member *m, uint64_t now) {
    for (uint32_t u = 0; u < m->uplinks; u++)
        packet_up(m, &m->uplink[u], ATOLL_FLUSH, m->next_sequence - 1, NULL);
    m->count.flushes++;
    m->flushes_left--;
    m->flush_at_us = now + FLUSH_INTERVAL_US;
}

static void send_one_ask(struct member *m, const struct stream *stream, uint64_t sequence,
                     uint32_t number, uint8_t flags) {
    struct outgoing *packet = next_packet(m, &stream->ask);
    packet->header.type = ATOLL_ASK;
    packet->header.flags = flags;
    packet->header.child = stream->child;
    packet->header.tree = stream->tree;
    packet->header.number = number;
    packet->header.sequence = sequence;
    m->count.asks++;
}

/* At the tail twice: of eight links that lose 1 % each, ask and answer get through in 85 of 100. */
static void send_ask(struct member *m, const struct stream *stream, uint64_t sequence,
                     uint32_t number, uint8_t flags) {
    send_one_ask(m, stream, sequence, number, flags);
    if (is_at_tail(m)) send_one_ask(m, stream, sequence, number, flags);
}

/* --- what comes ------------------------------------------------------------------------------- */

/* Numbers of a stream that were passed over by more than the tolerance are lost: ask for them. */
static void note_number(struct member *m, struct stream *stream, const struct atoll_header *header) {
    uint32_t ahead = header->number - stream->highest;
    if (!stream->started || stream->incarnation != header->incarnation ||
        (ahead > JUMP_NUMBERS && ahead <= UINT32_MAX / 2)) {
        stream->started = true;
        stream->incarnation = header->incarnation;
        stream->highest = header->number;
        stream->seen = UINT64_MAX;
        return;
    }
    if (ahead == 0 || ahead > UINT32_MAX / 2) {
        uint32_t behind = stream->highest - header->number;
        if (behind < GAP_BITS) stream->seen |= 1ull << behind;
        return;
    }
    for (uint32_t step = 0; step < ahead; step++) {
        stream->highest++;
        stream->seen = stream->seen << 1 | (step == ahead - 1);
        if (!(stream->seen >> REORDER_TOLERANCE & 1) && ahead - step <= 4 * GAP_BITS) {
            m->count.gaps++;
            m->flow.lost++;
            send_ask(m, stream, m->passage.base, stream->highest - REORDER_TOLERANCE,
                     ATOLL_BY_NUMBER);
        }
    }
}

static void note_delay(struct member *m, struct stream *stream, const struct atoll_header *header,
                       uint64_t now) {
    uint32_t transit = (uint32_t)now - header->sent_us;
    if (now > stream->least_until_us) {
        stream->least_transit_us = stream->least_until_us ? stream->next_least_us : transit;
        stream->next_least_us = transit;
        stream->least_until_us = now + DELAY_MEMORY_US;
    }
    if ((int32_t)(transit - stream->next_least_us) < 0) stream->next_least_us = transit;
    if ((int32_t)(transit - stream->least_transit_us) < 0) stream->least_transit_us = transit;
    uint32_t queued = transit - stream->least_transit_us;
    if (header->delay_us > queued) queued = header->delay_us;
    if (queued < m->flow.least_queue_us) m->flow.least_queue_us = queued;
    if (header->flags & ATOLL_CONGESTED) m->flow.congested = true;
}

static bool guard_holds(const struct chunk *chunk, const uint8_t *areas) {
    return !chunk->is_guard ||
           memcmp(areas, (void *)(uintptr_t)chunk->max_in, chunk->max_bytes) == 0;
}

/* A member may have nothing to give where others do. */
static bool shape_is_right(const struct chunk *chunk, const struct atoll_header *header) {
    return header->max_bytes == chunk->max_bytes &&
           (header->sum_bytes == 0 || (header->sum_bytes == chunk->sum_bytes &&
                                       header->element == chunk->element));
}

/* Later results are here: what is missing before them is not merely late. */
static void watch_holes(struct member *m, uint32_t s, uint64_t sequence, uint64_t now) {
    struct stream *stream = &m->stream[s];
    uint64_t from = stream->furthest > m->passage.base ? stream->furthest : m->passage.base;
    for (uint64_t q = from; q < sequence; q++) {
        struct slot *slot = slot_of(m, q);
        if (slot->got >> s & 1) continue;
        slot->overtaken |= 1ull << s;
        if (slot->ask_at_us == 0) slot->ask_at_us = now + flow_hole_us(&m->flow);
    }
    if (sequence + 1 > stream->furthest) stream->furthest = sequence + 1;
}

static void take_result(struct member *m, uint32_t s, const struct atoll_header *header,
                        const uint8_t *areas, uint64_t now) {
    struct passage *p = &m->passage;
    uint64_t sequence = header->sequence;
    const struct chunk *chunk = &p->chunks[sequence - p->first];
    struct slot *slot = slot_of(m, sequence);
    if (slot->got >> s & 1) {
        m->count.duplicates++;
        return;
    }
    if (!shape_is_right(chunk, header) || !guard_holds(chunk, areas)) {
        m->count.conflicts++;
        while (m->next_sequence <= sequence) send_next(m, now); /* the others are to see it too */
        finish(m, DISAGREE);
        return;
    }
    if (chunk->max_bytes)
        memcpy((uint8_t *)(uintptr_t)chunk->max_out + s * p->max_stride, areas, chunk->max_bytes);
    if (header->sum_bytes)
        memcpy((uint8_t *)(uintptr_t)chunk->sum_out + s * p->sum_stride,
               areas + atoll_max_room(chunk->max_bytes), header->sum_bytes);
    slot->got |= 1ull << s;
    m->count.results++;
    m->probes = 0;
    start_probe_timer(m, now);
    watch_holes(m, s, sequence, now);
    if (slot->got != m->all_streams) return;
    if (slot->sends == 1 && !slot->asks) flow_sample(&m->flow, now - slot->sent_at_us);
    advance_base(m);
}

bool make_early(struct member *m) {
    size_t count = m->streams * (size_t)m->window;
    m->early = calloc(count, sizeof *m->early);
    uint8_t *areas = m->early ? malloc(count * m->area_bytes) : NULL;
    for (size_t i = 0; areas && i < count; i++) {
        m->early[i].header.sequence = ATOLL_NO_SEQUENCE;
        m->early[i].areas = areas + i * m->area_bytes;
    }
    return areas != NULL;
}

/* Others may be one window ahead of the end of the last message, and no more. */
static void keep_for_later(struct member *m, uint32_t s, const struct atoll_header *header,
                           const uint8_t *areas) {
    size_t bytes = atoll_max_room(header->max_bytes) + header->sum_bytes;
    if (header->sequence >= m->passage.end + m->window || bytes > m->area_bytes) {
        m->count.stale++;
        return;
    }
    struct early *early = &m->early[s * m->window + header->sequence % m->window];
    early->header = *header;
    memcpy(early->areas, areas, bytes);
    m->count.early++;
}

static void on_result(struct member *m, uint32_t s, const struct atoll_header *header,
                      const uint8_t *areas, uint64_t now) {
    struct stream *stream = &m->stream[s];
    if (!(header->flags & ATOLL_REPEAT)) {
        note_number(m, stream, header);
        note_delay(m, stream, header, now);
    }
    bool can_be = header->sequence < m->passage.base + 2ull * m->window;
    if (header->sequence >= m->passage.end) {
        keep_for_later(m, s, header, areas);
        return;
    }
    if (header->sequence >= m->passage.base && can_be) fill_slots(m, header->sequence);
    if (is_outstanding(m, header->sequence))
        take_result(m, s, header, areas, now);
    else
        m->count.stale++;
}

/* Results that came too early, now that their message has begun. */
static void take_early(struct member *m, uint64_t now) {
    uint64_t first = m->passage.first, end = first + m->window;
    if (end > m->passage.end) end = m->passage.end;
    for (uint64_t q = first; q < end; q++) {
        for (uint32_t s = 0; s < m->streams; s++) {
            struct early *early = &m->early[s * m->window + q % m->window];
            if (early->header.sequence != q || q >= m->passage.end) continue;
            fill_slots(m, q);
            take_result(m, s, &early->header, early->areas, now);
            early->header.sequence = ATOLL_NO_SEQUENCE;
        }
    }
}

static struct uplink *uplink_of(struct member *m, uint16_t tree) {
    for (uint32_t u = 0; u < m->uplinks; u++)
        if (m->uplink[u].tree == tree) return &m->uplink[u];
    return NULL;
}

static uint64_t meant(struct member *m, const struct uplink *up, const struct atoll_header *header) {
    if (!(header->flags & ATOLL_BY_NUMBER)) return header->sequence;
    if (up->next_number - header->number - 1 >= m->numbers) return ATOLL_NO_SEQUENCE;
    return up->sequence_of[header->number % m->numbers];
}

/* For how long what was sent may be on its way to the accelerator. */
static uint64_t hold_us(const struct member *m) {
    uint64_t hold = m->flow.configured_us / 2;
    return hold < 5000 ? 5000 : hold > 100000 ? 100000 : hold;
}

/* An accelerator lacks what this member sent, or (`multicast`) another member does. */
static void on_resend(struct member *m, const struct atoll_header *header,
                      const struct sockaddr_in *asker, uint64_t now) {
    struct uplink *up = uplink_of(m, header->tree);
    uint64_t sequence = up ? meant(m, up, header) : ATOLL_NO_SEQUENCE;
    m->count.resends_asked++;
    if (sequence == ATOLL_NO_SEQUENCE || !was_sent(m, sequence)) return;
    bool by_number = header->flags & ATOLL_BY_NUMBER;
    bool result_is_known = m->streams == 1 && m->stream[0].tree == header->tree &&
                           is_complete(m, sequence);
    bool is_on_its_way = now < slot_of(m, sequence)->sent_at_us + hold_us(m);
    if (!asker && ((by_number && result_is_known) || (!by_number && is_on_its_way))) {
        m->count.resends_held++;
        return;
    }
    struct repair repair = {.sequence = sequence, .uplink = (uint32_t)(up - m->uplink)};
    if (asker) {
        repair.to_member = true;
        repair.to = *asker;
    }
    queue_repair(m, &repair);
}

static void dispatch(struct member *m, int s, const struct sockaddr_in *from,
                     const struct atoll_header *header, const uint8_t *areas) {
    uint64_t now = now_us();
    switch (header->type) {
    case ATOLL_RESULT:
        if (s < 0) return;
        if (header->leaves == m->stream[s].leaves)
            on_result(m, (uint32_t)s, header, areas, now);
        else
            m->count.conflicts++; /* a tree that sums others than this member was told */
        return;
    case ATOLL_FLUSH:
        if (s >= 0) note_number(m, &m->stream[s], header);
        return;
    case ATOLL_RESEND:
        on_resend(m, header, NULL, now);
        return;
    case ATOLL_ASK:
        if (m->multicast) on_resend(m, header, from, now);
        return;
    case ATOLL_LOST:
        m->count.lost++;
        if (s >= 0 && is_outstanding(m, header->sequence)) finish(m, LOST);
        return;
    default: /* DONE: the slots answer for two windows whatever it says */
        return;
    }
}

static bool may_come_from(const struct member *m, int s, const struct atoll_header *header,
                          uint32_t source) {
    if (header->type == ATOLL_RESEND) return true; /* from the accelerator in line, wherever it is */
    if (header->type == ATOLL_ASK) {
        for (uint32_t i = 0; i < m->places; i++)
            if (m->place[i] == source) return true;
        return false;
    }
    return s < 0 || m->stream[s].source == 0 || m->stream[s].source == source;
}

void handle_packet(struct member *m, const struct sockaddr_in *from, uint8_t *packet,
                   size_t bytes) {
    struct atoll_header header;
    int s = -1;
    if (!atoll_decode(packet, bytes, &header)) {
        m->count.malformed++;
        return;
    }
    for (uint32_t i = 0; i < m->streams && s < 0; i++)
        if (m->stream[i].tree == header.tree) s = (int)i;
    if (header.job != m->job || (s < 0 && !uplink_of(m, header.tree)) ||
        !may_come_from(m, s, &header, from->sin_addr.s_addr)) {
        m->count.foreign++;
        return;
    }
    if (!atoll_genuine(&m->key, packet, bytes)) {
        m->count.forged++;
        return;
    }
    dispatch(m, s, from, &header, packet + ATOLL_HEADER_BYTES);
}

/* --- time ------------------------------------------------------------------------------------- */

static void ask_for(struct member *m, struct slot *slot, uint64_t streams, uint64_t now) {
    for (uint32_t s = 0; s < m->streams; s++)
        if ((streams & ~slot->got) >> s & 1) send_ask(m, &m->stream[s], slot->sequence, 0, 0);
    uint64_t wait = slot->overtaken ? flow_hole_us(&m->flow) : flow_timeout_us(&m->flow);
    uint64_t interval = wait << (slot->asks < 4 ? slot->asks : 4);
    if (interval > LONGEST_ASK_INTERVAL_US) interval = LONGEST_ASK_INTERVAL_US;
    slot->asks++;
    slot->ask_at_us = now + interval;
}

/* Ask for the oldest result that is missing, when there is silence. It may be that a member has
   not come yet, so that the silence may last. */
static void probe(struct member *m, uint64_t now) {
    uint32_t asked = 0;
    for (uint64_t q = m->passage.base; is_outstanding(m, q) && asked < PROBES_AT_ONCE; q++) {
        struct slot *slot = slot_of(m, q);
        if (slot->got == m->all_streams) continue;
        ask_for(m, slot, m->all_streams, now);
        asked++;
    }
    m->count.probes++;
    m->probes++;
    start_probe_timer(m, now);
}

static void look_at_timers(struct member *m, uint64_t now) {
    uint32_t asked = 0;
    if (now < m->timers_at_us) return;
    m->timers_at_us = now + TIMER_US;
    for (uint64_t q = m->passage.base; is_outstanding(m, q) && asked < ASKS_AT_ONCE; q++) {
        struct slot *slot = slot_of(m, q);
        if (slot->got == m->all_streams || slot->ask_at_us == 0 || slot->ask_at_us > now) continue;
        ask_for(m, slot, slot->overtaken, now);
        asked++;
    }
    if (m->passage.base < m->passage.end && now >= m->probe_at_us) probe(m, now);
    if (flow_judge(&m->flow, now)) m->count.backoffs++;
}

static uint64_t next_event_us(struct member *m, uint64_t now) {
    uint64_t next = now + IDLE_US;
    if (m->passage.base < m->passage.end && m->timers_at_us < next) next = m->timers_at_us;
    if (m->flushes_left && m->flush_at_us < next) next = m->flush_at_us;
    if ((m->repairs || may_send(m)) && m->flow.next_send_us < next) next = m->flow.next_send_us;
    return next;
}

static void begin_pending(struct member *m) {
    m->passage = m->pending;
    m->passage.first = m->passage.base = m->next_sequence;
    m->passage.end += m->next_sequence;
    m->asked_to_begin = false;
    m->has_begun = true;
    m->timers_at_us = 0;
    m->probes = 0;
    start_probe_timer(m, now_us());
}

/* Do what callers asked for; returns false when that is to stop. */
static bool obey(struct member *m) {
    uint64_t count;
    if (read(m->wake, &count, sizeof count) < 0 && errno != EAGAIN) return false;
    pthread_mutex_lock(&m->lock);
    bool go_on = !m->asked_to_stop;
    if (m->asked_to_abort) {
        if (m->status == RUNNING) m->status = ABORTED;
        m->filled = m->passage.base = m->passage.end = m->next_sequence;
        m->asked_to_abort = m->asked_to_begin = false;
    }
    if (m->asked_to_jump && m->jump_to >= m->next_sequence) {
        m->next_sequence = m->filled = m->passage.base = m->passage.end = m->jump_to;
        m->flushes_left = 0;
        for (uint32_t s = 0; s < m->streams; s++) m->stream[s].furthest = m->jump_to;
    }
    m->asked_to_jump = false;
    if (m->asked_to_begin) begin_pending(m);
    pthread_cond_broadcast(&m->changed);
    pthread_mutex_unlock(&m->lock);
    return go_on;
}

static void pause_us(uint64_t us) {
    struct timespec pause = {0, (long)us * 1000};
    nanosleep(&pause, NULL);
}

/* Over a long way nobody minds a little later: fewer, larger batches spare every hop work. */
static void coalesce(struct member *m) {
    uint64_t since = now_us() - m->woken_at_us;
    if (since < m->coalesce_us) pause_us(m->coalesce_us - since);
    m->woken_at_us = now_us();
}

static void wait_for_something(struct member *m, struct pollfd *polled) {
    coalesce(m);
    uint64_t now = now_us(), next = next_event_us(m, now), wait = next > now ? next - now : 0;
    struct timespec limit = {(time_t)(wait / 1000000), (long)(wait % 1000000) * 1000};
    for (uint32_t i = 0; i < m->fds; i++) polled[i] = (struct pollfd){m->fd[i], POLLIN, 0};
    polled[m->fds] = (struct pollfd){m->wake, POLLIN, 0};
    if (ppoll(polled, m->fds + 1, &limit, NULL) < 0)
        for (uint32_t i = 0; i <= m->fds; i++) polled[i].revents = 0;
}

void *serve_member(void *argument) {
    struct member *m = argument;
    struct pollfd polled[FDS_MAX];
    /* Others wait for this thread, so that it goes before the computing; if it may not, it may not. */
    (void)!setpriority(PRIO_PROCESS, (id_t)gettid(), NICENESS);
    for (;;) {
        wait_for_something(m, polled);
        if (polled[m->fds].revents && !obey(m)) return NULL;
        bool more = false;
        for (uint32_t i = 0; i < m->fds; i++)
            if (polled[i].revents && receive_some(m, m->fd[i])) more = true;
        uint64_t now = now_us();
        if (m->has_begun) take_early(m, now);
        m->has_begun = false;
        send_what_may(m, now);
        if (m->flushes_left && now >= m->flush_at_us) send_flush(m, now);
        if (!more) look_at_timers(m, now); /* what is late may be among what was not read yet */
        transmit(m);
    }
}
