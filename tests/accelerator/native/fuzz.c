/* fuzz CASES SEED: rounds of true contributions among hostile packets, and random control lines.
 *
 * Without the key, nothing that is sent may crash the accelerator or change a sum. With the key,
 * anything may happen to the sums, and still nothing may crash. */
#include <arpa/inet.h>
#include <inttypes.h>

#include "control.h"
#include "fuzz.h"

enum { CHILDREN = 4, WINDOW = 4, MEMBERS = 3, ELEMENTS_MOST = 600, HOSTILE_A_ROUND = 12 };

static struct engine engine;
static struct atoll_key key, wrong_key;
static uint64_t cases;

/* What the current round is to give, and what came. */
static struct {
    uint64_t sequence;
    uint8_t element;
    uint16_t max_bytes, sum_bytes;
    uint8_t areas[ATOLL_AREA_MAX_BYTES] __attribute__((aligned(8)));
    int results;
    bool trusted; /* nobody with the key has interfered */
} expected;

static void verify(const struct outgoing *out)
{
    struct atoll_header header;

    MUST(out->bytes >= ATOLL_HEADER_BYTES && out->bytes <= ATOLL_PACKET_MAX_BYTES);
    MUST(atoll_decode(out->packet, out->bytes, &header));
    MUST(atoll_genuine(&key, out->packet, out->bytes));
    if (header.type != ATOLL_RESULT || !expected.trusted)
        return;
    MUST(header.sequence == expected.sequence);
    MUST(header.leaves == CHILDREN);
    MUST(header.max_bytes == expected.max_bytes && header.sum_bytes == expected.sum_bytes);
    MUST(memcmp(out->packet + ATOLL_HEADER_BYTES, expected.areas,
                atoll_packet_bytes(&header) - ATOLL_HEADER_BYTES) == 0);
    expected.results++;
}

static void flush(struct outbox *outbox, void *context)
{
    (void)context;
    for (int i = 0; i < outbox->count; i++)
        verify(&outbox->outgoing[i]);
    outbox->count = 0;
}

static struct outbox outbox = {.flush = flush};

static struct sockaddr_in address_of(unsigned number)
{
    return (struct sockaddr_in){.sin_family = AF_INET,
                                .sin_port = htons(7000),
                                .sin_addr.s_addr = htonl(0x0a000001u + number)};
}

/* In memory that ends where the packet ends, so that the sanitizer sees what reads beyond. */
static void give(const void *bytes, size_t count, unsigned source)
{
    uint8_t *packet = aligned_alloc(8, (count + 8) / 8 * 8);
    struct arrived arrived = {packet, count, address_of(source), any(1u << 30), any(2)};

    memcpy(packet, bytes, count);
    if (count % 8 == 0 && count) {
        free(packet);
        arrived.packet = packet = malloc(count);
        memcpy(packet, bytes, count);
    }
    engine_handle(&engine, &arrived, &outbox);
    flush(&outbox, NULL);
    free(packet);
    cases++;
}

static struct atoll_header header_of(unsigned child)
{
    return (struct atoll_header){.type = ATOLL_DATA,
                                 .element = expected.element,
                                 .child = (uint16_t)child,
                                 .job = 1,
                                 .tree = 1,
                                 .member = (uint16_t)any(MEMBERS),
                                 .number = (uint32_t)any(1000),
                                 .sequence = expected.sequence,
                                 .max_bytes = expected.max_bytes,
                                 .sum_bytes = expected.sum_bytes,
                                 .leaves = 1};
}

static void begin_round(void)
{
    expected.sequence++;
    expected.element = (uint8_t)any(ATOLL_ELEMENTS);
    expected.max_bytes = (uint16_t)any(100);
    expected.sum_bytes = (uint16_t)(expected.element
                                        ? (1 + any(ELEMENTS_MOST)) *
                                              atoll_element_bytes(expected.element)
                                        : 0);
    memset(expected.areas, 0, sizeof expected.areas);
    expected.results = 0;
}

static void fill(uint8_t *areas)
{
    size_t room = atoll_max_room(expected.max_bytes);

    memset(areas, 0, room);
    for (size_t i = 0; i < expected.max_bytes; i++)
        areas[i] = (uint8_t)any(256);
    for (size_t i = 0; i < expected.sum_bytes; i++)
        areas[room + i] = (uint8_t)any(256);
}

/* One sum more, element by element, unlike atoll_add. */
static void expect(const uint8_t *areas)
{
    size_t room = atoll_max_room(expected.max_bytes);
    size_t size = atoll_element_bytes(expected.element);
    uint64_t sum, more;

    for (size_t i = 0; i < expected.max_bytes; i++)
        if (areas[i] > expected.areas[i])
            expected.areas[i] = areas[i];
    for (size_t at = room; at < room + expected.sum_bytes; at += size) {
        sum = more = 0;
        memcpy(&sum, expected.areas + at, size);
        memcpy(&more, areas + at, size);
        sum += more;
        memcpy(expected.areas + at, &sum, size);
    }
}

static size_t mutate(uint8_t *packet, size_t bytes)
{
    size_t length = bytes;

    switch (any(5)) {
    case 0: /* cut short, or grown by what comes to hand */
        length = any(ATOLL_PACKET_MAX_BYTES + 1);
        for (size_t i = bytes; i < length; i++)
            packet[i] = (uint8_t)any(256);
        break;
    case 1: /* noise altogether */
        length = any(300);
        for (size_t i = 0; i < length; i++)
            packet[i] = (uint8_t)any(256);
        break;
    default: /* a few bits, mostly in the header */
        for (uint64_t flips = 1 + any(4); flips > 0; flips--) {
            size_t at = any(4) ? any(ATOLL_HEADER_BYTES) : any(bytes);

            packet[at] ^= (uint8_t)(1u << any(8));
        }
    }
    return length;
}

static void seal_any(const struct atoll_key *with, uint8_t *packet, size_t bytes)
{
    uint64_t check = atoll_check(with, packet, bytes);

    memcpy(packet + offsetof(struct atoll_header, check), &check, sizeof check);
}

/* A packet that looks like those of the round, from somebody who knows the key or does not. */
static void hostile(bool knows_key)
{
    static uint8_t packet[ATOLL_PACKET_MAX_BYTES + 8];
    struct atoll_header header = header_of((unsigned)any(CHILDREN + 1));
    size_t bytes = atoll_packet_bytes(&header);

    fill(packet + ATOLL_HEADER_BYTES);
    header.type = (uint8_t)(any(3) ? ATOLL_DATA : any(ATOLL_TYPES + 1));
    header.flags = (uint8_t)(any(2) ? 0 : any(ATOLL_FLAGS + 1));
    header.sequence += any(3) ? 0 : any(6 * WINDOW) - 3 * WINDOW;
    atoll_seal(&wrong_key, &header, packet);
    bytes = mutate(packet, bytes);
    if (knows_key && bytes >= ATOLL_HEADER_BYTES)
        seal_any(&key, packet, bytes);
    give(packet, bytes, (unsigned)any(CHILDREN + 1));
}

static void contribute(unsigned child)
{
    static uint8_t packet[ATOLL_PACKET_MAX_BYTES] __attribute__((aligned(8)));
    struct atoll_header header = header_of(child);

    fill(packet + ATOLL_HEADER_BYTES);
    expect(packet + ATOLL_HEADER_BYTES);
    atoll_seal(&key, &header, packet);
    for (uint64_t copies = 1 + (any(4) == 0); copies > 0; copies--)
        give(packet, atoll_packet_bytes(&header), child);
}

static void ask(unsigned child)
{
    uint8_t packet[ATOLL_HEADER_BYTES];
    struct atoll_header header = header_of(child);

    header.type = ATOLL_ASK;
    header.element = ATOLL_NONE;
    header.max_bytes = header.sum_bytes = 0;
    atoll_seal(&key, &header, packet);
    give(packet, sizeof packet, child);
}

static void live_round(void)
{
    begin_round();
    for (unsigned child = 0; child < CHILDREN; child++) {
        for (uint64_t left = any(HOSTILE_A_ROUND); left > 0; left--)
            hostile(!expected.trusted);
        contribute(child);
    }
    if (!expected.trusted)
        return;
    MUST(expected.results == 1);
    ask((unsigned)any(CHILDREN));
    MUST(expected.results == 2);
}

static const char *const WORDS[] = {
    "hello", "own", "open", "close", "counters", "status", "quit", "fault", "in", "out", "job=1",
    "job=18446744073709551616", "tree=1", "tree=65536", "key=5", "window=4", "window=0", "leaves=2",
    "children=10.0.0.1:7000,10.0.0.2:7000", "children=10.0.0.1", "children=,", "children=",
    "members=10.0.0.1:7000", "up=10.0.0.9:7000", "up=10.0.0.9:7000,10.0.0.8:1", "results=239.0.0.1:7",
    "notices=10.0.0.1:70000", "child=1", "hold_us=1", "drop=5", "drop=1000000001", "seed=1", "", " ",
    "=", "notice_every=65"};

static void control_line(void)
{
    char line[1024];
    struct request request;
    struct engine other = {.limits = {0, 8, 4}};

    any_line(line, 14, WORDS, sizeof WORDS / sizeof *WORDS);
    if (request_parse(line, &request) == NULL && request.verb == OPEN) {
        MUST(request.config.window >= 1 && request.config.children.count >= 1);
        if (engine_open_tree(&other, &request.config) == NULL)
            memset(&request.config, 0, sizeof request.config);
    }
    request_free(&request);
    engine_close(&other);
}

static void open_tree(void)
{
    char line[] = "open job=1 tree=1 key=77 window=4 leaves=4 results=239.0.0.1:7000 "
                  "notices=10.0.0.1:7000 notice_every=2 members=10.0.0.1:7000,10.0.0.2:7000,"
                  "10.0.0.3:7000 children=10.0.0.1:7000,10.0.0.2:7000,10.0.0.3:7000,10.0.0.4:7000";
    char inner[] = "open job=1 tree=1 key=77 window=4 leaves=4 up=10.0.0.9:7000 child=3 "
                   "children=10.0.0.1:7000,10.0.0.2:7000,10.0.0.3:7000,10.0.0.4:7000";
    struct request request;

    MUST(request_parse(expected.trusted || any(2) ? line : inner, &request) == NULL);
    MUST(engine_open_tree(&engine, &request.config) == NULL);
}

int main(int count, char **words)
{
    uint64_t most = count > 1 ? strtoull(words[1], NULL, 10) : 1000;

    state = count > 2 ? strtoull(words[2], NULL, 10) | 1 : 1;
    engine.limits = (struct limits){0, 1000, CHILDREN_MAX};
    atoll_key_of(&key, 77);
    atoll_key_of(&wrong_key, 78);
    while (cases < most) {
        expected.trusted = any(2);
        open_tree();
        for (int round = 0; round < 30 && cases < most; round++) {
            live_round();
            control_line();
        }
    }
    engine_close(&engine);
    printf("%" PRIu64 " packets\n", cases);
    return 0;
}
