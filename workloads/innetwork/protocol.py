"""The packet of in-network aggregation, readable: bytes to fields and back.

`docs/protocol.md` says what the fields mean and why they suffice; `native/protocol.h` is the same
in C, and tests hold the two against each other. A packet is a header of 64 bytes, then a *max area*
(bytes of which the network takes the maximum, element by element) and a *sum area* (integers that
the network adds), all little-endian. The network knows nothing of what either area means.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from enum import IntEnum, IntFlag
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

MAGIC = 0xA701
VERSION = 1
HEADER_BYTES = 64
PACKET_MAX_BYTES = 9216
AREA_MAX_BYTES = PACKET_MAX_BYTES - HEADER_BYTES
NO_CHILD = 0xFFFF
NO_SEQUENCE = 2**64 - 1  # is never sent
DONE_BITS = 64
IP_AND_UDP_BYTES = 28

_HEADER = struct.Struct("<HBBBBHQHHIQHHHHIIIIQ")
_CHECK_WORD = HEADER_BYTES // 8 - 1
_MASK = (1 << 64) - 1


class PacketType(IntEnum):
    """What a packet is for."""

    DATA = 1
    RESULT = 2
    ASK = 3
    RESEND = 4
    DONE = 5
    FLUSH = 6
    LOST = 7


class Flag(IntFlag):
    """What else is to know of a packet."""

    CONGESTED = 1
    ASKING = 2
    BY_NUMBER = 4
    HEADER_ONLY = 8
    REPEAT = 16


NO_FLAGS = Flag(0)
ALL_FLAGS = 31


class Element(IntEnum):
    """What a sum area consists of."""

    NONE = 0
    INT32 = 1
    INT64 = 2


DTYPES: dict[Element, np.dtype[Any]] = {
    Element.INT32: np.dtype("<i4"),
    Element.INT64: np.dtype("<i8"),
}


class PacketError(ValueError):
    """Some bytes are no packet, or not one that was sent by who knows the job's key."""


@dataclass(frozen=True)
class Packet:
    """One packet; see the table of fields in `docs/protocol.md`.

    `max_area` and `sum_area` are as on the wire, without the zeros between them.
    """

    type: PacketType
    job: int
    tree: int
    sequence: int
    child: int = NO_CHILD
    member: int = 0
    number: int = 0
    flags: Flag = NO_FLAGS
    element: Element = Element.NONE
    leaves: int = 0
    sent_us: int = 0
    delay_us: int = 0
    incarnation: int = 0
    max_area: bytes = b""
    sum_area: bytes = b""


def max_room(max_bytes: int) -> int:
    """Return how many bytes the max area takes with the zeros that fill it up."""
    return -(-max_bytes // 8) * 8


def payload_bytes(mtu_bytes: int) -> int:
    """Return how many bytes both areas may have together in an IP packet of this size."""
    return min(AREA_MAX_BYTES, (mtu_bytes - IP_AND_UDP_BYTES - HEADER_BYTES) // 8 * 8)


def encode(packet: Packet, key: int) -> bytes:
    """Return the packet as it goes on the wire, with its check."""
    body = packet.max_area.ljust(max_room(len(packet.max_area)), b"\0") + packet.sum_area
    unchecked = _header(packet, 0) + body
    return _header(packet, check(unchecked, key)) + body


def _header(packet: Packet, check_value: int) -> bytes:
    return _HEADER.pack(
        MAGIC,
        VERSION,
        packet.type,
        packet.flags,
        packet.element,
        packet.child,
        packet.job,
        packet.tree,
        packet.member,
        packet.number,
        packet.sequence,
        len(packet.max_area),
        len(packet.sum_area),
        packet.leaves,
        0,
        packet.sent_us,
        packet.delay_us,
        packet.incarnation,
        0,
        check_value,
    )


def decode(data: bytes, key: int | None = None) -> Packet:
    """Read a packet; with a key, verify its check too.

    Raises:
        PacketError: for bytes that are not exactly one packet of this version.
    """
    if not HEADER_BYTES <= len(data) <= PACKET_MAX_BYTES:
        raise PacketError(f"{len(data)} bytes")
    (magic, version, kind, flags, element, child, job, tree, member, number, sequence, max_bytes,
     sum_bytes, leaves, reserved, sent_us, delay_us, incarnation, reserved2, checked,
     ) = _HEADER.unpack_from(data)  # fmt: skip
    if (magic, version, reserved, reserved2) != (MAGIC, VERSION, 0, 0):
        raise PacketError("not of this protocol")
    if kind not in set(PacketType) or element not in set(Element) or flags > ALL_FLAGS:
        raise PacketError(f"unknown type {kind}, element {element} or flags {flags}")
    if sequence == NO_SEQUENCE:
        raise PacketError("no sequence")
    _verify_lengths(len(data), Element(element), max_bytes, sum_bytes)
    if key is not None and checked != check(data, key):
        raise PacketError("wrong check")
    start = HEADER_BYTES + max_room(max_bytes)
    return Packet(
        PacketType(kind), job, tree, sequence, child, member, number, Flag(flags),
        Element(element), leaves, sent_us, delay_us, incarnation,
        data[HEADER_BYTES : HEADER_BYTES + max_bytes], data[start:],
    )  # fmt: skip


def _verify_lengths(length: int, element: Element, max_bytes: int, sum_bytes: int) -> None:
    if (element == Element.NONE) != (sum_bytes == 0):
        raise PacketError("a sum area without an element, or the reverse")
    if element != Element.NONE and sum_bytes % DTYPES[element].itemsize:
        raise PacketError(f"a sum area of {sum_bytes} bytes")
    if length != HEADER_BYTES + max_room(max_bytes) + sum_bytes:
        raise PacketError(f"{length} bytes for areas of {max_bytes} and {sum_bytes}")


def check(data: bytes, key: int) -> int:
    """Return NH (RFC 4418, section 5.2.2) of a packet under a key, its check taken as 0.

    Words of 32 bits are added to words of the key, and the sums multiplied in pairs. Whoever does
    not know the key meets the check of another packet of the same length with a chance of 2^-32.
    """
    words = np.frombuffer(data + bytes(-len(data) % 8), dtype="<u4").copy()
    words[2 * _CHECK_WORD : 2 * _CHECK_WORD + 2] = 0
    shifted = (words + _key_words(key)[: len(words)]).astype(np.uint64)
    return int(np.sum(shifted[0::2] * shifted[1::2], dtype=np.uint64))


@lru_cache(maxsize=64)
def _key_words(key: int) -> npt.NDArray[np.uint32]:
    words = []
    state = key
    for _ in range(PACKET_MAX_BYTES // 8):
        state = (state + 0x9E3779B97F4A7C15) & _MASK
        mixed = ((state ^ state >> 30) * 0xBF58476D1CE4E5B9) & _MASK
        mixed = ((mixed ^ mixed >> 27) * 0x94D049BB133111EB) & _MASK
        words.append(mixed ^ mixed >> 31)
    return np.array(words, dtype="<u8").view("<u4")


@dataclass(frozen=True)
class Areas:
    """What is summed: both areas and the type of the second."""

    element: Element = Element.NONE
    max_area: bytes = b""
    sum_area: bytes = b""

    @classmethod
    def of(cls, packet: Packet) -> Areas:
        """Return the areas of a packet."""
        return cls(packet.element, packet.max_area, packet.sum_area)

    def put_into(self, packet: Packet) -> Packet:
        """Return the packet with these areas."""
        return replace(packet, element=self.element, max_area=self.max_area, sum_area=self.sum_area)

    def fits(self, other: Areas) -> bool:
        """Whether the two have the same shape."""
        return self._shape() == other._shape()

    def _shape(self) -> tuple[Element, int, int]:
        return self.element, len(self.max_area), len(self.sum_area)

    def plus(self, other: Areas) -> Areas:
        """Return maxima and sums of two areas of the same shape; sums wrap around."""
        maxima = np.maximum(
            np.frombuffer(self.max_area, np.uint8), np.frombuffer(other.max_area, np.uint8)
        )
        if self.element == Element.NONE:
            return replace(self, max_area=maxima.tobytes())
        dtype = DTYPES[self.element]
        sums = np.frombuffer(self.sum_area, dtype) + np.frombuffer(other.sum_area, dtype)
        return Areas(self.element, maxima.tobytes(), sums.tobytes())
