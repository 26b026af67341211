/* The packet of in-network aggregation, as docs/protocol.md defines it.
 *
 * A packet is a header of 64 bytes, then a max area and a sum area, all little-endian. Accelerators
 * and members share these functions; `workloads/innetwork/protocol.py` is their readable twin. */
#ifndef ATOLL_PROTOCOL_H
#define ATOLL_PROTOCOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "areas are summed as they lie in memory");

#define ATOLL_MAGIC 0xA701u
#define ATOLL_VERSION 1u
#define ATOLL_NO_CHILD 0xFFFFu
#define ATOLL_NO_SEQUENCE UINT64_MAX

enum {
    ATOLL_HEADER_BYTES = 64,
    ATOLL_PACKET_MAX_BYTES = 9216,
    ATOLL_AREA_MAX_BYTES = ATOLL_PACKET_MAX_BYTES - ATOLL_HEADER_BYTES,
    ATOLL_DONE_BITS = 64, /* sequences that one DONE can tell of */
};

enum atoll_type {
    ATOLL_DATA = 1, /* up: a child's contribution */
    ATOLL_RESULT,   /* down: the whole sum */
    ATOLL_ASK,      /* up: a member lacks a result */
    ATOLL_RESEND,   /* to a child: its contribution is lacking */
    ATOLL_DONE,     /* down: which sums are complete, without the sums */
    ATOLL_FLUSH,    /* up and down: nothing follows for now, see what is missing */
    ATOLL_LOST,     /* down: what a member asked for will never come */
    ATOLL_TYPES,
};

enum atoll_flag {
    ATOLL_CONGESTED = 1,   /* a queue on the way marked it */
    ATOLL_ASKING = 2,      /* this DATA is also an ASK */
    ATOLL_BY_NUMBER = 4,   /* `number` says what is meant, not `sequence` */
    ATOLL_HEADER_ONLY = 8, /* an ASK that a DONE answers */
    ATOLL_REPEAT = 16,     /* sent before */
    ATOLL_FLAGS = 31,
};

enum atoll_element { ATOLL_NONE, ATOLL_INT32, ATOLL_INT64, ATOLL_ELEMENTS };

/* As it lies on the wire. */
struct atoll_header {
    uint16_t magic;
    uint8_t version;
    uint8_t type;
    uint8_t flags;
    uint8_t element;
    uint16_t child;
    uint64_t job;
    uint16_t tree;
    uint16_t member;
    uint32_t number;
    uint64_t sequence;
    uint16_t max_bytes;
    uint16_t sum_bytes;
    uint16_t leaves;
    uint16_t reserved;
    uint32_t sent_us;
    uint32_t delay_us;
    uint32_t incarnation;
    uint32_t reserved2;
    uint64_t check;
};

_Static_assert(sizeof(struct atoll_header) == ATOLL_HEADER_BYTES, "no padding");
_Static_assert(offsetof(struct atoll_header, sequence) == 24, "no padding");
_Static_assert(offsetof(struct atoll_header, check) == 56, "no padding");

/* The secret words of a job, one for each word that a packet can have. */
struct atoll_key {
    uint64_t word[ATOLL_PACKET_MAX_BYTES / 8];
};

/* SplitMix64: G. Steele, D. Lea, C. Flood, "Fast splittable pseudorandom number generators", 2014. */
static inline uint64_t atoll_next_random(uint64_t *state)
{
    uint64_t mixed = *state += 0x9e3779b97f4a7c15ull;

    mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9ull;
    mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111ebull;
    return mixed ^ mixed >> 31;
}

static inline void atoll_key_of(struct atoll_key *key, uint64_t secret)
{
    for (size_t i = 0; i < sizeof key->word / sizeof *key->word; i++)
        key->word[i] = atoll_next_random(&secret);
}

static inline uint64_t atoll_nh(uint64_t word, uint64_t key)
{
    uint32_t low = (uint32_t)word + (uint32_t)key;
    uint32_t high = (uint32_t)(word >> 32) + (uint32_t)(key >> 32);

    return (uint64_t)low * high;
}

/* NH, the hash of UMAC (RFC 4418, section 5.2.2), over all but the header's last word: two packets
 * that differ agree in it with a probability of 2^-32 for whoever does not know the key. */
static inline uint64_t atoll_check(const struct atoll_key *key, const void *packet, size_t bytes)
{
    const size_t place = offsetof(struct atoll_header, check) / 8;
    const uint8_t *at = packet;
    uint64_t hash = 0, word;
    size_t i;

    for (i = 0; i < bytes / 8; i++) {
        memcpy(&word, at + 8 * i, 8);
        hash += atoll_nh(word, key->word[i]);
    }
    if (bytes % 8) {
        word = 0;
        memcpy(&word, at + 8 * i, bytes % 8);
        hash += atoll_nh(word, key->word[i]);
    }
    memcpy(&word, at + 8 * place, 8);
    return hash - atoll_nh(word, key->word[place]) + atoll_nh(0, key->word[place]);
}

static inline size_t atoll_element_bytes(unsigned element)
{
    return element == ATOLL_INT64 ? 8 : 4;
}

/* Where the sum area starts behind the header. */
static inline size_t atoll_max_room(size_t max_bytes)
{
    return (max_bytes + 7) / 8 * 8;
}

static inline size_t atoll_packet_bytes(const struct atoll_header *header)
{
    return ATOLL_HEADER_BYTES + atoll_max_room(header->max_bytes) + header->sum_bytes;
}

static inline bool atoll_areas_fit(const struct atoll_header *header, size_t bytes)
{
    if (header->sum_bytes % atoll_element_bytes(header->element) != 0)
        return false;
    if ((header->element == ATOLL_NONE) != (header->sum_bytes == 0))
        return false;
    return bytes == atoll_packet_bytes(header);
}

/* Reads the header of a packet. False if this is no packet of ours; `check` is not verified. */
static inline bool atoll_decode(const void *packet, size_t bytes, struct atoll_header *header)
{
    if (bytes < ATOLL_HEADER_BYTES || bytes > ATOLL_PACKET_MAX_BYTES)
        return false;
    memcpy(header, packet, ATOLL_HEADER_BYTES);
    if (header->magic != ATOLL_MAGIC || header->version != ATOLL_VERSION)
        return false;
    if (header->type < ATOLL_DATA || header->type >= ATOLL_TYPES)
        return false;
    if (header->flags & ~ATOLL_FLAGS || header->reserved || header->reserved2)
        return false;
    if (header->sequence == ATOLL_NO_SEQUENCE)
        return false;
    return header->element < ATOLL_ELEMENTS && atoll_areas_fit(header, bytes);
}

/* Whether the packet arrived as it was sent by somebody who knows the key. */
static inline bool atoll_genuine(const struct atoll_key *key, const void *packet, size_t bytes)
{
    uint64_t check;

    memcpy(&check, (const uint8_t *)packet + offsetof(struct atoll_header, check), 8);
    return check == atoll_check(key, packet, bytes);
}

/* Writes the header in front of areas that are already in place behind it. */
static inline void atoll_seal(const struct atoll_key *key, struct atoll_header *header, void *packet)
{
    header->magic = ATOLL_MAGIC;
    header->version = ATOLL_VERSION;
    memcpy(packet, header, ATOLL_HEADER_BYTES);
    header->check = atoll_check(key, packet, atoll_packet_bytes(header));
    memcpy(packet, header, ATOLL_HEADER_BYTES);
}

static inline void atoll_take_max(uint8_t *restrict into, const uint8_t *restrict from, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        into[i] = from[i] > into[i] ? from[i] : into[i];
}

static inline void atoll_add32(uint32_t *restrict into, const uint32_t *restrict from, size_t count)
{
    for (size_t i = 0; i < count; i++)
        into[i] += from[i];
}

static inline void atoll_add64(uint64_t *restrict into, const uint64_t *restrict from, size_t count)
{
    for (size_t i = 0; i < count; i++)
        into[i] += from[i];
}

/* Adds the areas behind a packet's header into areas of the same shape; both lie at multiples of 8.
 * Unsigned addition is two's complement addition without what C leaves undefined. */
static inline void atoll_add(void *into, const void *from, const struct atoll_header *header)
{
    size_t room = atoll_max_room(header->max_bytes);
    void *sums = (uint8_t *)into + room;
    const void *more = (const uint8_t *)from + room;

    atoll_take_max(into, from, header->max_bytes);
    if (header->element == ATOLL_INT64)
        atoll_add64(sums, more, header->sum_bytes / 8u);
    else
        atoll_add32(sums, more, header->sum_bytes / 4u);
}

#endif
