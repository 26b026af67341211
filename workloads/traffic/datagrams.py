"""The header of a UDP flow's datagrams, and what a receiver learns from them. Pure.

    0       4       8                16               24
    +-------+-------+----------------+----------------+-- ...
    | magic | flow  |    sequence    |   sent at, s   | zeros
    +-------+-------+----------------+----------------+-- ...

All in network byte order. Islands share one clock, so the one-way delay needs no round trip; jitter
is the smoothed one of RFC 3550, section 6.4.1.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

MAGIC = 0x41544F4C
HEADER = struct.Struct("!IIQd")
SMOOTHING = 16


@dataclass
class Arrivals:
    """What arrived of one flow.

    Attributes:
        number: of the flow.
        datagrams: how many arrived.
        payload_bytes: of them all.
        out_of_order: those that a later one had overtaken.
        delay_s: one-way delays of all, added up.
        jitter_s: smoothed difference between the delays of neighbours.
    """

    number: int
    datagrams: int = 0
    payload_bytes: int = 0
    out_of_order: int = 0
    delay_s: float = 0.0
    jitter_s: float = 0.0
    _highest: int = -1
    _last_delay_s: float | None = None

    def take(self, datagram: bytes, now_s: float) -> bool:
        """Count a datagram; return whether it is one of this flow."""
        if len(datagram) < HEADER.size:
            return False
        magic, number, sequence, sent_s = HEADER.unpack_from(datagram)
        if magic != MAGIC or number != self.number:
            return False
        self.datagrams += 1
        self.payload_bytes += len(datagram)
        self.out_of_order += sequence < self._highest
        self._highest = max(self._highest, sequence)
        self._delayed(now_s - sent_s)
        return True

    def _delayed(self, delay_s: float) -> None:
        if self._last_delay_s is not None:
            self.jitter_s += (abs(delay_s - self._last_delay_s) - self.jitter_s) / SMOOTHING
        self._last_delay_s = delay_s
        self.delay_s += delay_s


def stamp(datagram: bytearray, number: int, sequence: int, sent_s: float) -> None:
    """Write the header into a datagram."""
    HEADER.pack_into(datagram, 0, MAGIC, number, sequence, sent_s)
