#include "wire.h"

#include <errno.h>
#include <net/if.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    BATCH = 64,
    SOCKET_BYTES = 64 << 20,
    QUEUE_MIN_BYTES = 1 << 20,
    QUEUES_A_SECOND = 10,    /* hardware with a rate has room for 100 ms of it */
    BATCHES_A_SECOND = 1000, /* and takes packets in no coarser than this */
    MULTICAST_TTL = 64,
    ECT_0 = 2, /* RFC 3168: willing to be marked instead of dropped */
    CONGESTION_EXPERIENCED = 3,
    IP_AND_UDP_BYTES = 28,
    THROTTLE_STEP_US = 100,
    LATE_MOST_US = 100000,
};

struct place {
    uint8_t packet[ATOLL_PACKET_MAX_BYTES] __attribute__((aligned(8)));
    union {
        char bytes[CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(uint32_t))];
        struct cmsghdr aligned;
    } control;
    struct sockaddr_in source;
    struct iovec vector;
};

struct wire {
    int fd;
    unsigned batch; /* packets taken in at once */
    bool backlog;   /* the socket was never found empty since the last packet */
    struct engine *engine;
    struct fault in, out;
    uint64_t ready_us; /* when the emulated hardware is done with what it has taken in */
    uint64_t rest;     /* of the division in that, in bits * 10^6 */
    struct mmsghdr messages[BATCH];
    struct place places[BATCH];
    struct outbox outbox;
};

uint64_t clock_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

int wire_socket(const struct wire *wire)
{
    return wire->fd;
}

void wire_set_faults(struct wire *wire, const struct fault *in, const struct fault *out)
{
    if (in)
        wire->in = *in;
    if (out)
        wire->out = *out;
}

static void set_int(int fd, int level, int name, int value)
{
    setsockopt(fd, level, name, &value, sizeof value);
}

static bool set_multicast(int fd, const char *interface)
{
    struct ip_mreqn out = {.imr_ifindex = (int)if_nametoindex(interface)};

    set_int(fd, IPPROTO_IP, IP_MULTICAST_TTL, MULTICAST_TTL);
    set_int(fd, IPPROTO_IP, IP_MULTICAST_LOOP, 0);
    return out.imr_ifindex && setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &out, sizeof out) == 0;
}

static uint64_t within(uint64_t value, uint64_t least, uint64_t most)
{
    return value < least ? least : value > most ? most : value;
}

static int queue_bytes(uint64_t rate_bps)
{
    if (rate_bps == 0)
        return SOCKET_BYTES;
    return (int)within(rate_bps / 8 / QUEUES_A_SECOND, QUEUE_MIN_BYTES, SOCKET_BYTES);
}

static unsigned batch_packets(uint64_t rate_bps)
{
    if (rate_bps == 0)
        return BATCH;
    return (unsigned)within(rate_bps / 8 / ATOLL_PACKET_MAX_BYTES / BATCHES_A_SECOND, 1, BATCH);
}

static int open_socket(const struct sockaddr_in *address, const char *interface, int queue)
{
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), kept;

    if (fd < 0)
        return -1;
    set_int(fd, SOL_SOCKET, SO_RCVBUF, queue);
    set_int(fd, SOL_SOCKET, SO_RCVBUFFORCE, queue);
    set_int(fd, SOL_SOCKET, SO_SNDBUFFORCE, SOCKET_BYTES);
    set_int(fd, SOL_SOCKET, SO_RXQ_OVFL, 1);
    set_int(fd, IPPROTO_IP, IP_RECVTOS, 1);
    set_int(fd, IPPROTO_IP, IP_TOS, ECT_0);
    set_int(fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO);
    if ((!interface || set_multicast(fd, interface)) &&
        bind(fd, (const struct sockaddr *)address, sizeof *address) == 0)
        return fd;
    kept = errno;
    close(fd);
    errno = kept;
    return -1;
}

/* --- out -------------------------------------------------------------------------------------- */

static int copies_out(struct wire *wire)
{
    int copies = fault_copies(&wire->out);

    wire->engine->count.out_dropped += copies == 0;
    wire->engine->count.out_duplicated += copies == 2;
    return copies;
}

static void send_all(struct wire *wire, struct mmsghdr *messages, int count)
{
    int at = 0, sent;

    while (at < count) {
        sent = sendmmsg(wire->fd, messages + at, (unsigned)(count - at), 0);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent <= 0) {
            wire->engine->count.unsent++;
            sent = 1;
        }
        at += sent;
    }
}

static void flush(struct outbox *outbox, void *context)
{
    struct wire *wire = context;
    struct mmsghdr messages[2 * OUTBOX_PACKETS];
    struct iovec vectors[OUTBOX_PACKETS];
    int count = 0;

    memset(messages, 0, sizeof messages);
    for (int i = 0; i < outbox->count; i++) {
        struct outgoing *out = &outbox->outgoing[i];

        vectors[i] = (struct iovec){out->packet, out->bytes};
        for (int copies = copies_out(wire); copies > 0; copies--) {
            messages[count++].msg_hdr = (struct msghdr){.msg_name = &out->destination,
                                                        .msg_namelen = sizeof out->destination,
                                                        .msg_iov = &vectors[i],
                                                        .msg_iovlen = 1};
        }
    }
    send_all(wire, messages, count);
    outbox->count = 0;
}

/* --- in --------------------------------------------------------------------------------------- */

static void prepare(struct wire *wire)
{
    for (int i = 0; i < BATCH; i++) {
        struct place *place = &wire->places[i];

        place->vector = (struct iovec){place->packet, sizeof place->packet};
        wire->messages[i].msg_hdr = (struct msghdr){.msg_name = &place->source,
                                                    .msg_namelen = sizeof place->source,
                                                    .msg_iov = &place->vector,
                                                    .msg_iovlen = 1,
                                                    .msg_control = place->control.bytes,
                                                    .msg_controllen = sizeof place->control.bytes};
    }
}

/* Whether the packet was marked; and the count of the socket's drops is kept. */
static bool read_control(struct wire *wire, struct msghdr *message)
{
    bool congested = false;
    uint32_t dropped;

    for (struct cmsghdr *at = CMSG_FIRSTHDR(message); at; at = CMSG_NXTHDR(message, at)) {
        if (at->cmsg_level == IPPROTO_IP && at->cmsg_type == IP_TOS)
            congested = (*CMSG_DATA(at) & 3) == CONGESTION_EXPERIENCED;
        if (at->cmsg_level == SOL_SOCKET && at->cmsg_type == SO_RXQ_OVFL) {
            memcpy(&dropped, CMSG_DATA(at), sizeof dropped);
            wire->engine->count.overflow = dropped;
        }
    }
    return congested;
}

static void take_in(struct wire *wire, int index, uint64_t now_us)
{
    struct msghdr *message = &wire->messages[index].msg_hdr;
    struct arrived arrived = {.packet = wire->places[index].packet,
                              .bytes = wire->messages[index].msg_len,
                              .source = wire->places[index].source,
                              .now_us = now_us};
    struct process_counters *count = &wire->engine->count;
    int copies = fault_copies(&wire->in);

    arrived.congested = read_control(wire, message);
    count->in_dropped += copies == 0;
    count->in_duplicated += copies == 2;
    if (message->msg_flags & MSG_TRUNC) {
        count->malformed++;
        return;
    }
    for (; copies > 0; copies--)
        engine_handle(wire->engine, &arrived, &wire->outbox);
}

/* The virtual clock of hardware that takes `bits` in at its rate: waits while it is ahead, so that
 * packets pile up in the socket as they would in front of it. If this process was woken late while
 * packets were waiting, the hardware would have worked meanwhile, and its clock is not set forward. */
static void throttle(struct wire *wire, uint64_t bits)
{
    uint64_t rate = wire->engine->limits.rate_bps, now = clock_us(), work;
    struct timespec pause;

    if (wire->ready_us < now && (!wire->backlog || now - wire->ready_us > LATE_MOST_US)) {
        wire->ready_us = now;
        wire->rest = 0;
    }
    work = bits * 1000000 + wire->rest;
    wire->ready_us += work / rate;
    wire->rest = work % rate;
    if (wire->ready_us < now + THROTTLE_STEP_US)
        return;
    pause = (struct timespec){(time_t)((wire->ready_us - now) / 1000000),
                              (long)((wire->ready_us - now) % 1000000 * 1000)};
    clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
    wire->engine->count.throttled_us += clock_us() - now;
}

bool wire_receive(struct wire *wire)
{
    uint64_t started_us, bits = 0;
    int got;

    prepare(wire);
    got = recvmmsg(wire->fd, wire->messages, wire->batch, MSG_DONTWAIT, NULL);
    if (got <= 0) {
        wire->backlog = false;
        return false;
    }
    started_us = clock_us();
    for (int i = 0; i < got; i++) {
        bits += 8ull * (wire->messages[i].msg_len + IP_AND_UDP_BYTES);
        take_in(wire, i, started_us);
    }
    flush(&wire->outbox, wire);
    wire->engine->count.busy_us += clock_us() - started_us;
    if (wire->engine->limits.rate_bps)
        throttle(wire, bits);
    wire->backlog = got == (int)wire->batch;
    return wire->backlog;
}

struct wire *wire_open(const struct sockaddr_in *address, const char *interface,
                       struct engine *engine)
{
    struct wire *wire = calloc(1, sizeof *wire);

    if (!wire)
        return NULL;
    wire->engine = engine;
    wire->outbox.flush = flush;
    wire->outbox.context = wire;
    wire->batch = batch_packets(engine->limits.rate_bps);
    wire->fd = open_socket(address, interface, queue_bytes(engine->limits.rate_bps));
    if (wire->fd >= 0)
        return wire;
    free(wire);
    return NULL;
}

void wire_close(struct wire *wire)
{
    close(wire->fd);
    free(wire);
}
