/* fuzz COUNT SEED: random requests, packets and lives of a direction, with what must hold. */
#include <inttypes.h>

#include "control.h"
#include "fuzz.h"
#include "packet.h"
#include "timers.h"

enum { PACKET_BYTES = 67000, FRAMES_A_LIFE = 40 };

static struct pool pool;

static const char *const WORDS[] = {
    "hello",    "own",     "join",    "part",      "set",        "counters", "status",
    "quit",     "forward", "backward",  "/",          "w1a",      "w1b",
    "7",        "0",       "rate=1000", "delay=5",    "jitter=5", "queue=9",
    "loss=0",   "loss=",   "=",         "reorder=2",  "seed=18446744073709551615",
    "seed=18446744073709551616", "rate=-1", "ge_bad=1000000000", "a_name_longer_than_allowed",
    "",         " ",       "corrupt=5", "duplicate=x"};

static void fuzz_request(void)
{
    char line[LINE_MAX_BYTES];
    uint64_t set[SETTINGS] = {0};
    struct request request;

    any_line(line, 20, WORDS, sizeof WORDS / sizeof *WORDS);
    if (request_parse(line, &request) == NULL) {
        MUST(request.verb < VERBS && (int)request.way < (int)WAYS);
        MUST(strlen(request.end[0]) < IFNAMSIZ && strlen(request.end[1]) < IFNAMSIZ);
        if (settings_merge(&request.named[0], set) == NULL)
            MUST(set[JITTER] <= set[DELAY]);
    }
}

/* A packet that is nearly one the kernel would give, in memory that ends where it ends. */
static void fuzz_packet(void)
{
    uint32_t bytes = 24 + (uint32_t)any(any(8) ? 300 : PACKET_BYTES - 24);
    uint8_t *packet = malloc(bytes), *segment = malloc(bytes);
    struct wire_size size;
    uint64_t payload = 0;

    for (uint32_t i = 0; i < bytes; i++)
        packet[i] = (uint8_t)any(256);
    packet[0] = any(4) ? 1 : (uint8_t)any(256);
    packet[1] = (uint8_t[]){1, 4, 5, 0x81, 0, 3}[any(6)];
    packet[7] = packet[9] = 0;
    packet[6] = (uint8_t)any(80);
    packet[8] = (uint8_t)(any(2) ? 6 : 16);
    memcpy(packet + 22, any(2) ? "\x08\x00\x45" : "\x86\xdd\x60", bytes > 25 ? 3 : 2);
    size = packet_wire_size(packet, bytes, bytes);
    MUST(size.frames >= 1 && size.bytes >= bytes - VNET_BYTES);
    for (uint32_t i = 0; size.header_bytes && i < size.frames && i < 50; i++) {
        uint32_t length = packet_segment(packet, bytes, &size, i, segment);

        MUST(length <= bytes && length > VNET_BYTES + size.header_bytes);
        payload += length - VNET_BYTES - size.header_bytes;
        packet_flip_bit(segment, length, state);
    }
    if (size.header_bytes && size.frames <= 50)
        MUST(payload == bytes - VNET_BYTES - size.header_bytes);
    packet_complete_checksum(packet, bytes);
    free(packet);
    free(segment);
}

static void random_settings(struct direction *direction, uint64_t now)
{
    uint64_t set[SETTINGS];

    memcpy(set, direction->set, sizeof set);
    if (any(2))
        set[RATE] = any(4) ? 64000 + any(1000000000) : 0;
    set[DELAY] = any(50000000);
    set[JITTER] = any(2) ? any(set[DELAY] + 1) : 0;
    set[QUEUE] = 1000000 + any(100000000);
    set[REORDER] = any(2);
    MUST(direction_change(direction, set, now));
}

struct life {
    struct direction direction;
    struct timers timers;
    uint64_t now, taken, released, last_release;
    bool ordered; /* it was never allowed to reorder, and its settings never changed */
};

static void live_release(struct life *life)
{
    struct frame *frame;

    while ((frame = direction_release(&life->direction, life->now))) {
        MUST(frame->release_ns <= life->now);
        MUST(frame->release_ns >= frame->departure_ns);
        MUST(frame->release_ns >= life->last_release || !life->ordered);
        life->last_release = frame->release_ns;
        life->released++;
        frame_free(&pool, frame);
    }
}

static void live_offer(struct life *life)
{
    uint32_t bytes = VNET_BYTES + 14 + (uint32_t)any(any(4) ? 1500 : 60000);
    static const uint8_t content[PACKET_BYTES];
    struct frame *frame;

    if (!direction_admits(&life->direction, life->now, bytes))
        return;
    frame = frame_of(&pool, content, bytes);
    if (!frame)
        return;
    frame->wire_bytes = bytes - VNET_BYTES;
    frame->wire_frames = 1;
    MUST(direction_take(&life->direction, frame, life->now));
    life->taken++;
}

static void fuzz_life(void)
{
    struct life life = {.now = 1 + any(1000000000)};

    direction_open(&life.direction, any(100));
    MUST(timers_reserve(&life.timers, 1));
    random_settings(&life.direction, life.now);
    life.ordered = !life.direction.set[REORDER];
    for (int i = 0; i < FRAMES_A_LIFE; i++) {
        if (any(12) == 0) {
            random_settings(&life.direction, life.now);
            life.ordered = false;
        }
        live_offer(&life);
        if (any(3) == 0)
            life.now += any(10000000);
        live_release(&life);
        timers_update(&life.timers, &life.direction);
        MUST(timers_due(&life.timers) == direction_due(&life.direction));
        MUST(life.taken - life.released == life.direction.count.queued_frames);
    }
    if (any(2)) {
        life.now = UINT64_MAX / 2;
        live_release(&life);
        MUST(life.taken == life.released && direction_due(&life.direction) == NEVER);
    }
    direction_close(&life.direction, &pool);
    free(life.timers.heap);
}

/* Many directions at once come out of the timers in order of what is due. */
static void fuzz_timers(void)
{
    enum { MANY = 9 };
    struct direction many[MANY];
    struct timers timers = {0};
    struct frame frame[MANY];
    uint64_t last = 0;

    MUST(timers_reserve(&timers, MANY));
    for (int i = 0; i < MANY; i++) {
        direction_open(&many[i], 0);
        frame[i].release_ns = any(50);
        many[i].head = &frame[i];
        timers_update(&timers, &many[i]);
    }
    for (int i = 0; i < MANY; i++) {
        frame[i].release_ns = any(50);
        timers_update(&timers, &many[i]);
        if (any(4) == 0)
            timers_remove(&timers, &many[i]);
    }
    while (timers_due(&timers) != NEVER) {
        MUST(timers_due(&timers) >= last);
        last = timers_due(&timers);
        MUST(timers_first(&timers)->head->release_ns == last);
        timers_remove(&timers, timers_first(&timers));
    }
    free(timers.heap);
}

int main(int count, char **words)
{
    uint64_t cases = count > 1 ? strtoull(words[1], NULL, 10) : 1000;

    state = count > 2 ? strtoull(words[2], NULL, 10) | 1 : 1;
    pool_open(&pool, 16u << 20);
    for (uint64_t i = 0; i < cases; i++) {
        fuzz_request();
        fuzz_packet();
        fuzz_timers();
        if (i % 4 == 0)
            fuzz_life();
    }
    printf("%" PRIu64 " cases\n", cases);
    return 0;
}
