"""What the kernel says of a TCP connection (tcp(7), TCP_INFO), as far as traffic is counted here.

`sent` is what the connection put on the wire, retransmissions included, which no program can know
from what it wrote to the socket. Offsets are those of `struct tcp_info` in linux/tcp.h, to which
fields are only ever appended; both are there since Linux 4.19.
"""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass

SIZE_BYTES = 216
_SENT_AND_RETRANSMITTED = struct.Struct("=QQ")
_SENT_OFFSET = 200


@dataclass(frozen=True)
class WireBytes:
    """Payload that a connection put on the wire, and the part of it that was sent again."""

    sent: int
    retransmitted: int


def parse_tcp_info(info: bytes) -> WireBytes:
    """Read `struct tcp_info`; raises ValueError where the kernel is too old to count."""
    if len(info) < SIZE_BYTES:
        raise ValueError(f"TCP_INFO has {len(info)} bytes, not {SIZE_BYTES}: needs Linux 4.19")
    return WireBytes(*_SENT_AND_RETRANSMITTED.unpack_from(info, _SENT_OFFSET))


def wire_bytes(connection: socket.socket) -> WireBytes:
    """Ask the kernel about a connection."""
    return parse_tcp_info(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, SIZE_BYTES))
