#include "tree.h"

#include <stdlib.h>

/* What every step needs to know of the packet at hand. */
struct step {
    struct tree *tree;
    const struct atoll_header *header;
    const struct arrived *arrived;
    struct outbox *outbox;
};

void tree_config_free(struct tree_config *config)
{
    free(config->children.at);
    free(config->members.at);
    free(config->results.at);
    free(config->notices.at);
}

static uint32_t ring_size(uint32_t window)
{
    uint32_t size = 64;

    while (size < 4 * window)
        size *= 2;
    return size;
}

static bool reserve(struct tree *tree)
{
    size_t sets = 2 * (size_t)tree->config.window, ring = ring_size(tree->config.window);

    tree->ring_mask = (uint32_t)ring - 1;
    tree->ring = calloc(ring, sizeof *tree->ring);
    tree->sets = calloc(sets, sizeof *tree->sets);
    tree->arrivals = calloc((size_t)tree->config.children.count, sizeof *tree->arrivals);
    tree->areas = calloc(sets, ATOLL_AREA_MAX_BYTES);
    if (!tree->ring || !tree->sets || !tree->arrivals || !tree->areas)
        return false;
    for (size_t i = 0; i < ring; i++)
        tree->ring[i].sequence = ATOLL_NO_SEQUENCE;
    for (size_t i = 0; i < sets; i++)
        tree->sets[i].sequence = ATOLL_NO_SEQUENCE;
    return true;
}

static void release(struct tree *tree)
{
    free(tree->ring);
    free(tree->sets);
    free(tree->arrivals);
    free(tree->areas);
    free(tree);
}

struct tree *tree_new(const struct tree_config *config, uint32_t incarnation)
{
    struct tree *tree = calloc(1, sizeof *tree);

    if (!tree)
        return NULL;
    tree->config = *config;
    tree->incarnation = incarnation;
    tree->all_children = UINT64_MAX >> (CHILDREN_MAX - config->children.count);
    atoll_key_of(&tree->key, config->secret);
    if (reserve(tree))
        return tree;
    release(tree);
    return NULL;
}

void tree_free(struct tree *tree)
{
    tree_config_free(&tree->config);
    release(tree);
}

static bool is_root(const struct tree *tree)
{
    return tree->config.up.sin_port == 0;
}

/* --- sets ------------------------------------------------------------------------------------- */

static struct set *set_at(const struct tree *tree, uint64_t sequence)
{
    return &tree->sets[sequence % (2 * (uint64_t)tree->config.window)];
}

static uint8_t *areas_of(const struct tree *tree, const struct set *set)
{
    return tree->areas + (size_t)(set - tree->sets) * ATOLL_AREA_MAX_BYTES;
}

static bool is_newer(const struct set *set, uint64_t sequence)
{
    return set->sequence != ATOLL_NO_SEQUENCE && set->sequence > sequence;
}

static bool has_complete(const struct set *set, uint64_t sequence)
{
    return set->complete && set->sequence == sequence;
}

/* Gives a set to a sequence that is not older than what it holds. */
static void claim(struct tree *tree, struct set *set, uint64_t sequence)
{
    if (set->sequence == sequence)
        return;
    if (set->received && !set->complete)
        tree->count.evictions++;
    *set = (struct set){.sequence = sequence};
}

/* --- sending ---------------------------------------------------------------------------------- */

static struct atoll_header header_of(const struct step *step, enum atoll_type type,
                                     uint64_t sequence)
{
    return (struct atoll_header){
        .type = (uint8_t)type,
        .child = ATOLL_NO_CHILD,
        .job = step->tree->config.job,
        .tree = step->tree->config.tree,
        .sequence = sequence,
        .sent_us = (uint32_t)step->arrived->now_us,
        .incarnation = step->tree->incarnation,
    };
}

static void send_areas(const struct step *step, struct atoll_header *header, const void *areas,
                       const struct sockaddr_in *destination)
{
    struct outgoing *out = outbox_next(step->outbox);

    out->destination = *destination;
    out->bytes = (uint32_t)atoll_packet_bytes(header);
    memcpy(out->packet + ATOLL_HEADER_BYTES, areas, out->bytes - ATOLL_HEADER_BYTES);
    atoll_seal(&step->tree->key, header, out->packet);
    step->tree->count.sent++;
}

static void send_bare(const struct step *step, struct atoll_header *header,
                      const struct sockaddr_in *destination)
{
    send_areas(step, header, "", destination);
}

static uint32_t next_number(struct tree *tree, uint64_t sequence)
{
    tree->ring[tree->number & tree->ring_mask] = (struct remembered){tree->number, sequence};
    return tree->number++;
}

/* The sequence that was sent under a number, while that is remembered. */
static uint64_t numbered(const struct tree *tree, uint32_t number)
{
    const struct remembered *remembered = &tree->ring[number & tree->ring_mask];

    return remembered->number == number ? remembered->sequence : ATOLL_NO_SEQUENCE;
}

static struct atoll_header sum_header(const struct step *step, enum atoll_type type,
                                      const struct set *set)
{
    struct atoll_header header = header_of(step, type, set->sequence);

    header.flags = set->congested;
    header.leaves = set->leaves;
    header.delay_us = set->delay_us;
    header.element = set->element;
    header.max_bytes = set->max_bytes;
    header.sum_bytes = set->sum_bytes;
    return header;
}

static void send_up(const struct step *step, struct set *set, uint8_t flags)
{
    struct tree *tree = step->tree;
    struct atoll_header header = sum_header(step, ATOLL_DATA, set);

    set->was_sent = true;
    set->sent_us = step->arrived->now_us;
    header.flags |= flags;
    header.child = tree->config.child;
    header.number = next_number(tree, set->sequence);
    send_areas(step, &header, areas_of(tree, set), &tree->config.up);
}

/* Bit i: sequence - i is complete. A set that went on was complete before. */
static uint64_t done_bitmap(const struct tree *tree, uint64_t sequence)
{
    uint64_t bitmap = 0;

    for (uint64_t back = 0; back < ATOLL_DONE_BITS && back <= sequence; back++) {
        const struct set *set = set_at(tree, sequence - back);

        if (has_complete(set, sequence - back) || is_newer(set, sequence - back))
            bitmap |= 1ull << back;
    }
    return bitmap;
}

static void send_done(const struct step *step, struct atoll_header *header,
                      const struct sockaddr_in *destination)
{
    uint64_t bitmap = done_bitmap(step->tree, header->sequence);

    header->max_bytes = sizeof bitmap;
    send_areas(step, header, &bitmap, destination);
}

static void announce(const struct step *step)
{
    struct tree *tree = step->tree;

    tree->unannounced = false;
    for (int i = 0; i < tree->config.notices.count; i++) {
        struct atoll_header header = header_of(step, ATOLL_DONE, tree->newest);

        tree->count.notices++;
        send_done(step, &header, &tree->config.notices.at[i]);
    }
}

static void send_results(const struct step *step, const struct set *set)
{
    struct tree *tree = step->tree;
    const struct tree_config *config = &tree->config;
    uint32_t number = next_number(tree, set->sequence);

    for (int i = 0; i < config->results.count; i++) {
        struct atoll_header header = sum_header(step, ATOLL_RESULT, set);

        header.number = number;
        send_areas(step, &header, areas_of(tree, set), &config->results.at[i]);
    }
    if (set->sequence > tree->newest)
        tree->newest = set->sequence;
    tree->unannounced = config->notices.count > 0;
    if (tree->unannounced && set->sequence % config->notice_every == config->notice_every - 1)
        announce(step);
}

static void request(const struct step *step, int child, struct atoll_header *header)
{
    step->tree->count.resends++;
    header->child = (uint16_t)child;
    send_bare(step, header, &step->tree->config.children.at[child]);
}

static bool is_held(const struct step *step, bool was, uint64_t then_us)
{
    return was && step->arrived->now_us - then_us < step->tree->config.hold_us;
}

static void request_missing(const struct step *step, struct set *set)
{
    if (is_held(step, set->was_requested, set->requested_us))
        return;
    set->was_requested = true;
    set->requested_us = step->arrived->now_us;
    for (int child = 0; child < step->tree->config.children.count; child++) {
        struct atoll_header header = header_of(step, ATOLL_RESEND, set->sequence);

        if (!(set->received >> child & 1))
            request(step, child, &header);
    }
}

/* --- what is asked for ------------------------------------------------------------------------ */

static void answer(const struct step *step, const struct set *set, uint64_t sequence)
{
    struct tree *tree = step->tree;
    const struct atoll_header *ask = step->header;
    const struct sockaddr_in *member = &tree->config.members.at[ask->member];
    struct atoll_header header;

    if (ask->type == ATOLL_ASK && ask->flags & ATOLL_HEADER_ONLY)
        header = header_of(step, ATOLL_DONE, sequence);
    else if (has_complete(set, sequence))
        header = sum_header(step, ATOLL_RESULT, set);
    else
        header = header_of(step, ATOLL_LOST, sequence);
    header.member = ask->member;
    header.flags |= ATOLL_REPEAT;
    *(header.type == ATOLL_LOST ? &tree->count.lost : &tree->count.late) += 1;
    if (header.type == ATOLL_DONE)
        send_done(step, &header, member);
    else if (header.type == ATOLL_RESULT)
        send_areas(step, &header, areas_of(tree, set), member);
    else
        send_bare(step, &header, member);
}

static void look_for(const struct step *step, uint64_t sequence)
{
    struct set *set = set_at(step->tree, sequence);

    if (!is_newer(set, sequence)) {
        claim(step->tree, set, sequence);
        if (!set->complete) {
            request_missing(step, set);
            return;
        }
    }
    if (is_root(step->tree))
        answer(step, set, sequence);
}

static void forward_ask(const struct step *step)
{
    const struct atoll_header *ask = step->header;
    struct atoll_header header = header_of(step, ATOLL_ASK, ask->sequence);

    if (ask->type == ATOLL_ASK) {
        header.flags = ask->flags & (ATOLL_BY_NUMBER | ATOLL_HEADER_ONLY);
        header.number = ask->number;
    }
    header.child = step->tree->config.child;
    header.member = ask->member;
    send_bare(step, &header, &step->tree->config.up);
}

static void take_ask(const struct step *step)
{
    struct tree *tree = step->tree;
    uint64_t sequence = step->header->sequence;

    tree->count.asks++;
    if (step->header->type == ATOLL_ASK && step->header->flags & ATOLL_BY_NUMBER)
        sequence = is_root(tree) ? numbered(tree, step->header->number) : ATOLL_NO_SEQUENCE;
    if (sequence != ATOLL_NO_SEQUENCE)
        look_for(step, sequence);
    if (!is_root(tree))
        forward_ask(step);
}

static void repeat(const struct step *step, struct set *set)
{
    step->tree->count.repeats++;
    send_up(step, set, ATOLL_REPEAT);
}

static void take_resend_by_number(const struct step *step)
{
    uint64_t sequence = numbered(step->tree, step->header->number);
    struct set *set;

    if (sequence == ATOLL_NO_SEQUENCE)
        return;
    set = set_at(step->tree, sequence);
    if (has_complete(set, sequence))
        repeat(step, set);
}

/* The parent lacks a sum: send it again, or ask below for what it consists of. */
static void take_resend(const struct step *step)
{
    uint64_t sequence = step->header->sequence;
    struct set *set = set_at(step->tree, sequence);

    if (is_newer(set, sequence))
        return;
    claim(step->tree, set, sequence);
    if (!set->complete)
        request_missing(step, set);
    else if (!is_held(step, set->was_sent, set->sent_us))
        repeat(step, set);
}

/* --- what children send ----------------------------------------------------------------------- */

static uint32_t note_arrival(const struct step *step)
{
    const struct atoll_header *header = step->header;
    struct arrivals *arrivals = &step->tree->arrivals[header->child];
    uint32_t missing[SEEN_NUMBERS];
    int count = arrivals_missing(arrivals, header->number, missing);

    for (int i = 0; i < count; i++) {
        struct atoll_header resend = header_of(step, ATOLL_RESEND, 0);

        step->tree->count.gaps++;
        resend.flags = ATOLL_BY_NUMBER;
        resend.number = missing[i];
        request(step, header->child, &resend);
    }
    return arrivals_queueing(arrivals, step->arrived->now_us, header->sent_us);
}

static bool has_shape(const struct set *set, const struct atoll_header *header)
{
    return set->element == header->element && set->max_bytes == header->max_bytes &&
           set->sum_bytes == header->sum_bytes;
}

static void mark(const struct step *step, struct set *set, uint32_t queueing_us)
{
    const struct atoll_header *header = step->header;
    uint32_t delay_us = header->delay_us > queueing_us ? header->delay_us : queueing_us;

    if (delay_us > set->delay_us)
        set->delay_us = delay_us;
    if (step->arrived->congested || header->flags & ATOLL_CONGESTED)
        set->congested = ATOLL_CONGESTED;
}

static void add_areas(const struct step *step, struct set *set)
{
    const struct atoll_header *header = step->header;
    const uint8_t *from = step->arrived->packet + ATOLL_HEADER_BYTES;
    uint8_t *into = areas_of(step->tree, set);

    if (set->received) {
        atoll_add(into, from, header);
        return;
    }
    set->element = header->element;
    set->max_bytes = header->max_bytes;
    set->sum_bytes = header->sum_bytes;
    memset(into, 0, atoll_max_room(header->max_bytes));
    memcpy(into, from, header->max_bytes);
    memcpy(into + atoll_max_room(header->max_bytes), from + atoll_max_room(header->max_bytes),
           header->sum_bytes);
}

static void contribute(const struct step *step, struct set *set, uint32_t queueing_us)
{
    struct tree *tree = step->tree;

    if (set->received && !has_shape(set, step->header)) {
        tree->count.conflicts++;
        return;
    }
    mark(step, set, queueing_us);
    add_areas(step, set);
    set->received |= 1ull << step->header->child;
    set->leaves = (uint16_t)(set->leaves + step->header->leaves);
    tree->count.contributions++;
    if (set->received != tree->all_children)
        return;
    set->complete = true;
    tree->count.sums++;
    if (is_root(tree))
        send_results(step, set);
    else
        send_up(step, set, 0);
}

static void take_data(const struct step *step)
{
    struct tree *tree = step->tree;
    uint64_t sequence = step->header->sequence;
    struct set *set = set_at(tree, sequence);
    uint32_t queueing_us = note_arrival(step);

    if (is_newer(set, sequence)) {
        tree->count.stale++;
    } else if (set->sequence == sequence && set->received >> step->header->child & 1) {
        tree->count.duplicates++;
    } else {
        claim(tree, set, sequence);
        contribute(step, set, queueing_us);
    }
    if (step->header->flags & ATOLL_ASKING)
        take_ask(step);
}

static void take_flush(const struct step *step)
{
    struct tree *tree = step->tree;
    struct atoll_header header;

    tree->count.flushes++;
    note_arrival(step);
    header = header_of(step, ATOLL_FLUSH, step->header->sequence);
    header.number = next_number(tree, ATOLL_NO_SEQUENCE);
    if (!is_root(tree)) {
        header.child = tree->config.child;
        send_bare(step, &header, &tree->config.up);
    }
    for (int i = 0; i < tree->config.results.count; i++)
        send_bare(step, &header, &tree->config.results.at[i]);
    if (tree->unannounced)
        announce(step);
}

/* --- who may say what ------------------------------------------------------------------------- */

static bool is_wanted(const struct tree *tree, unsigned type)
{
    return type == ATOLL_DATA || type == ATOLL_ASK || type == ATOLL_FLUSH ||
           (type == ATOLL_RESEND && !is_root(tree));
}

static bool same_address(const struct sockaddr_in *one, const struct sockaddr_in *other)
{
    return one->sin_addr.s_addr == other->sin_addr.s_addr && one->sin_port == other->sin_port;
}

/* Whether a packet for the way up comes from the child, or the member, that it names. */
static bool is_from(const struct tree *tree, const struct atoll_header *header,
                    const struct sockaddr_in *source)
{
    const struct tree_config *config = &tree->config;
    bool asks = header->type == ATOLL_ASK || header->flags & ATOLL_ASKING;

    if (is_root(tree) && asks && header->member >= config->members.count)
        return false;
    if (is_root(tree) && header->type == ATOLL_ASK && header->child == ATOLL_NO_CHILD)
        return same_address(&config->members.at[header->member], source);
    return header->child < config->children.count &&
           same_address(&config->children.at[header->child], source);
}

static void obey(const struct step *step)
{
    switch (step->header->type) {
    case ATOLL_DATA:
        take_data(step);
        break;
    case ATOLL_FLUSH:
        take_flush(step);
        break;
    case ATOLL_ASK:
        take_ask(step);
        break;
    default:
        if (step->header->flags & ATOLL_BY_NUMBER)
            take_resend_by_number(step);
        else
            take_resend(step);
    }
}

void tree_handle(struct tree *tree, const struct atoll_header *header, const struct arrived *arrived,
                 struct outbox *outbox)
{
    const struct step step = {tree, header, arrived, outbox};

    tree->count.packets++;
    tree->count.packet_bytes += arrived->bytes;
    if (!is_wanted(tree, header->type))
        tree->count.stray++;
    else if (header->type != ATOLL_RESEND && !is_from(tree, header, &arrived->source))
        tree->count.foreign++;
    else if (!atoll_genuine(&tree->key, arrived->packet, arrived->bytes))
        tree->count.corrupt++;
    else
        obey(&step);
}
