/* What is inside a frame: pure functions on its bytes, a virtio_net_hdr first.
 *
 * The kernel moves TCP in frames of up to 64 KB with a checksum still to be filled in, and says in
 * the virtio_net_hdr how they are to be cut. All lengths and offsets in such a frame come from
 * outside and are checked against its size before use. */
#ifndef LINKD_PACKET_H
#define LINKD_PACKET_H

#include <stdbool.h>
#include <stdint.h>

enum { VNET_BYTES = 10, PACKET_MAX_BYTES = 65550 + VNET_BYTES };

struct wire_size {
    uint32_t frames; /* on the wire; 1 unless it is a segmentation-offload frame */
    uint32_t bytes;  /* of all those frames, from the destination address on */
    uint32_t header_bytes;  /* in front of each one's payload; 0 unless it can be cut */
    uint32_t segment_bytes; /* of payload in each but the last */
};

/* `readable` bytes of `packet`, of `bytes` in all, are in one run of memory. */
struct wire_size packet_wire_size(const uint8_t *packet, uint32_t readable, uint32_t bytes);

/* Writes wire frame `index` of a segmentation-offload packet, with a virtio_net_hdr of its own, to
 * `segment` (as large as `packet`); returns its bytes. */
uint32_t packet_segment(const uint8_t *packet, uint32_t bytes, const struct wire_size *size,
                        uint32_t index, uint8_t *segment);

/* Fills in a checksum that the kernel left to the network card. */
void packet_complete_checksum(uint8_t *packet, uint32_t bytes);

/* Completes the checksum, so that the damage shows, and flips one bit of the Ethernet frame. */
void packet_flip_bit(uint8_t *packet, uint32_t bytes, uint64_t bit);

/* Puts an 802.1Q tag behind the addresses: `packet` begins 4 bytes further on afterwards than the
 * returned start. Only the first 22 bytes are touched. */
uint8_t *packet_insert_vlan(uint8_t *packet, uint16_t protocol, uint16_t tag);

#endif
