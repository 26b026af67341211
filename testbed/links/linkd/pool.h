/* Memory for frames: three sizes of block, bounded together, recycled and never given back.
 *
 * A frame takes a small block, and a medium and a large one only when it is long enough. Received
 * straight into such a chain, a frame is never copied, and an acknowledgement of 66 bytes does not
 * occupy the 64 KB that its socket read had to offer. */
#ifndef LINKD_POOL_H
#define LINKD_POOL_H

#include <stdbool.h>
#include <stddef.h>

enum block_size { SMALL, MEDIUM, LARGE, BLOCK_SIZES };

enum { SMALL_BYTES = 2048, MEDIUM_BYTES = 8192, LARGE_BYTES = 57344 };

struct free_block {
    struct free_block *next;
};

struct pool {
    size_t budget_bytes;
    size_t mapped_bytes;
    struct free_block *free[BLOCK_SIZES];
};

void pool_open(struct pool *pool, size_t budget_bytes);

/* A block, or NULL when the budget is spent. */
void *pool_take(struct pool *pool, enum block_size size);

void pool_give(struct pool *pool, enum block_size size, void *block);

#endif
