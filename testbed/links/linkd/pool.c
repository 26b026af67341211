#include "pool.h"

#include <string.h>
#include <sys/mman.h>

/* Small enough that mapping one does not hold up frames that are due. */
enum { SLAB_BLOCKS = 8 };

static const size_t BLOCK_BYTES[BLOCK_SIZES] = {SMALL_BYTES, MEDIUM_BYTES, LARGE_BYTES};

void pool_open(struct pool *pool, size_t budget_bytes)
{
    memset(pool, 0, sizeof *pool);
    pool->budget_bytes = budget_bytes;
}

void pool_give(struct pool *pool, enum block_size size, void *block)
{
    struct free_block *given = block;

    given->next = pool->free[size];
    pool->free[size] = given;
}

static bool map_slab(struct pool *pool, enum block_size size)
{
    size_t bytes = BLOCK_BYTES[size] * SLAB_BLOCKS;
    char *slab;

    if (pool->mapped_bytes + bytes > pool->budget_bytes)
        return false;
    slab = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE,
                -1, 0);
    if (slab == MAP_FAILED)
        return false;
    pool->mapped_bytes += bytes;
    for (size_t at = 0; at < bytes; at += BLOCK_BYTES[size])
        pool_give(pool, size, slab + at);
    return true;
}

void *pool_take(struct pool *pool, enum block_size size)
{
    struct free_block *taken;

    if (!pool->free[size] && !map_slab(pool, size))
        return NULL;
    taken = pool->free[size];
    pool->free[size] = taken->next;
    return taken;
}
