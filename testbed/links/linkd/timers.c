#include "timers.h"

#include <stdlib.h>

bool timers_reserve(struct timers *timers, size_t directions)
{
    struct timer *heap;

    if (directions + 1 <= timers->room)
        return true;
    heap = realloc(timers->heap, (directions + 1) * sizeof *heap);
    if (!heap)
        return false;
    timers->heap = heap;
    timers->room = directions + 1;
    return true;
}

static void put(struct timers *timers, size_t slot, struct timer timer)
{
    timers->heap[slot] = timer;
    timer.direction->timer_slot = slot;
}

static void sift(struct timers *timers, size_t slot, struct timer timer)
{
    struct timer *heap = timers->heap;
    size_t child;

    for (; slot > 1 && timer.due_ns < heap[slot / 2].due_ns; slot /= 2)
        put(timers, slot, heap[slot / 2]);
    for (; (child = 2 * slot) <= timers->count; slot = child) {
        if (child < timers->count && heap[child + 1].due_ns < heap[child].due_ns)
            child++;
        if (heap[child].due_ns >= timer.due_ns)
            break;
        put(timers, slot, heap[child]);
    }
    put(timers, slot, timer);
}

void timers_remove(struct timers *timers, struct direction *direction)
{
    size_t slot = direction->timer_slot;
    struct timer last;

    if (slot == 0)
        return;
    direction->timer_slot = 0;
    last = timers->heap[timers->count--];
    if (slot <= timers->count)
        sift(timers, slot, last);
}

void timers_update(struct timers *timers, struct direction *direction)
{
    struct timer timer = {direction_due(direction), direction};

    if (timer.due_ns == NEVER)
        timers_remove(timers, direction);
    else
        sift(timers, direction->timer_slot ? direction->timer_slot : ++timers->count, timer);
}

uint64_t timers_due(const struct timers *timers)
{
    return timers->count ? timers->heap[1].due_ns : NEVER;
}

struct direction *timers_first(const struct timers *timers)
{
    return timers->heap[1].direction;
}
