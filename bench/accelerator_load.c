/* The other side of bench/accelerator.py: children that contribute as fast as results come, and a
 * bare echo to compare with.
 *
 *   load TARGET_IP PORT CHILDREN AREA_BYTES WINDOW SECONDS FIRST_PORT JOB SECRET
 *   echo PORT ONE_IN
 *
 * `load` binds child i to FIRST_PORT + i and takes results at FIRST_PORT + CHILDREN, or at the last
 * child when they are echoes. `echo` sends one packet in ONE_IN back, the last child's first. */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>

#include "protocol.h"

enum { BATCH = 64, CHILDREN_MAX = 64, SOCKET_BYTES = 64 << 20, STALL_MS = 1000 };

static uint8_t rooms[BATCH][ATOLL_PACKET_MAX_BYTES] __attribute__((aligned(64)));
static struct iovec vectors[BATCH];
static struct mmsghdr messages[BATCH];
static struct sockaddr_in sources[BATCH];

static void prepare(void)
{
    for (int i = 0; i < BATCH; i++) {
        vectors[i] = (struct iovec){rooms[i], sizeof rooms[i]};
        messages[i].msg_hdr = (struct msghdr){.msg_name = &sources[i],
                                              .msg_namelen = sizeof sources[i],
                                              .msg_iov = &vectors[i],
                                              .msg_iovlen = 1};
    }
}

static int bound(uint16_t port)
{
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_port = htons(port)};
    int fd = socket(AF_INET, SOCK_DGRAM, 0), size = SOCKET_BYTES;

    setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof size);
    setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof size);
    if (bind(fd, (struct sockaddr *)&here, sizeof here) < 0) {
        perror("bind");
        exit(1);
    }
    return fd;
}

static double now_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void send_batch(int fd, int count)
{
    for (int at = 0, sent; at < count; at += sent) {
        sent = sendmmsg(fd, messages + at, (unsigned)(count - at), 0);
        if (sent < 0 && errno != EINTR) {
            perror("sendmmsg");
            exit(1);
        }
        if (sent < 0)
            sent = 0;
    }
}

/* --- echo ------------------------------------------------------------------------------------- */

static _Noreturn void echo(uint16_t port, unsigned one_in)
{
    int fd = bound(port), got;

    for (;;) {
        int back = 0;

        prepare();
        got = recvmmsg(fd, messages, BATCH, MSG_WAITFORONE, NULL);
        for (int i = 0; i < got; i++) {
            struct atoll_header header;

            memcpy(&header, rooms[i], sizeof header);
            if (one_in > 1 && header.child != one_in - 1u)
                continue;
            vectors[i].iov_len = messages[i].msg_len;
            messages[back++].msg_hdr = messages[i].msg_hdr;
        }
        send_batch(fd, back);
    }
}

/* --- load ------------------------------------------------------------------------------------- */

static struct {
    int children, area_bytes, window, socket[CHILDREN_MAX + 1];
    struct sockaddr_in target;
    uint64_t job, packets, results, wrong, next[CHILDREN_MAX], allowed;
    struct atoll_key key;
    uint8_t base[CHILDREN_MAX][ATOLL_PACKET_MAX_BYTES];
    uint8_t sum[ATOLL_AREA_MAX_BYTES];
} load;

static void make_bases(void)
{
    for (int child = 0; child < load.children; child++) {
        struct atoll_header header = {.type = ATOLL_DATA,
                                      .element = ATOLL_INT32,
                                      .child = (uint16_t)child,
                                      .job = load.job,
                                      .sum_bytes = (uint16_t)load.area_bytes,
                                      .leaves = 1};
        uint32_t *numbers = (uint32_t *)(load.base[child] + ATOLL_HEADER_BYTES);

        for (int i = 0; i < load.area_bytes / 4; i++)
            numbers[i] = (uint32_t)(i * 2654435761u + (unsigned)child * 97u);
        atoll_seal(&load.key, &header, load.base[child]);
        atoll_add32((uint32_t *)load.sum, numbers, (size_t)load.area_bytes / 4);
    }
}

/* Replaces one word of a sealed packet; NH is a sum over words, so the check follows at once. */
static void put_word(uint8_t *packet, size_t at, const void *bytes, size_t count)
{
    const size_t place = offsetof(struct atoll_header, check);
    uint64_t before, after, check;

    memcpy(&before, packet + at / 8 * 8, 8);
    memcpy(packet + at, bytes, count);
    memcpy(&after, packet + at / 8 * 8, 8);
    memcpy(&check, packet + place, 8);
    check += atoll_nh(after, load.key.word[at / 8]) - atoll_nh(before, load.key.word[at / 8]);
    memcpy(packet + place, &check, 8);
}

/* Header and areas lie apart, so that nothing needs to be copied for a packet. */
static void contribute(int child)
{
    static uint8_t headers[BATCH][ATOLL_HEADER_BYTES];
    static struct iovec parts[BATCH][2];
    int count = 0;

    for (; count < BATCH && load.next[child] < load.allowed; count++, load.next[child]++) {
        uint64_t sequence = load.next[child];
        uint32_t number = (uint32_t)sequence;

        memcpy(headers[count], load.base[child], ATOLL_HEADER_BYTES);
        put_word(headers[count], offsetof(struct atoll_header, sequence), &sequence, 8);
        put_word(headers[count], offsetof(struct atoll_header, number), &number, 4);
        parts[count][0] = (struct iovec){headers[count], ATOLL_HEADER_BYTES};
        parts[count][1] =
            (struct iovec){load.base[child] + ATOLL_HEADER_BYTES, (size_t)load.area_bytes};
        messages[count].msg_hdr = (struct msghdr){.msg_name = &load.target,
                                                  .msg_namelen = sizeof load.target,
                                                  .msg_iov = parts[count],
                                                  .msg_iovlen = 2};
    }
    send_batch(load.socket[child], count);
    load.packets += (uint64_t)count;
}

static void take_result(int index)
{
    struct atoll_header header;

    memcpy(&header, rooms[index], sizeof header);
    load.results++;
    load.allowed++;
    if (header.type == ATOLL_RESULT &&
        memcmp(rooms[index] + ATOLL_HEADER_BYTES, load.sum, (size_t)load.area_bytes) != 0)
        load.wrong++;
}

/* Results come to the socket behind the last child's; echoes to the child that sent. */
static void take_results(void)
{
    for (int at = 0, got; at <= load.children; at++) {
        prepare();
        got = recvmmsg(load.socket[at], messages, BATCH, MSG_DONTWAIT, NULL);
        for (int i = 0; i < got; i++)
            if (at >= load.children - 1)
                take_result(i);
    }
}

static bool wait_for_results(void)
{
    struct pollfd watched[CHILDREN_MAX + 1];

    for (int i = 0; i <= load.children; i++)
        watched[i] = (struct pollfd){load.socket[i], POLLIN, 0};
    return poll(watched, (nfds_t)load.children + 1, STALL_MS) > 0;
}

static void run(double seconds)
{
    double start = now_s(), warm = start + seconds / 5, now = start;
    uint64_t packets = 0, results = 0;

    load.allowed = (uint64_t)load.window;
    while ((now = now_s()) < start + seconds) {
        if (packets == 0 && now > warm) {
            warm = now;
            packets = load.packets;
            results = load.results;
        }
        for (int child = 0; child < load.children; child++)
            contribute(child);
        if (!wait_for_results())
            break;
        take_results();
    }
    printf("{\"packets\": %lu, \"results\": %lu, \"wrong\": %lu, \"seconds\": %.6f, "
           "\"stalled\": %s}\n",
           load.packets - packets, load.results - results, load.wrong, now - warm,
           now < start + seconds ? "true" : "false");
}

int main(int count, char **words)
{
    if (count == 4 && strcmp(words[1], "echo") == 0)
        echo((uint16_t)atoi(words[2]), (unsigned)atoi(words[3]));
    if (count != 11)
        return 2;
    load.target = (struct sockaddr_in){.sin_family = AF_INET,
                                       .sin_port = htons((uint16_t)atoi(words[3]))};
    inet_pton(AF_INET, words[2], &load.target.sin_addr);
    load.children = atoi(words[4]);
    load.area_bytes = atoi(words[5]);
    load.window = atoi(words[6]);
    load.job = strtoull(words[9], NULL, 10);
    atoll_key_of(&load.key, strtoull(words[10], NULL, 10));
    for (int i = 0; i <= load.children; i++)
        load.socket[i] = bound((uint16_t)(atoi(words[8]) + i));
    make_bases();
    run(strtod(words[7], NULL));
    return 0;
}
