/* Numbers to integers and back, as workloads/collectives/fixed_point.py defines it, for float32 in
   32 bits: the only format whose speed a training feels. Each function gives the bits that the
   Python one gives; that is tested. A block's scale is a power of two, so each product is exact in
   double precision and only the one rounding of the definition takes place. */

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#define ON_WIDE_VECTORS __attribute__((target_clones("avx512f", "avx2", "default")))

enum { BLOCK = 256, BIAS = 126, MANTISSA_BITS = 23 };

/* Adding and subtracting 1.5 * 2^52 rounds to an integer, ties to even, in the default mode. */
static const double ROUNDER = 6755399441055744.0;

static double power_of_two(int exponent) { return ldexp(1.0, exponent); }

static int exponent_of(uint8_t code) { return (code ? code : 1) - BIAS; }

static long block_end(long block, long n) {
    long end = (block + 1) * BLOCK;
    return end < n ? end : n;
}

ON_WIDE_VECTORS static uint32_t largest_magnitude(const uint32_t *bits, long n) {
    uint32_t largest = 0;
    for (long i = 0; i < n; i++) {
        uint32_t magnitude = bits[i] & 0x7fffffffu;
        largest = magnitude > largest ? magnitude : largest;
    }
    return largest;
}

EXPORT void atoll_codes(const float *values, long n, uint8_t *codes) {
    const uint32_t *bits = (const uint32_t *)(const void *)values;
    for (long block = 0; block * BLOCK < n; block++) {
        long first = block * BLOCK;
        uint32_t largest = largest_magnitude(bits + first, block_end(block, n) - first);
        uint32_t code = largest >> MANTISSA_BITS;
        codes[block] = (uint8_t)(code == 0 && largest > 0 ? 1 : code);
    }
}

ON_WIDE_VECTORS static void scale_block(const float *values, long n, double scale, double limit,
                                        int32_t *out) {
    for (long i = 0; i < n; i++) {
        double scaled = values[i] * scale;
        scaled = scaled > limit ? limit : scaled;
        scaled = scaled < -limit ? -limit : scaled;
        out[i] = (int32_t)((scaled + ROUNDER) - ROUNDER);
    }
}

ON_WIDE_VECTORS static void add_block(int32_t *sums, const int32_t *parts, long n) {
    for (long i = 0; i < n; i++) sums[i] += parts[i];
}

EXPORT void atoll_quantize(const float *values, long n, const uint8_t *codes, int bits,
                           int32_t *out) {
    double limit = power_of_two(bits);
    for (long block = 0; block * BLOCK < n; block++) {
        long first = block * BLOCK;
        double scale = power_of_two(bits - exponent_of(codes[block]));
        scale_block(values + first, block_end(block, n) - first, scale, limit, out + first);
    }
}

/* Add the integers of `values` to `sums`, without a place for them in between. */
EXPORT void atoll_accumulate(const float *values, long n, const uint8_t *codes, int bits,
                             int32_t *sums) {
    double limit = power_of_two(bits);
    int32_t parts[BLOCK];
    for (long block = 0; block * BLOCK < n; block++) {
        long first = block * BLOCK, length = block_end(block, n) - first;
        double scale = power_of_two(bits - exponent_of(codes[block]));
        scale_block(values + first, length, scale, limit, parts);
        add_block(sums + first, parts, length);
    }
}

ON_WIDE_VECTORS static void restore_block(const int32_t *sums, long n, double scale,
                                          double divisor, double limit, float *out) {
    for (long i = 0; i < n; i++) {
        double number = sums[i] * scale / divisor;
        number = number > limit ? limit : number;
        number = number < -limit ? -limit : number;
        out[i] = (float)number;
    }
}

/* `limit` is the largest float where a result must be finite, else infinity. */
EXPORT void atoll_restore(const int32_t *sums, long n, const uint8_t *codes, int bits,
                          double divisor, double limit, float *out) {
    for (long block = 0; block * BLOCK < n; block++) {
        long first = block * BLOCK;
        double scale = power_of_two(exponent_of(codes[block]) - bits);
        restore_block(sums + first, block_end(block, n) - first, scale, divisor, limit,
                      out + first);
    }
}
