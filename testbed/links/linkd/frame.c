#include "frame.h"

#include <string.h>

static struct frame *take_blocks(struct pool *pool, uint32_t bytes)
{
    struct frame *frame = pool_take(pool, SMALL);

    if (!frame)
        return NULL;
    memset(frame, 0, sizeof *frame);
    frame->bytes = bytes;
    frame->start = VLAN_TAG_BYTES;
    if (bytes > SMALL_ROOM)
        frame->medium = pool_take(pool, MEDIUM);
    if (bytes > SMALL_ROOM + MEDIUM_BYTES)
        frame->large = pool_take(pool, LARGE);
    if ((bytes > SMALL_ROOM && !frame->medium) ||
        (bytes > SMALL_ROOM + MEDIUM_BYTES && !frame->large)) {
        frame_free(pool, frame);
        return NULL;
    }
    return frame;
}

struct frame *frame_new(struct pool *pool)
{
    return take_blocks(pool, FRAME_MAX_BYTES);
}

struct frame *frame_of(struct pool *pool, const uint8_t *data, uint32_t bytes)
{
    struct frame *frame = take_blocks(pool, bytes);

    if (frame)
        frame_scatter(frame, data);
    return frame;
}

static uint32_t first_room(const struct frame *frame)
{
    return SMALL_ROOM + VLAN_TAG_BYTES - frame->start;
}

void frame_trim(struct pool *pool, struct frame *frame)
{
    if (frame->large && frame->bytes <= first_room(frame) + MEDIUM_BYTES) {
        pool_give(pool, LARGE, frame->large);
        frame->large = NULL;
    }
    if (frame->medium && frame->bytes <= first_room(frame)) {
        pool_give(pool, MEDIUM, frame->medium);
        frame->medium = NULL;
    }
}

void frame_free(struct pool *pool, struct frame *frame)
{
    if (frame->large)
        pool_give(pool, LARGE, frame->large);
    if (frame->medium)
        pool_give(pool, MEDIUM, frame->medium);
    pool_give(pool, SMALL, frame);
}

void frame_receive_vectors(struct frame *frame, struct iovec vectors[BLOCK_SIZES])
{
    vectors[SMALL] = (struct iovec){frame->room + frame->start, first_room(frame)};
    vectors[MEDIUM] = (struct iovec){frame->medium, MEDIUM_BYTES};
    vectors[LARGE] = (struct iovec){frame->large, LARGE_BYTES};
}

int frame_vectors(struct frame *frame, struct iovec vectors[BLOCK_SIZES])
{
    size_t left = frame->bytes;
    int used = 0;

    frame_receive_vectors(frame, vectors);
    while (used < BLOCK_SIZES && left > 0) {
        if (vectors[used].iov_len > left)
            vectors[used].iov_len = left;
        left -= vectors[used].iov_len;
        used++;
    }
    return used;
}

void frame_gather(struct frame *frame, uint8_t *data)
{
    struct iovec vectors[BLOCK_SIZES];
    int used = frame_vectors(frame, vectors);

    for (int i = 0; i < used; i++) {
        memcpy(data, vectors[i].iov_base, vectors[i].iov_len);
        data += vectors[i].iov_len;
    }
}

void frame_scatter(struct frame *frame, const uint8_t *data)
{
    struct iovec vectors[BLOCK_SIZES];
    int used = frame_vectors(frame, vectors);

    for (int i = 0; i < used; i++) {
        memcpy(vectors[i].iov_base, data, vectors[i].iov_len);
        data += vectors[i].iov_len;
    }
}
