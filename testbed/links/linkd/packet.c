#include "packet.h"

#include <arpa/inet.h>
#include <linux/virtio_net.h>
#include <netinet/in.h>
#include <string.h>

enum {
    ADDRESSES_BYTES = 12,
    ETHERNET_BYTES = 14,
    VLAN_BYTES = 4,
    IPV4_BYTES = 20,
    IPV6_BYTES = 40,
    UDP_BYTES = 8,
    TCP_BYTES = 20,
    TYPE_IPV4 = 0x0800,
    TYPE_IPV6 = 0x86dd,
    TYPE_VLAN = 0x8100,
    TYPE_SERVICE_VLAN = 0x88a8,
    TCP_FIN_PSH = 0x09,
    TCP_CWR = 0x80,
    GSO_UDP_L4 = 5
};

_Static_assert(sizeof(struct virtio_net_hdr) == VNET_BYTES, "virtio_net_hdr");

static uint16_t read16(const uint8_t *at)
{
    return (uint16_t)(at[0] << 8 | at[1]);
}

static void write16(uint8_t *at, uint32_t value)
{
    at[0] = (uint8_t)(value >> 8);
    at[1] = (uint8_t)value;
}

static void add32(uint8_t *at, uint32_t more)
{
    uint32_t value;

    memcpy(&value, at, sizeof value);
    value = htonl(ntohl(value) + more);
    memcpy(at, &value, sizeof value);
}

static uint64_t sum16(const uint8_t *at, uint32_t bytes, uint64_t sum)
{
    for (; bytes > 1; bytes -= 2, at += 2)
        sum += read16(at);
    return bytes ? sum + ((uint64_t)*at << 8) : sum;
}

static uint16_t folded(uint64_t sum)
{
    while (sum >> 16)
        sum = (sum & 0xffff) + (sum >> 16);
    return (uint16_t)sum;
}

static struct virtio_net_hdr header_of(const uint8_t *packet)
{
    struct virtio_net_hdr header;

    memcpy(&header, packet, sizeof header);
    return header;
}

/* Where the IP header starts in the Ethernet frame; 0 if there is none within `bytes`. */
static uint32_t ip_offset(const uint8_t *ethernet, uint32_t bytes, uint16_t *type)
{
    uint32_t at = ADDRESSES_BYTES;

    for (; at + 2 <= bytes; at += VLAN_BYTES) {
        *type = read16(ethernet + at);
        if (*type != TYPE_VLAN && *type != TYPE_SERVICE_VLAN)
            break;
    }
    at += 2;
    if (at + IPV4_BYTES > bytes)
        return 0;
    if (*type == TYPE_IPV4)
        return at;
    return *type == TYPE_IPV6 && at + IPV6_BYTES <= bytes ? at : 0;
}

/* Bytes in front of the payload of a segmentation-offload frame; 0 if it is none we can cut. */
static uint32_t header_bytes(const struct virtio_net_hdr *header, const uint8_t *ethernet,
                             uint32_t readable)
{
    uint8_t kind = header->gso_type & (uint8_t)~VIRTIO_NET_HDR_GSO_ECN;
    uint32_t transport = header->csum_start, length;
    uint16_t type = 0;
    uint32_t ip = ip_offset(ethernet, readable, &type);

    if (!(header->flags & VIRTIO_NET_HDR_F_NEEDS_CSUM) || header->gso_size == 0 || ip == 0 ||
        transport < ip + (type == TYPE_IPV4 ? IPV4_BYTES : IPV6_BYTES))
        return 0;
    if (kind == GSO_UDP_L4)
        return transport + UDP_BYTES <= readable ? transport + UDP_BYTES : 0;
    if (kind != (type == TYPE_IPV4 ? VIRTIO_NET_HDR_GSO_TCPV4 : VIRTIO_NET_HDR_GSO_TCPV6) ||
        transport + TCP_BYTES > readable)
        return 0;
    length = (uint32_t)(ethernet[transport + 12] >> 4) * 4;
    return length >= TCP_BYTES && transport + length <= readable ? transport + length : 0;
}

struct wire_size packet_wire_size(const uint8_t *packet, uint32_t readable, uint32_t bytes)
{
    uint32_t wire = bytes - VNET_BYTES, payload;
    struct wire_size size = {1, wire, 0, 0};
    struct virtio_net_hdr header = header_of(packet);
    uint32_t front = header_bytes(&header, packet + VNET_BYTES, readable - VNET_BYTES);

    if (front == 0 || wire <= front)
        return size;
    payload = wire - front;
    size.header_bytes = front;
    size.segment_bytes = header.gso_size;
    size.frames = (payload + header.gso_size - 1) / header.gso_size;
    size.bytes = wire + (size.frames - 1) * front;
    return size;
}

/* The one's complement sum that the kernel expects in a checksum field still to be completed. */
static uint16_t pseudo_header_sum(const uint8_t *ip, uint16_t type, uint32_t protocol,
                                  uint32_t transport_bytes)
{
    const uint8_t *addresses = ip + (type == TYPE_IPV4 ? 12 : 8);
    uint32_t addresses_bytes = type == TYPE_IPV4 ? 8 : 32;

    return folded(sum16(addresses, addresses_bytes, protocol + transport_bytes));
}

static void fix_ip(uint8_t *ip, uint16_t type, uint32_t ip_bytes, uint32_t index)
{
    uint32_t length;

    if (type == TYPE_IPV6) {
        write16(ip + 4, ip_bytes - IPV6_BYTES);
        return;
    }
    length = (uint32_t)(ip[0] & 15) * 4;
    if (length < IPV4_BYTES || length > ip_bytes)
        length = IPV4_BYTES;
    write16(ip + 2, ip_bytes);
    write16(ip + 4, (uint32_t)read16(ip + 4) + index);
    write16(ip + 10, 0);
    write16(ip + 10, (uint16_t)~folded(sum16(ip, length, 0)));
}

static void fix_tcp(uint8_t *tcp, const struct wire_size *size, uint32_t index)
{
    add32(tcp + 4, index * size->segment_bytes);
    if (index + 1 < size->frames)
        tcp[13] &= (uint8_t)~TCP_FIN_PSH;
    if (index > 0)
        tcp[13] &= (uint8_t)~TCP_CWR;
}

uint32_t packet_segment(const uint8_t *packet, uint32_t bytes, const struct wire_size *size,
                        uint32_t index, uint8_t *segment)
{
    struct virtio_net_hdr header = header_of(packet);
    bool udp = (header.gso_type & ~VIRTIO_NET_HDR_GSO_ECN) == GSO_UDP_L4;
    uint32_t front = VNET_BYTES + size->header_bytes;
    uint32_t from = front + index * size->segment_bytes;
    uint32_t payload = bytes - from < size->segment_bytes ? bytes - from : size->segment_bytes;
    uint32_t transport_bytes = size->header_bytes - header.csum_start + payload;
    uint8_t *ethernet = segment + VNET_BYTES, *transport = ethernet + header.csum_start;
    uint16_t type = 0;
    uint32_t ip;

    memcpy(segment, packet, front);
    memcpy(segment + front, packet + from, payload);
    ip = ip_offset(ethernet, size->header_bytes, &type);
    fix_ip(ethernet + ip, type, size->header_bytes + payload - ip, index);
    if (udp)
        write16(transport + 4, transport_bytes);
    else
        fix_tcp(transport, size, index);
    write16(transport + (udp ? 6 : 16),
            pseudo_header_sum(ethernet + ip, type, udp ? IPPROTO_UDP : IPPROTO_TCP,
                              transport_bytes));
    header.gso_type = VIRTIO_NET_HDR_GSO_NONE;
    header.gso_size = 0;
    header.hdr_len = 0;
    header.csum_offset = udp ? 6 : 16;
    memcpy(segment, &header, sizeof header);
    return front + payload;
}

void packet_complete_checksum(uint8_t *packet, uint32_t bytes)
{
    struct virtio_net_hdr header = header_of(packet);
    uint8_t *ethernet = packet + VNET_BYTES;
    uint32_t wire = bytes - VNET_BYTES, field = (uint32_t)header.csum_start + header.csum_offset;
    uint16_t sum;

    if (!(header.flags & VIRTIO_NET_HDR_F_NEEDS_CSUM) || field + 2 > wire)
        return;
    sum = (uint16_t)~folded(sum16(ethernet + header.csum_start, wire - header.csum_start, 0));
    write16(ethernet + field, sum ? sum : 0xffff); /* zero means "none" to UDP, the same to TCP */
    header.flags &= (uint8_t)~VIRTIO_NET_HDR_F_NEEDS_CSUM;
    header.csum_start = header.csum_offset = 0;
    memcpy(packet, &header, sizeof header);
}

void packet_flip_bit(uint8_t *packet, uint32_t bytes, uint64_t bit)
{
    uint32_t wire = bytes - VNET_BYTES;

    if (wire == 0)
        return;
    packet_complete_checksum(packet, bytes);
    bit %= (uint64_t)wire * 8;
    packet[VNET_BYTES + bit / 8] ^= (uint8_t)(1 << bit % 8);
}

uint8_t *packet_insert_vlan(uint8_t *packet, uint16_t protocol, uint16_t tag)
{
    struct virtio_net_hdr header = header_of(packet);
    uint8_t *moved = packet - VLAN_BYTES;

    if (header.flags & VIRTIO_NET_HDR_F_NEEDS_CSUM)
        header.csum_start = (uint16_t)(header.csum_start + VLAN_BYTES);
    if (header.hdr_len)
        header.hdr_len = (uint16_t)(header.hdr_len + VLAN_BYTES);
    memmove(moved + VNET_BYTES, packet + VNET_BYTES, ADDRESSES_BYTES);
    memcpy(moved, &header, sizeof header);
    write16(moved + VNET_BYTES + ADDRESSES_BYTES, protocol);
    write16(moved + VNET_BYTES + ADDRESSES_BYTES + 2, tag);
    return moved;
}
