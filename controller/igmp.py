"""What a host says about multicast groups: IGMP reports read strictly, and the query that asks.

IGMPv3 is RFC 3376, version 2 is RFC 2236, version 1 is appendix I of RFC 1112. Reports are matched
by their protocol number and not by where they are sent to: version 2 sends them to the group
itself, version 3 to 224.0.0.22.

A report comes from a host that may say anything. It is taken only if every length, checksum and
address in it is right; whatever is not is None, and nothing here raises.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from ipaddress import IPv4Address

_ETHERNET_BYTES, _IPV4_BYTES, _IGMP_BYTES = 14, 20, 8
_RECORD_BYTES, _SOURCE_BYTES = 8, 4
_V1_REPORT, _V2_REPORT, _V2_LEAVE, _V3_REPORT, _QUERY = 0x12, 0x16, 0x17, 0x22, 0x11
_FRAGMENTED = 0x3FFF
_ALL_HOSTS, _ALL_ROUTERS = IPv4Address("224.0.0.1"), IPv4Address("224.0.0.2")
_ALL_HOSTS_MAC = bytes.fromhex("01005e000001")
_QUERIER_MAC = bytes.fromhex("020000000000")
_ROUTER_ALERT = bytes.fromhex("94040000")
_ANSWER_WITHIN_TENTHS_S = 10
_ROBUSTNESS = 2
QUERY_INTERVAL_S = 125


class Kind(IntEnum):
    """Type of a group record (RFC 3376, section 4.2.12)."""

    IS_INCLUDE = 1
    IS_EXCLUDE = 2
    TO_INCLUDE = 3
    TO_EXCLUDE = 4
    ALLOW = 5
    BLOCK = 6


@dataclass(frozen=True)
class Record:
    """What a host says about one group; older versions say "exclude nobody" or "include nobody"."""

    kind: Kind
    group_ip: str
    sources: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Report:
    """A host's report: its own address (0.0.0.0 if it has none yet) and its records."""

    sender_ip: str
    records: tuple[Record, ...]


def checksum(data: bytes) -> int:
    """The Internet checksum (RFC 1071); 0 over data that carries its own."""
    padded = data + b"\0" * (len(data) % 2)
    total: int = sum(struct.unpack(f"!{len(padded) // 2}H", padded))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def parse(frame: bytes) -> Report | None:
    """The report in an Ethernet frame, or None for anything that is not exactly one."""
    packet = _igmp_of(frame)
    if packet is None:
        return None
    sender, target, message = packet
    records = _records(message, target)
    return None if records is None else Report(str(sender), records)


def _igmp_of(frame: bytes) -> tuple[IPv4Address, IPv4Address, bytes] | None:
    """Sender, target and payload of a whole, sound IPv4 packet of IGMP with a TTL of 1."""
    header = frame[_ETHERNET_BYTES : _ETHERNET_BYTES + _IPV4_BYTES]
    if len(header) < _IPV4_BYTES or frame[12:14] != b"\x08\x00":
        return None
    first, _, total, _, fragment, ttl, protocol, _, src, dst = struct.unpack(
        "!BBHHHBBH4s4s", header
    )
    header_bytes, packet = 4 * (first & 15), frame[_ETHERNET_BYTES:]
    sound = (
        first >> 4 == 4
        and _IPV4_BYTES <= header_bytes <= total <= len(packet)
        and not fragment & _FRAGMENTED
        and (ttl, protocol) == (1, 2)
        and checksum(packet[:header_bytes]) == 0
        and checksum(packet[header_bytes:total]) == 0
    )
    return (IPv4Address(src), IPv4Address(dst), packet[header_bytes:total]) if sound else None


def _records(message: bytes, target: IPv4Address) -> tuple[Record, ...] | None:
    if len(message) < _IGMP_BYTES:
        return None
    if message[0] == _V3_REPORT:
        return _version_3(message)
    group = IPv4Address(message[4:8])
    if not group.is_multicast or len(message) != _IGMP_BYTES:
        return None
    if message[0] in (_V1_REPORT, _V2_REPORT) and target == group:
        return (Record(Kind.TO_EXCLUDE, str(group)),)
    if message[0] == _V2_LEAVE and target == _ALL_ROUTERS:
        return (Record(Kind.TO_INCLUDE, str(group)),)
    return None


def _version_3(message: bytes) -> tuple[Record, ...] | None:
    count = int.from_bytes(message[6:8], "big")
    try:
        records = tuple(_each_record(message, count))
    except ValueError:
        return None
    return records


def _each_record(message: bytes, count: int) -> Iterator[Record]:
    """Records one after another, which must end where the message does; ValueError otherwise."""
    offset = _IGMP_BYTES
    for _ in range(count):
        head = message[offset : offset + _RECORD_BYTES]
        if len(head) < _RECORD_BYTES:
            raise ValueError("a record is cut off")
        kind, auxiliary_words, source_count, group = struct.unpack("!BBH4s", head)
        offset += _RECORD_BYTES
        sources = message[offset : offset + _SOURCE_BYTES * source_count]
        offset += _SOURCE_BYTES * (source_count + auxiliary_words)
        if len(sources) < _SOURCE_BYTES * source_count or not IPv4Address(group).is_multicast:
            raise ValueError("sources are cut off, or the group is none")
        yield Record(Kind(kind), str(IPv4Address(group)), frozenset(_addresses(sources)))
    if offset != len(message):
        raise ValueError("the records do not fill the message")


def _addresses(data: bytes) -> Iterator[str]:
    for start in range(0, len(data), _SOURCE_BYTES):
        yield str(IPv4Address(data[start : start + _SOURCE_BYTES]))


def general_query() -> bytes:
    """The frame that asks a host which groups it wants (RFC 3376, section 4.1).

    Its source address is 0.0.0.0, which marks a query by a switch: it wins no querier election
    (RFC 4541, section 2.1.1).
    """
    message = struct.pack(
        *("!BBH4sBBH", _QUERY, _ANSWER_WITHIN_TENTHS_S, 0, bytes(4)),
        *(_ROBUSTNESS, QUERY_INTERVAL_S, 0),
    )
    message = message[:2] + checksum(message).to_bytes(2, "big") + message[4:]
    return ipv4_frame(message, IPv4Address(0), _ALL_HOSTS, _QUERIER_MAC, _ALL_HOSTS_MAC)


def ipv4_frame(
    message: bytes, source: IPv4Address, target: IPv4Address, source_mac: bytes, target_mac: bytes
) -> bytes:
    """An Ethernet frame with an IGMP message, TTL 1 and the router-alert option of RFC 2113."""
    total = _IPV4_BYTES + len(_ROUTER_ALERT) + len(message)
    addresses = source.packed + target.packed
    fields = (0x46, 0xC0, total, 0, 0, 1, 2, 0)
    header = struct.pack("!BBHHHBBH", *fields) + addresses + _ROUTER_ALERT
    header = header[:10] + checksum(header).to_bytes(2, "big") + header[12:]
    return target_mac + source_mac + b"\x08\x00" + header + message
