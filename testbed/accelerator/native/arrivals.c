#include "arrivals.h"

/* Numbers wrap around: RFC 1982. */
static int32_t serial_difference(uint32_t number, uint32_t other)
{
    return (int32_t)(number - other);
}

/* Writes distances back from the new highest that only now are REORDER_PACKETS or more. */
static int newly_lost(const struct arrivals *arrivals, uint32_t number, int ahead,
                      uint32_t missing[SEEN_NUMBERS])
{
    int farthest = ahead + REORDER_PACKETS - 1, count = 0;

    if (farthest > SEEN_NUMBERS)
        farthest = SEEN_NUMBERS;
    for (int back = farthest; back >= REORDER_PACKETS; back--) {
        int before = back - ahead; /* distance from the old highest */

        if (before < 0 || !(arrivals->seen >> before & 1))
            missing[count++] = number - (uint32_t)back;
    }
    return count;
}

int arrivals_missing(struct arrivals *arrivals, uint32_t number, uint32_t missing[SEEN_NUMBERS])
{
    int32_t ahead = serial_difference(number, arrivals->highest);
    int count;

    if (!arrivals->started || ahead > JUMP_NUMBERS || ahead < -JUMP_NUMBERS) {
        arrivals->started = true;
        arrivals->highest = number;
        arrivals->seen = UINT64_MAX;
        return 0;
    }
    if (ahead <= 0) {
        if (-ahead < SEEN_NUMBERS)
            arrivals->seen |= 1ull << -ahead;
        return 0;
    }
    count = newly_lost(arrivals, number, ahead, missing);
    arrivals->seen = (ahead < SEEN_NUMBERS ? arrivals->seen << ahead : 0) | 1;
    arrivals->highest = number;
    return count;
}

uint32_t arrivals_queueing(struct arrivals *arrivals, uint64_t now_us, uint32_t sent_us)
{
    uint32_t transit = (uint32_t)now_us - sent_us, least;

    if (!arrivals->timed) {
        arrivals->timed = true;
        arrivals->base_us = arrivals->base_before_us = transit;
        arrivals->period_start_us = now_us;
    }
    if (now_us - arrivals->period_start_us >= BASE_PERIOD_US) {
        arrivals->base_before_us = arrivals->base_us;
        arrivals->base_us = transit;
        arrivals->period_start_us = now_us;
    }
    if (serial_difference(transit, arrivals->base_us) < 0)
        arrivals->base_us = transit;
    least = arrivals->base_us;
    if (serial_difference(arrivals->base_before_us, least) < 0)
        least = arrivals->base_before_us;
    return transit - least;
}
