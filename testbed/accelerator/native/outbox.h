/* Packets on their way out, and who they are for. The program flushes it to a socket, a test reads
 * it. */
#ifndef ACCELERATOR_OUTBOX_H
#define ACCELERATOR_OUTBOX_H

#include <netinet/in.h>
#include <stdint.h>

#include "protocol.h"

enum { OUTBOX_PACKETS = 64 };

struct outgoing {
    struct sockaddr_in destination;
    uint32_t bytes;
    uint8_t packet[ATOLL_PACKET_MAX_BYTES] __attribute__((aligned(8)));
};

struct outbox {
    void (*flush)(struct outbox *, void *context); /* sends all and sets `count` to 0 */
    void *context;
    int count;
    struct outgoing outgoing[OUTBOX_PACKETS];
};

/* The next place to write a packet to. */
static inline struct outgoing *outbox_next(struct outbox *outbox)
{
    if (outbox->count == OUTBOX_PACKETS)
        outbox->flush(outbox, outbox->context);
    return &outbox->outgoing[outbox->count++];
}

#endif
