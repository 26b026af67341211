/* Gives the daemon's pure parts to a test: one command a line in, answer lines out, then `.`. */
#include <inttypes.h>
#include <stdlib.h>

#include "control.h"
#include "driver.h"
#include "packet.h"

enum { LINE_BYTES = 300000, DATA_BYTES = LINE_BYTES / 2 };

static struct direction direction;
static struct pool pool;
static uint8_t data[DATA_BYTES], other[DATA_BYTES];

static uint32_t read_data(const char *text)
{
    return (uint32_t)read_hex(text, data);
}

static void print_hex(const uint8_t *at, uint32_t bytes)
{
    for (uint32_t i = 0; i < bytes; i++)
        printf("%02x", at[i]);
    printf("\n");
}

static void open_direction(const char *rest)
{
    direction_close(&direction, &pool);
    direction_open(&direction, strtoull(rest, NULL, 10));
}

/* set NOW KEY=VALUE... */
static void set(char *rest)
{
    uint64_t now = strtoull(rest, &rest, 10), merged[SETTINGS];
    char line[LINE_MAX_BYTES];
    struct request request;
    const char *wrong;

    snprintf(line, sizeof line, "set 0 forward%s", rest);
    wrong = request_parse(line, &request);
    memcpy(merged, direction.set, sizeof merged);
    if (!wrong)
        wrong = settings_merge(&request.named[FORWARD], merged);
    if (!wrong && !direction_change(&direction, merged, now))
        wrong = "no memory";
    printf("%s\n", wrong ? wrong : "ok");
}

/* offer NOW WIRE_BYTES */
static void offer(char *rest)
{
    uint64_t now = strtoull(rest, &rest, 10), bytes = strtoull(rest, NULL, 10);
    struct frame *frame;

    if (!direction_admits(&direction, now, bytes)) {
        printf("full\n");
        return;
    }
    frame = frame_of(&pool, data, 64);
    frame->wire_bytes = (uint32_t)bytes;
    frame->wire_frames = 1;
    direction_take(&direction, frame, now);
    printf("taken\n");
}

/* release NOW: a line of ORDER RELEASE_NS for each frame that is due */
static void release(const char *rest)
{
    uint64_t now = strtoull(rest, NULL, 10);
    struct frame *frame;

    while ((frame = direction_release(&direction, now))) {
        printf("%" PRIu64 " %" PRIu64 "\n", frame->order, frame->release_ns);
        frame_free(&pool, frame);
    }
}

/* draw COUNT: lost, duplicated and corrupted, a character each */
static void draw(const char *rest)
{
    for (uint64_t i = strtoull(rest, NULL, 10); i > 0; i--) {
        struct fate fate = direction_draw(&direction);

        putchar("01234567"[fate.lost + 2 * fate.duplicated + 4 * fate.corrupted]);
    }
    printf("\n");
}

static void segments(const char *rest)
{
    uint32_t bytes = read_data(rest);
    struct wire_size size = packet_wire_size(data, bytes, bytes);

    printf("%u %u\n", size.frames, size.bytes);
    for (uint32_t i = 0; size.header_bytes && i < size.frames; i++)
        print_hex(other, packet_segment(data, bytes, &size, i, other));
}

/* flip BIT HEX */
static void flip(char *rest)
{
    uint64_t bit = strtoull(rest, &rest, 10);
    uint32_t bytes = read_data(rest + 1);

    packet_flip_bit(data, bytes, bit);
    print_hex(data, bytes);
}

static void checksum(const char *rest)
{
    uint32_t bytes = read_data(rest);

    packet_complete_checksum(data, bytes);
    print_hex(data, bytes);
}

/* vlan PROTOCOL TAG HEX */
static void vlan(char *rest)
{
    unsigned long protocol = strtoul(rest, &rest, 10), tag = strtoul(rest, &rest, 10);
    uint32_t bytes = read_data(rest + 1);

    memcpy(other + 4, data, bytes);
    print_hex(packet_insert_vlan(other + 4, (uint16_t)protocol, (uint16_t)tag), bytes + 4);
}

static void parse(char *rest)
{
    struct request request;
    const char *wrong = request_parse(rest, &request);

    printf("%s\n", wrong ? wrong : "ok");
}

static void counters(void)
{
    char line[COUNTERS_LINE_BYTES];

    counters_print(line, sizeof line, 7, BACKWARD, &direction.count);
    printf("%s", line);
}

static void memory(void)
{
    printf("%" PRIu64 "\n", settings_memory_bytes(direction.set));
}

static void obey(const char *verb, char *rest)
{
    if (strcmp(verb, "open") == 0)
        open_direction(rest);
    else if (strcmp(verb, "set") == 0)
        set(rest);
    else if (strcmp(verb, "offer") == 0)
        offer(rest);
    else if (strcmp(verb, "release") == 0)
        release(rest);
    else if (strcmp(verb, "draw") == 0)
        draw(rest);
    else if (strcmp(verb, "segments") == 0)
        segments(rest);
    else if (strcmp(verb, "flip") == 0)
        flip(rest);
    else if (strcmp(verb, "checksum") == 0)
        checksum(rest);
    else if (strcmp(verb, "vlan") == 0)
        vlan(rest);
    else if (strcmp(verb, "parse") == 0)
        parse(rest);
    else if (strcmp(verb, "counters") == 0)
        counters();
    else if (strcmp(verb, "memory") == 0)
        memory();
}

int main(void)
{
    static char line[LINE_BYTES];

    pool_open(&pool, 256u << 20);
    direction_open(&direction, 0);
    obey_all(line, sizeof line, obey);
    direction_close(&direction, &pool);
    return 0;
}
