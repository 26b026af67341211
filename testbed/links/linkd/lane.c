#include "lane.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "packet.h"

enum {
    BATCH = 32,
    SOCKET_BUFFER_BYTES = 64 << 20,
    ETHERNET_HEADER_BYTES = 14,
    OLDEST_ARRIVAL_NS = 1000000000
};

struct slot {
    struct frame *frame;
    struct iovec vectors[BLOCK_SIZES];
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(struct timespec)) +
                   CMSG_SPACE(sizeof(struct tpacket_auxdata))];
    } control;
};

struct mover {
    struct pool pool;
    struct slot slots[BATCH];
    struct mmsghdr messages[BATCH];
    uint8_t packet[FRAME_MAX_BYTES + VLAN_TAG_BYTES], segment[FRAME_MAX_BYTES + VLAN_TAG_BYTES];
};

static uint64_t clock_read(clockid_t clock)
{
    struct timespec time;

    clock_gettime(clock, &time);
    return (uint64_t)time.tv_sec * ONE_BILLION + (uint64_t)time.tv_nsec;
}

uint64_t clock_now(void)
{
    return clock_read(CLOCK_MONOTONIC);
}

struct mover *mover_new(size_t budget_bytes)
{
    struct mover *mover = calloc(1, sizeof *mover);

    if (!mover)
        return NULL;
    pool_open(&mover->pool, budget_bytes);
    for (int i = 0; i < BATCH; i++) {
        mover->slots[i].frame = frame_new(&mover->pool);
        if (!mover->slots[i].frame)
            return NULL;
    }
    return mover;
}

struct pool *mover_pool(struct mover *mover)
{
    return &mover->pool;
}

static int set_options(int fd, unsigned interface)
{
    struct packet_mreq promiscuous = {.mr_ifindex = (int)interface, .mr_type = PACKET_MR_PROMISC};
    int on = 1, buffer = SOCKET_BUFFER_BYTES;

    if (setsockopt(fd, SOL_PACKET, PACKET_VNET_HDR, &on, sizeof on) ||
        setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof on) ||
        setsockopt(fd, SOL_PACKET, PACKET_AUXDATA, &on, sizeof on) ||
        setsockopt(fd, SOL_PACKET, PACKET_QDISC_BYPASS, &on, sizeof on) ||
        setsockopt(fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &promiscuous, sizeof promiscuous) ||
        setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on) ||
        setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &buffer, sizeof buffer) ||
        setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &buffer, sizeof buffer))
        return -errno;
    return 0;
}

int packet_socket(const char *interface)
{
    struct sockaddr_ll address = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL)};
    unsigned index = if_nametoindex(interface);
    int fd, error;

    if (index == 0)
        return -errno;
    fd = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, 0); /* deaf until bound */
    if (fd < 0)
        return -errno;
    address.sll_ifindex = (int)index;
    error = set_options(fd, index);
    if (!error && bind(fd, (struct sockaddr *)&address, sizeof address))
        error = -errno;
    if (error) {
        close(fd);
        return error;
    }
    return fd;
}

static void drop(struct lane *lane, struct pool *pool, struct frame *frame, enum drop_cause cause)
{
    lane->direction.count.dropped[cause] += frame->wire_frames;
    frame_free(pool, frame);
}

static void corrupt(struct mover *mover, struct lane *lane, struct frame *frame, uint64_t bit)
{
    frame_gather(frame, mover->segment);
    packet_flip_bit(mover->segment, frame->bytes, bit);
    frame_scatter(frame, mover->segment);
    lane->direction.count.corrupted++;
}

static void queue(struct pool *pool, struct lane *lane, struct frame *frame, uint64_t arrival)
{
    if (!direction_admits(&lane->direction, arrival, frame->wire_bytes))
        drop(lane, pool, frame, DROP_QUEUE);
    else if (!direction_take(&lane->direction, frame, arrival))
        drop(lane, pool, frame, DROP_MEMORY);
}

static void duplicate(struct mover *mover, struct lane *lane, struct frame *frame,
                      uint64_t arrival)
{
    struct frame *copy;

    frame_gather(frame, mover->segment);
    copy = frame_of(&mover->pool, mover->segment, frame->bytes);
    if (!copy) {
        lane->direction.count.dropped[DROP_MEMORY]++;
        return;
    }
    copy->wire_bytes = frame->wire_bytes;
    copy->wire_frames = frame->wire_frames;
    lane->direction.count.duplicated++;
    queue(&mover->pool, lane, copy, arrival);
}

/* Decides the fate of one frame, which is one wire frame unless no fate is drawn at all. */
static void offer(struct mover *mover, struct lane *lane, struct frame *frame, uint64_t arrival)
{
    struct fate fate = direction_draw(&lane->direction);

    if (fate.lost) {
        drop(lane, &mover->pool, frame, DROP_LOSS);
        return;
    }
    if (fate.corrupted)
        corrupt(mover, lane, frame, fate.bit);
    if (fate.duplicated)
        duplicate(mover, lane, frame, arrival);
    queue(&mover->pool, lane, frame, arrival);
}

static void offer_segments(struct mover *mover, struct lane *lane, struct frame *whole,
                           const struct wire_size *size, uint64_t arrival)
{
    uint32_t bytes = whole->bytes;

    frame_gather(whole, mover->packet);
    frame_free(&mover->pool, whole);
    for (uint32_t i = 0; i < size->frames; i++) {
        uint32_t length = packet_segment(mover->packet, bytes, size, i, mover->segment);
        struct frame *frame = frame_of(&mover->pool, mover->segment, length);

        if (!frame) {
            lane->direction.count.dropped[DROP_MEMORY]++;
            continue;
        }
        frame->wire_bytes = length - VNET_BYTES;
        frame->wire_frames = 1;
        offer(mover, lane, frame, arrival);
    }
}

static void take_in(struct mover *mover, struct lane *lane, struct frame *frame, uint64_t arrival)
{
    struct iovec vectors[BLOCK_SIZES];
    struct wire_size size;

    frame_vectors(frame, vectors);
    size = packet_wire_size(vectors[0].iov_base, (uint32_t)vectors[0].iov_len, frame->bytes);
    frame->wire_bytes = size.bytes;
    frame->wire_frames = size.frames;
    lane->direction.count.frames_in += size.frames;
    lane->direction.count.bytes_in += size.bytes;
    if (direction_cuts(&lane->direction, frame))
        offer_segments(mover, lane, frame, &size, arrival);
    else
        offer(mover, lane, frame, arrival);
}

struct arrival {
    uint64_t realtime_ns; /* 0 if unknown */
    bool tagged;
    uint16_t vlan_protocol, vlan_tag;
};

static struct arrival read_control(struct msghdr *message)
{
    struct arrival arrival = {0};
    struct tpacket_auxdata extra;
    struct timespec time;

    for (struct cmsghdr *at = CMSG_FIRSTHDR(message); at; at = CMSG_NXTHDR(message, at)) {
        if (at->cmsg_level == SOL_SOCKET && at->cmsg_type == SCM_TIMESTAMPNS) {
            memcpy(&time, CMSG_DATA(at), sizeof time);
            arrival.realtime_ns = (uint64_t)time.tv_sec * ONE_BILLION + (uint64_t)time.tv_nsec;
        }
        if (at->cmsg_level == SOL_PACKET && at->cmsg_type == PACKET_AUXDATA) {
            memcpy(&extra, CMSG_DATA(at), sizeof extra);
            arrival.tagged = extra.tp_status & TP_STATUS_VLAN_VALID;
            arrival.vlan_tag = extra.tp_vlan_tci;
            arrival.vlan_protocol =
                extra.tp_status & TP_STATUS_VLAN_TPID_VALID ? extra.tp_vlan_tpid : ETH_P_8021Q;
        }
    }
    return arrival;
}

/* When a frame reached the wire end, on our clock. The kernel stamps it on a clock that may be set
 * while it waits, so a stamp that makes no sense is taken for "now". */
static uint64_t arrival_time(struct lane *lane, uint64_t realtime_ns, uint64_t now,
                             uint64_t realtime_now)
{
    uint64_t age = realtime_now - realtime_ns, time = now;

    if (realtime_ns <= realtime_now && age < OLDEST_ARRIVAL_NS)
        time = now - age;
    if (time < lane->last_arrival_ns)
        time = lane->last_arrival_ns;
    lane->last_arrival_ns = time;
    return time;
}

static void prepare(struct mover *mover)
{
    for (int i = 0; i < BATCH; i++) {
        struct slot *slot = &mover->slots[i];
        struct msghdr *message = &mover->messages[i].msg_hdr;

        frame_receive_vectors(slot->frame, slot->vectors);
        message->msg_iov = slot->vectors;
        message->msg_iovlen = BLOCK_SIZES;
        message->msg_control = slot->control.bytes;
        message->msg_controllen = sizeof slot->control.bytes;
        message->msg_flags = 0;
    }
}

static void take_slot(struct mover *mover, struct lane *lane, int index, uint64_t now,
                      uint64_t realtime_now)
{
    struct slot *slot = &mover->slots[index];
    struct msghdr *message = &mover->messages[index].msg_hdr;
    struct arrival arrival = read_control(message);
    struct frame *frame = slot->frame, *fresh;
    uint64_t *dropped = lane->direction.count.dropped;

    if (message->msg_flags & MSG_TRUNC) {
        dropped[DROP_OVERSIZE]++;
        return;
    }
    if (mover->messages[index].msg_len < VNET_BYTES + ETHERNET_HEADER_BYTES)
        return;
    fresh = frame_new(&mover->pool);
    if (!fresh) {
        dropped[DROP_MEMORY]++;
        return;
    }
    slot->frame = fresh;
    frame->bytes = mover->messages[index].msg_len;
    if (arrival.tagged) {
        packet_insert_vlan(frame->room + frame->start, arrival.vlan_protocol, arrival.vlan_tag);
        frame->start = 0;
        frame->bytes += VLAN_TAG_BYTES;
    }
    frame_trim(&mover->pool, frame);
    take_in(mover, lane, frame, arrival_time(lane, arrival.realtime_ns, now, realtime_now));
}

bool lane_receive(struct mover *mover, struct lane *lane)
{
    uint64_t now, realtime_now;
    int got;

    prepare(mover);
    got = recvmmsg(lane->in, mover->messages, BATCH, MSG_DONTWAIT, NULL);
    if (got < 0) {
        if (errno == EINVAL) /* an offload that a virtio_net_hdr cannot tell */
            lane->direction.count.dropped[DROP_OVERSIZE]++;
        return errno == EINVAL;
    }
    now = clock_now();
    realtime_now = clock_read(CLOCK_REALTIME);
    for (int i = 0; i < got; i++)
        take_slot(mover, lane, i, now, realtime_now);
    return got == BATCH;
}

static void count_sent(struct counters *count, const struct frame *frame)
{
    count->frames_out += frame->wire_frames;
    count->bytes_out += frame->wire_bytes;
}

static void send_batch(struct lane *lane, struct mmsghdr *messages, struct frame **frames,
                       int count)
{
    int at = 0, sent;

    while (at < count) {
        sent = sendmmsg(lane->out, messages + at, (unsigned)(count - at), MSG_DONTWAIT);
        if (sent < 0 && errno == EINTR)
            continue;
        for (int end = at + sent; at < end; at++)
            count_sent(&lane->direction.count, frames[at]);
        if (sent <= 0) {
            enum drop_cause cause = errno == EMSGSIZE ? DROP_OVERSIZE : DROP_TRANSMIT;

            lane->direction.count.dropped[cause] += frames[at++]->wire_frames;
        }
    }
}

void lane_release(struct mover *mover, struct lane *lane, uint64_t now)
{
    struct iovec vectors[BATCH][BLOCK_SIZES];
    struct mmsghdr messages[BATCH];
    struct frame *frames[BATCH];
    int count = 0;

    memset(messages, 0, sizeof messages);
    while (count < BATCH && (frames[count] = direction_release(&lane->direction, now))) {
        messages[count].msg_hdr.msg_iov = vectors[count];
        messages[count].msg_hdr.msg_iovlen =
            (size_t)frame_vectors(frames[count], vectors[count]);
        count++;
    }
    send_batch(lane, messages, frames, count);
    for (int i = 0; i < count; i++)
        frame_free(&mover->pool, frames[i]);
}

void lane_count_overflow(struct lane *lane)
{
    struct tpacket_stats stats;
    socklen_t size = sizeof stats;

    if (getsockopt(lane->in, SOL_PACKET, PACKET_STATISTICS, &stats, &size) == 0)
        lane->direction.count.dropped[DROP_SOCKET] += stats.tp_drops;
}
