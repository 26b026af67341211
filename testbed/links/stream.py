"""Numbered datagrams from one host to another, stamped by the kernel as they arrive.

A process that measures delay with its own clock reads measures its own scheduling too. Here the
sender's clock is read right before the send, and the receiver's stamp is the kernel's, taken as the
frame leaves the far end of the link, however late the process reads it.
"""

from __future__ import annotations

import socket
import struct
import time
from dataclasses import dataclass

from testbed.links.namespace import NetworkNamespace

SO_TIMESTAMPNS = 35  # linux/socket.h; not in Python's socket module
SO_RCVBUFFORCE = 33
SO_SNDBUFFORCE = 32
BUFFER_BYTES = 256 << 20
HEADERS_BYTES = 14 + 20 + 8  # Ethernet, IPv4, UDP
_STAMP = struct.Struct("=QQ")
_TIMESPEC = struct.Struct("@qq")
LEAST_PAYLOAD_BYTES = _STAMP.size


@dataclass(frozen=True)
class Arrival:
    """One datagram that came through; times in ns of the realtime clock."""

    number: int
    sent_ns: int
    received_ns: int

    @property
    def one_way_ms(self) -> float:
        """The time from send to arrival in ms."""
        return (self.received_ns - self.sent_ns) / 1e6


class Stream:
    """A UDP flow between two namespaces; use it in a `with` statement.

    Args:
        source: where datagrams are sent.
        target: where they are received.
        address: the target's IPv4 address.
        port: UDP port at the target.
    """

    def __init__(
        self, source: NetworkNamespace, target: NetworkNamespace, address: str, port: int = 7000
    ) -> None:
        with target.entered():
            self._in = _buffered_socket(SO_RCVBUFFORCE)
            self._in.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
            self._in.bind((address, port))
        with source.entered():
            self._out = _buffered_socket(SO_SNDBUFFORCE)
            self._out.connect((address, port))
        self._next = 0

    def send(self, count: int, payload_bytes: int = 100, interval_s: float = 0.0) -> int:
        """Send `count` datagrams, `interval_s` apart; return the number of the first."""
        first = self._next
        start = time.monotonic()
        for index in range(count):
            pause = start + index * interval_s - time.monotonic()
            if pause > 0:
                time.sleep(pause)
            stamp = _STAMP.pack(self._next, time.time_ns())
            self._out.send(stamp.ljust(payload_bytes, b"\0"))
            self._next += 1
        return first

    def receive(self, quiet_s: float, at_most: int | None = None) -> list[Arrival]:
        """Return what arrives, in that order, until nothing does for `quiet_s`."""
        self._in.settimeout(quiet_s)
        arrivals: list[Arrival] = []
        while at_most is None or len(arrivals) < at_most:
            try:
                data, control, _, _ = self._in.recvmsg(LEAST_PAYLOAD_BYTES, 64)
            except TimeoutError:
                break
            arrivals.append(_arrival(data, control))
        return arrivals

    def close(self) -> None:
        """Close both sockets."""
        self._in.close()
        self._out.close()

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def wire_bytes(payload_bytes: int) -> int:
    """Return the wire bytes of one datagram of a stream."""
    return payload_bytes + HEADERS_BYTES


def _buffered_socket(option: int) -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.setsockopt(socket.SOL_SOCKET, option, BUFFER_BYTES)
    return made


def _arrival(data: bytes, control: list[tuple[int, int, bytes]]) -> Arrival:
    stamps = [raw for level, kind, raw in control if (level, kind) == (1, SO_TIMESTAMPNS)]
    seconds, nanoseconds = _TIMESPEC.unpack(stamps[0][: _TIMESPEC.size])
    number, sent_ns = _STAMP.unpack(data[: _STAMP.size])
    return Arrival(number, sent_ns, seconds * 1_000_000_000 + nanoseconds)
