#include "direction.h"

#include <stdlib.h>
#include <string.h>

/* A segmentation-offload frame moves whole if it takes the wire for less than this and for less
 * than this part of the queue: TCP sizes its bursts to a millisecond of its pace. */
static const uint64_t WHOLE_MAX_NS = 2000000;
static const uint64_t WHOLE_QUEUE_PARTS = 8;

/* SplitMix64: G. Steele, D. Lea, C. Flood, "Fast splittable pseudorandom number generators", 2014. */
static uint64_t next_random(uint64_t *state)
{
    uint64_t mixed = *state += 0x9e3779b97f4a7c15ull;

    mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9ull;
    mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111ebull;
    return mixed ^ mixed >> 31;
}

static void seed_streams(struct direction *direction)
{
    uint64_t state = direction->set[SEED] ^ (direction->identity + 1) * 0xd1342543de82ef95ull;

    for (int i = 0; i < STREAMS; i++)
        direction->random[i] = next_random(&state);
    direction->bad = false;
}

static bool chance(struct direction *direction, enum random_stream stream, uint64_t billionths)
{
    if (billionths == 0)
        return false;
    return (next_random(&direction->random[stream]) >> 32) * ONE_BILLION >> 32 < billionths;
}

void direction_open(struct direction *direction, uint64_t identity)
{
    memset(direction, 0, sizeof *direction);
    direction->identity = identity;
    seed_streams(direction);
}

static struct frame *unlink_head(struct direction *direction)
{
    struct frame *frame = direction->head;

    direction->head = frame->next;
    if (!direction->head)
        direction->tail = NULL;
    frame->next = NULL;
    return frame;
}

void direction_close(struct direction *direction, struct pool *pool)
{
    while (direction->head)
        frame_free(pool, unlink_head(direction));
    while (direction->early_count)
        frame_free(pool, direction->early[--direction->early_count]);
    free(direction->early);
    direction->early = NULL;
}

static uint64_t wire_ns(const struct direction *direction, uint64_t wire_bytes)
{
    if (direction->set[RATE] == 0)
        return 0;
    return wire_bytes * 8 * ONE_BILLION / direction->set[RATE];
}

bool direction_cuts(const struct direction *direction, const struct frame *frame)
{
    const uint64_t *set = direction->set;
    uint64_t time = wire_ns(direction, frame->wire_bytes);

    if (frame->wire_frames < 2)
        return false;
    if (set[LOSS] || set[GE_ENTER] || set[GE_GOOD] || set[DUPLICATE] || set[CORRUPT])
        return true;
    return time > WHOLE_MAX_NS || (set[RATE] && time > set[QUEUE] / WHOLE_QUEUE_PARTS);
}

static bool draw_burst_loss(struct direction *direction)
{
    const uint64_t *set = direction->set;
    bool bad = direction->bad;

    if (set[GE_ENTER] == 0 && set[GE_GOOD] == 0 && !bad)
        return false;
    if (chance(direction, DRAW_LOSS, bad ? set[GE_LEAVE] : set[GE_ENTER]))
        direction->bad = !bad;
    return chance(direction, DRAW_LOSS, bad ? set[GE_BAD] : set[GE_GOOD]);
}

struct fate direction_draw(struct direction *direction)
{
    const uint64_t *set = direction->set;
    struct fate fate = {0};

    fate.lost = chance(direction, DRAW_LOSS, set[LOSS]);
    if (draw_burst_loss(direction))
        fate.lost = true;
    fate.duplicated = chance(direction, DRAW_DUPLICATE, set[DUPLICATE]);
    fate.corrupted = chance(direction, DRAW_CORRUPT, set[CORRUPT]);
    if (fate.corrupted)
        fate.bit = next_random(&direction->random[DRAW_BIT]);
    return fate;
}

bool direction_admits(const struct direction *direction, uint64_t now, uint64_t wire_bytes)
{
    uint64_t wait = direction->departed_ns > now ? direction->departed_ns - now : 0;

    if (direction->set[RATE] == 0)
        return true;
    return wait + wire_ns(direction, wire_bytes) <= direction->set[QUEUE];
}

/* The virtual clock: when `bits` that are ready at `now` have left the transmitter. */
static uint64_t depart(struct direction *direction, uint64_t now, uint64_t bits)
{
    uint64_t rate = direction->set[RATE], work;

    if (direction->departed_ns <= now) {
        direction->departed_ns = now;
        direction->remainder = 0;
    }
    if (rate) {
        work = bits * ONE_BILLION + direction->remainder;
        direction->departed_ns += work / rate;
        direction->remainder = work % rate;
    }
    return direction->departed_ns;
}

static int64_t draw_jitter(struct direction *direction)
{
    uint64_t jitter = direction->set[JITTER];

    if (jitter == 0)
        return 0;
    return (int64_t)(next_random(&direction->random[DRAW_JITTER]) % (2 * jitter + 1)) -
           (int64_t)jitter;
}

static bool earlier(const struct frame *one, const struct frame *other)
{
    if (one->release_ns != other->release_ns)
        return one->release_ns < other->release_ns;
    return one->order < other->order;
}

static bool early_reserve(struct direction *direction, size_t count)
{
    size_t room = direction->early_room ? direction->early_room : 64;
    struct frame **heap;

    if (count <= direction->early_room)
        return true;
    while (room < count)
        room *= 2;
    heap = realloc(direction->early, room * sizeof *heap);
    if (!heap)
        return false;
    direction->early = heap;
    direction->early_room = room;
    return true;
}

/* There must be room. */
static void early_push(struct direction *direction, struct frame *frame)
{
    struct frame **heap = direction->early;
    size_t at = direction->early_count++, parent;

    for (; at > 0; at = parent) {
        parent = (at - 1) / 2;
        if (!earlier(frame, heap[parent]))
            break;
        heap[at] = heap[parent];
    }
    heap[at] = frame;
}

static struct frame *early_pop(struct direction *direction)
{
    struct frame **heap = direction->early, *first = heap[0];
    size_t count = --direction->early_count, at = 0, child;
    struct frame *last = heap[count];

    while ((child = 2 * at + 1) < count) {
        if (child + 1 < count && earlier(heap[child + 1], heap[child]))
            child++;
        if (!earlier(heap[child], last))
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = last;
    return first;
}

static void append(struct direction *direction, struct frame *frame)
{
    frame->next = NULL;
    if (direction->tail)
        direction->tail->next = frame;
    else
        direction->head = frame;
    direction->tail = frame;
    direction->last_release_ns = frame->release_ns;
}

/* Files a frame whose departure is known by its release; there must be room for an early one. */
static void file(struct direction *direction, struct frame *frame)
{
    uint64_t delay = direction->set[DELAY];

    frame->release_ns = frame->departure_ns + (uint64_t)((int64_t)delay + frame->jitter_ns);
    if (!direction->set[REORDER] && frame->release_ns < direction->last_release_ns)
        frame->release_ns = direction->last_release_ns;
    if (direction->tail && frame->release_ns < direction->last_release_ns)
        early_push(direction, frame);
    else
        append(direction, frame);
}

bool direction_take(struct direction *direction, struct frame *frame, uint64_t now)
{
    if (!early_reserve(direction, direction->early_count + 1))
        return false;
    frame->order = direction->orders++;
    frame->jitter_ns = draw_jitter(direction);
    frame->departure_ns = depart(direction, now, (uint64_t)frame->wire_bytes * 8);
    file(direction, frame);
    direction->count.queued_frames += frame->wire_frames;
    return true;
}

static bool early_is_next(const struct direction *direction)
{
    if (direction->early_count == 0)
        return false;
    return !direction->head || earlier(direction->early[0], direction->head);
}

uint64_t direction_due(const struct direction *direction)
{
    if (early_is_next(direction))
        return direction->early[0]->release_ns;
    return direction->head ? direction->head->release_ns : NEVER;
}

static void count_lateness(struct counters *count, uint64_t late_ns)
{
    uint64_t late_us = late_ns / 1000;
    int bucket = late_us ? 64 - __builtin_clzll(late_us) : 0;

    count->late[bucket < LATENESS_BUCKETS ? bucket : LATENESS_BUCKETS - 1]++;
    if (late_ns > count->late_max_ns)
        count->late_max_ns = late_ns;
}

struct frame *direction_release(struct direction *direction, uint64_t now)
{
    struct frame *frame;

    if (direction_due(direction) > now)
        return NULL;
    frame = early_is_next(direction) ? early_pop(direction) : unlink_head(direction);
    direction->count.queued_frames -= frame->wire_frames;
    count_lateness(&direction->count, now - frame->release_ns);
    return frame;
}

static int by_order(const void *one, const void *other)
{
    uint64_t first = (*(struct frame *const *)one)->order;
    uint64_t second = (*(struct frame *const *)other)->order;

    return first < second ? -1 : first > second;
}

/* How many frames have not left the transmitter. */
static size_t count_waiting(const struct direction *direction, uint64_t now)
{
    size_t waiting = 0;

    for (const struct frame *at = direction->head; at; at = at->next)
        waiting += at->departure_ns > now;
    for (size_t i = 0; i < direction->early_count; i++)
        waiting += direction->early[i]->departure_ns > now;
    return waiting;
}

static size_t take_waiting_early(struct direction *direction, uint64_t now, struct frame **taken)
{
    size_t count = direction->early_count, waiting = 0;

    direction->early_count = 0;
    for (size_t i = 0; i < count; i++) {
        if (direction->early[i]->departure_ns > now)
            taken[waiting++] = direction->early[i];
        else
            early_push(direction, direction->early[i]); /* has room: it was there before */
    }
    return waiting;
}

/* Takes out the frames that have not left the transmitter, in the order of their arrival. */
static void take_waiting(struct direction *direction, uint64_t now, struct frame **taken)
{
    struct frame *departed = NULL, *at = direction->head;
    size_t waiting = take_waiting_early(direction, now, taken);

    for (; at && at->departure_ns <= now; at = at->next)
        departed = at;
    for (struct frame *each = at; each; each = each->next)
        taken[waiting++] = each;
    if (departed)
        departed->next = NULL;
    else
        direction->head = NULL;
    direction->tail = departed;
    direction->last_release_ns = departed ? departed->release_ns : 0;
    qsort(taken, waiting, sizeof *taken, by_order);
}

/* What is left to send of a frame that departs at `departure_ns` under the rate in force. */
static uint64_t bits_left(const struct direction *direction, const struct frame *frame,
                          uint64_t now)
{
    uint64_t bits = (uint64_t)frame->wire_bytes * 8, rate = direction->set[RATE];
    uint64_t time = frame->departure_ns - now;

    if (rate == 0)
        return 0;
    if (time >= bits * ONE_BILLION / rate)
        return bits;
    return time * rate / ONE_BILLION;
}

static int64_t within(int64_t value, uint64_t bound)
{
    int64_t most = (int64_t)bound;

    return value > most ? most : value < -most ? -most : value;
}

static bool needs_new_times(const struct direction *direction, const uint64_t set[SETTINGS])
{
    static const enum setting timed[] = {RATE, DELAY, JITTER, REORDER};

    for (size_t i = 0; i < sizeof timed / sizeof *timed; i++)
        if (direction->set[timed[i]] != set[timed[i]])
            return true;
    return false;
}

static void time_anew(struct direction *direction, const uint64_t set[SETTINGS], uint64_t now,
                      struct frame **waiting, size_t count)
{
    uint64_t bits = bits_left(direction, waiting[0], now);

    memcpy(direction->set, set, sizeof direction->set);
    direction->departed_ns = now;
    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            bits = (uint64_t)waiting[i]->wire_bytes * 8;
        waiting[i]->jitter_ns = within(waiting[i]->jitter_ns, set[JITTER]);
        waiting[i]->departure_ns = depart(direction, now, bits);
        file(direction, waiting[i]);
    }
}

bool direction_change(struct direction *direction, const uint64_t set[SETTINGS], uint64_t now)
{
    bool reseed = direction->set[SEED] != set[SEED];
    size_t count = needs_new_times(direction, set) ? count_waiting(direction, now) : 0;
    struct frame **waiting = NULL;

    if (count > 0) {
        waiting = malloc(count * sizeof *waiting);
        if (!waiting || !early_reserve(direction, direction->early_count + count)) {
            free(waiting);
            return false;
        }
        take_waiting(direction, now, waiting);
        time_anew(direction, set, now, waiting, count);
        free(waiting);
    }
    memcpy(direction->set, set, sizeof direction->set);
    if (reseed)
        seed_streams(direction);
    return true;
}
