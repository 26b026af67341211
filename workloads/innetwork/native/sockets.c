/* The sockets of a member: one of its own, from which it sends everything and at which it is
   answered, and one for each multicast group that it listens to. */

#include "member.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum { SOCKET_BUFFER_BYTES = 32 << 20, MULTICAST_HOPS = 32, ROUNDS_AT_MOST = 8 };

static bool failed(const char *what, const struct sockaddr_in *where, char *error, size_t size) {
    char address[INET_ADDRSTRLEN] = "";
    inet_ntop(AF_INET, &where->sin_addr, address, sizeof address);
    snprintf(error, size, "%s %s:%u: %s", what, address, ntohs(where->sin_port), strerror(errno));
    return false;
}

static void widen_buffers(int fd) {
    int bytes = SOCKET_BUFFER_BYTES;
    if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes) != 0)
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
    if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof bytes) != 0)
        setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
}

static int new_socket(void) {
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd >= 0) widen_buffers(fd);
    return fd;
}

static bool open_own(struct member *m, const struct sockaddr_in *local, char *error, size_t size) {
    int fd = new_socket(), hops = MULTICAST_HOPS;
    if (fd < 0) return failed("socket for", local, error, size);
    m->fd[m->fds++] = fd;
    setsockopt(fd, IPPROTO_IP, IP_MULTICAST_TTL, &hops, sizeof hops);
    setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &local->sin_addr, sizeof local->sin_addr);
    if (bind(fd, (const struct sockaddr *)local, sizeof *local) != 0)
        return failed("bind to", local, error, size);
    return true;
}

static bool open_group(struct member *m, const struct sockaddr_in *group,
                       const struct sockaddr_in *local, char *error, size_t size) {
    int fd = new_socket(), on = 1, off = 0;
    struct ip_mreq membership = {.imr_multiaddr = group->sin_addr,
                                 .imr_interface = local->sin_addr};
    if (fd < 0) return failed("socket for", group, error, size);
    m->fd[m->fds++] = fd;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    setsockopt(fd, IPPROTO_IP, IP_MULTICAST_ALL, &off, sizeof off);
    if (bind(fd, (const struct sockaddr *)group, sizeof *group) != 0)
        return failed("bind to", group, error, size);
    if (setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &membership, sizeof membership) != 0)
        return failed("join", group, error, size);
    return true;
}

bool open_sockets(struct member *m, const struct sockaddr_in *local, char *error, size_t size) {
    m->wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (m->wake < 0) return failed("eventfd for", local, error, size);
    if (!open_own(m, local, error, size)) return false;
    for (uint32_t g = 0; g < m->groups; g++)
        if (!open_group(m, &m->group[g], local, error, size)) return false;
    return true;
}

void close_sockets(struct member *m) {
    for (uint32_t i = 0; i < m->fds; i++) close(m->fd[i]);
    m->fds = 0;
    if (m->wake >= 0) close(m->wake);
    m->wake = -1;
}

/* The check of a packet is a sum over its words, so that the part of the areas is known already. */
static void seal(const struct member *m, struct outgoing *packet) {
    struct atoll_header *header = &packet->header;
    header->magic = ATOLL_MAGIC;
    header->version = ATOLL_VERSION;
    header->job = m->job;
    header->sent_us = (uint32_t)now_us();
    header->check = 0;
    header->check = atoll_check(&m->key, header, sizeof *header) +
                    (packet->slot ? packet->slot->payload_hash : 0);
}

static size_t areas_bytes(const struct slot *slot) {
    return slot ? atoll_max_room(slot->max_bytes) + slot->sum_bytes : 0;
}

/* A packet that the kernel does not take is one that the network lost. */
static void send_batch(struct member *m, struct outgoing *packets, uint32_t count) {
    struct mmsghdr messages[BATCH];
    struct iovec parts[BATCH][2];
    memset(messages, 0, sizeof messages);
    for (uint32_t i = 0; i < count; i++) {
        const struct slot *slot = packets[i].slot;
        seal(m, &packets[i]);
        parts[i][0] = (struct iovec){&packets[i].header, sizeof packets[i].header};
        parts[i][1] = (struct iovec){slot ? slot->areas : NULL, areas_bytes(slot)};
        messages[i].msg_hdr.msg_iov = parts[i];
        messages[i].msg_hdr.msg_iovlen = slot ? 2 : 1;
        messages[i].msg_hdr.msg_name = &packets[i].to;
        messages[i].msg_hdr.msg_namelen = sizeof packets[i].to;
    }
    for (uint32_t done = 0; done < count;) {
        int sent = sendmmsg(m->fd[0], messages + done, count - done, 0);
        if (sent <= 0) m->count.send_errors++;
        done += sent > 0 ? (uint32_t)sent : 1;
    }
}

void transmit(struct member *m) {
    if (m->outgoing) send_batch(m, m->outbox, m->outgoing);
    m->outgoing = 0;
}

bool receive_some(struct member *m, int fd) {
    struct mmsghdr messages[BATCH];
    struct iovec parts[BATCH];
    struct sockaddr_in from[BATCH];
    for (int round = 0; round < ROUNDS_AT_MOST; round++) {
        memset(messages, 0, sizeof messages);
        for (uint32_t i = 0; i < BATCH; i++) {
            parts[i] = (struct iovec){m->buffers + i * ATOLL_PACKET_MAX_BYTES,
                                      ATOLL_PACKET_MAX_BYTES};
            messages[i].msg_hdr = (struct msghdr){.msg_iov = &parts[i],
                                                  .msg_iovlen = 1,
                                                  .msg_name = &from[i],
                                                  .msg_namelen = sizeof from[i]};
        }
        int count = recvmmsg(fd, messages, BATCH, MSG_DONTWAIT, NULL);
        for (int i = 0; i < count; i++) {
            if (messages[i].msg_hdr.msg_flags & MSG_TRUNC)
                m->count.malformed++;
            else
                handle_packet(m, &from[i], parts[i].iov_base, messages[i].msg_len);
        }
        if (count < BATCH) return false;
    }
    return true;
}
