/* Feeds a member packets that are nearly right, and calls that go on meanwhile: it must neither
   crash nor write outside its areas. Built with sanitizers. Arguments: cases, seed. */

#include "member.c"

#include <stdio.h>

enum { WINDOW = 4, AREA = 64, CHUNKS = 11, KINDS = 3, MEMBERS = 4 };

static uint64_t random_state;

static uint32_t below(uint32_t limit) {
    return (uint32_t)(atoll_next_random(&random_state) >> 32) % limit;
}

struct member *atoll_member_new(uint64_t job, uint64_t key, uint32_t index, uint32_t multicast,
                                uint32_t window, uint32_t area_bytes, double rate_bps,
                                uint32_t round_trip_us);
void atoll_member_place(struct member *m, uint32_t address);
int atoll_member_uplink(struct member *m, uint32_t tree, uint32_t child, uint32_t address,
                        uint32_t port);
int atoll_member_stream(struct member *m, uint32_t tree, uint32_t child, uint32_t source,
                        uint32_t ask_address, uint32_t ask_port, uint32_t leaves);
void atoll_member_close(struct member *m);

static struct member *new_member(int kind) {
    struct member *m = atoll_member_new(7, 9, 0, kind == 2, WINDOW, AREA, 1e12, 10);
    int uplinks = kind == 1 ? MEMBERS - 1 : 1, streams = kind == 2 ? MEMBERS - 1 : 1;
    m->fd[m->fds++] = -1; /* what is sent goes nowhere */
    for (uint32_t i = 0; i < MEMBERS; i++) atoll_member_place(m, i);
    for (int u = 0; u < uplinks; u++) atoll_member_uplink(m, (uint32_t)u, 0, 1, 1);
    for (int s = 0; s < streams; s++) atoll_member_stream(m, 2u + (uint32_t)s, 0, 0, 1, 1, 1);
    return make_early(m) ? m : NULL;
}

/* The areas of a message, each chunk's results in memory of their own size. */
struct areas {
    struct chunk chunks[CHUNKS];
    uint8_t *in, *out[CHUNKS][2];
};

static void begin(struct member *m, struct areas *areas) {
    for (int i = 0; i < CHUNKS; i++) {
        struct chunk *chunk = &areas->chunks[i];
        free(areas->out[i][0]);
        free(areas->out[i][1]);
        *chunk = (struct chunk){.max_bytes = below(17), .sum_bytes = 4 * below(11)};
        chunk->is_guard = below(4) == 0;
        chunk->element = chunk->sum_bytes ? ATOLL_INT32 : ATOLL_NONE;
        areas->out[i][0] = malloc(m->streams * 32 + chunk->max_bytes);
        areas->out[i][1] = malloc(m->streams * 48 + chunk->sum_bytes);
        chunk->max_in = (uint64_t)(uintptr_t)areas->in;
        chunk->sum_in = below(4) ? (uint64_t)(uintptr_t)areas->in : 0;
        chunk->max_out = (uint64_t)(uintptr_t)areas->out[i][0];
        chunk->sum_out = (uint64_t)(uintptr_t)areas->out[i][1];
    }
    m->pending = (struct passage){
        .chunks = areas->chunks, .end = CHUNKS, .max_stride = 32, .sum_stride = 48};
    m->status = RUNNING;
    begin_pending(m);
    take_early(m, now_us());
}

static size_t make_packet(struct member *m, uint8_t *packet) {
    struct atoll_header header = {.magic = ATOLL_MAGIC, .version = ATOLL_VERSION, .job = 7};
    uint64_t sequence = m->passage.base + below(3 * WINDOW) - below(WINDOW);
    uint64_t place = sequence - m->passage.first;
    bool is_known_chunk = sequence >= m->passage.base && place < CHUNKS;
    header.type = (uint8_t)(1 + below(7));
    if (below(2)) header.type = ATOLL_RESULT;
    header.tree = (uint16_t)below(6);
    header.flags = below(3) ? 0 : (uint8_t)below(32);
    header.leaves = below(30) ? 1 : (uint16_t)below(MEMBERS + 1);
    header.sequence = below(50) ? sequence : atoll_next_random(&random_state);
    header.number = below(20) ? m->stream[0].highest + below(9) : (uint32_t)random_state;
    header.max_bytes = (uint16_t)below(17);
    header.sum_bytes = (uint16_t)(4 * below(11));
    if (is_known_chunk && below(4)) {
        header.max_bytes = (uint16_t)m->passage.chunks[place].max_bytes;
        header.sum_bytes = (uint16_t)m->passage.chunks[place].sum_bytes;
    }
    header.element = header.sum_bytes ? ATOLL_INT32 : ATOLL_NONE;
    size_t bytes = atoll_packet_bytes(&header);
    for (size_t i = ATOLL_HEADER_BYTES; i < bytes; i++) packet[i] = 0;
    if (below(20) == 0) header.job = 8;
    atoll_seal(&m->key, &header, packet);
    for (uint32_t flips = below(4) ? 0 : below(9); flips; flips--)
        packet[below((uint32_t)bytes)] ^= (uint8_t)(1u << below(8));
    if (below(8) == 0) bytes = below((uint32_t)bytes + 9);
    return bytes;
}

static void one_case(struct member *m, struct areas *areas) {
    static uint8_t room[1024] __attribute__((aligned(8)));
    struct sockaddr_in from = {.sin_addr.s_addr = htonl(below(MEMBERS + 1))};
    size_t bytes = make_packet(m, room);
    uint8_t *packet = malloc(bytes + 1); /* so that reading behind its end is seen */
    memcpy(packet, room, bytes);
    handle_packet(m, &from, packet, bytes);
    free(packet);
    uint64_t now = now_us() + below(1000000);
    if (below(2)) send_what_may(m, now);
    if (m->flushes_left && below(2)) send_flush(m, now);
    if (below(4) == 0) look_at_timers(m, now);
    if (m->status != RUNNING) begin(m, areas);
}

int main(int count, char **words) {
    long cases = count > 1 ? atol(words[1]) : 100000;
    random_state = count > 2 ? strtoull(words[2], NULL, 10) : 1;
    for (int kind = 0; kind < KINDS; kind++) {
        struct member *m = new_member(kind);
        struct areas areas = {.in = calloc(1, AREA)};
        begin(m, &areas);
        for (long i = 0; i < cases / KINDS; i++) one_case(m, &areas);
        const struct counters *c = &m->count;
        printf("results %lu early %lu conflicts %lu malformed %lu forged %lu foreign %lu "
               "repeats %lu asks %lu sent %lu\n",
               c->results, c->early, c->conflicts, c->malformed, c->forged, c->foreign,
               c->repeats, c->asks, c->sent);
        if (!c->results || !c->malformed || !c->forged || !c->foreign) return 1;
        for (int i = 0; i < CHUNKS; i++) free(areas.out[i][0]), free(areas.out[i][1]);
        free(areas.in);
        m->fds = 0;
        atoll_member_close(m);
    }
    return 0;
}
