/* One frame in the daemon's memory: a virtio_net_hdr and the Ethernet frame behind it, spread over
 * up to three blocks of the pool. The bookkeeping is at the head of the first block. */
#ifndef LINKD_FRAME_H
#define LINKD_FRAME_H

#include <stdint.h>
#include <sys/uio.h>

#include "pool.h"

struct frame {
    struct frame *next;
    uint64_t departure_ns; /* its last bit leaves the transmitter */
    uint64_t release_ns;   /* it leaves the far end of the fibre */
    int64_t jitter_ns;     /* its own deviation from the delay */
    uint64_t order;        /* of arrival, within its direction */
    uint8_t *medium, *large;
    uint32_t bytes;       /* with the virtio_net_hdr */
    uint32_t wire_bytes;  /* every header of every wire frame in it counted */
    uint32_t wire_frames; /* more than one for a segmentation-offload frame */
    uint32_t start;       /* of the data in `room` */
    uint8_t room[];
};

enum {
    VLAN_TAG_BYTES = 4, /* left free in front, because a socket hands over a tag apart */
    SMALL_ROOM = SMALL_BYTES - (int)sizeof(struct frame) - VLAN_TAG_BYTES,
    FRAME_MAX_BYTES = SMALL_ROOM + MEDIUM_BYTES + LARGE_BYTES
};

/* A frame with all three blocks, ready to be received into, or NULL. */
struct frame *frame_new(struct pool *pool);

/* A frame with just the blocks that `bytes` need, holding a copy of `data`, or NULL. */
struct frame *frame_of(struct pool *pool, const uint8_t *data, uint32_t bytes);

/* Gives the blocks back that `frame->bytes` does not reach. */
void frame_trim(struct pool *pool, struct frame *frame);

void frame_free(struct pool *pool, struct frame *frame);

/* The whole room of a new frame as three vectors to receive into. */
void frame_receive_vectors(struct frame *frame, struct iovec vectors[BLOCK_SIZES]);

/* The frame's bytes as vectors; returns how many. */
int frame_vectors(struct frame *frame, struct iovec vectors[BLOCK_SIZES]);

/* Copies the frame's bytes out of, or from one run of memory into, its blocks. */
void frame_gather(struct frame *frame, uint8_t *data);
void frame_scatter(struct frame *frame, const uint8_t *data);

#endif
