"""The frames that calibration sends: numbered, stamped, and nobody else's.

They carry the EtherType 0x88B5, which IEEE 802 (section 9.2.4) keeps for local experiments: islands
have no handler for it and switches no rule, so both drop what has been measured. A random token
tells the frames of one calibration from anything else that comes in.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

ETHERTYPE = 0x88B5
ETHERNET = struct.Struct("!6s6sH")
MARKS = struct.Struct("!QIIQ")  # token, direction, sequence, time of sending in ns
_STAMP = struct.Struct("!IQ")
_STAMP_OFFSET = ETHERNET.size + 12
HEAD_BYTES = ETHERNET.size + MARKS.size
LEAST_FRAME_BYTES = 60  # the shortest Ethernet frame, its check sequence not counted


@dataclass(frozen=True)
class Marks:
    """What a frame says of itself: whose it is, which one, and when it was sent."""

    direction: int
    sequence: int
    sent_ns: int


def blank_frame(source: str, target: str, token: int, direction: int, size_bytes: int) -> bytearray:
    """Return a frame of `size_bytes` wire bytes for `stamp` to number, again and again.

    Args:
        source: Ethernet address it is sent from, such as `02:00:00:00:00:01`.
        target: Ethernet address it is sent to.
        token: of the calibration, 64 bits.
        direction: number of the direction it measures.
        size_bytes: from the destination address to the end of the payload, at least 60.
    """
    head = ETHERNET.pack(_address(target), _address(source), ETHERTYPE)
    frame = bytearray(head + MARKS.pack(token, direction, 0, 0))
    return frame.ljust(max(size_bytes, LEAST_FRAME_BYTES), b"\0")


def _address(text: str) -> bytes:
    return bytes.fromhex(text.replace(":", ""))


def stamp(frame: bytearray, sequence: int, sent_ns: int) -> None:
    """Write number and time into a frame."""
    _STAMP.pack_into(frame, _STAMP_OFFSET, sequence, sent_ns)


def read_marks(head: bytes, token: int) -> Marks | None:
    """Return what the head of a frame says, or None for a frame that is not of this calibration."""
    if len(head) < HEAD_BYTES or ETHERNET.unpack_from(head)[2] != ETHERTYPE:
        return None
    found, direction, sequence, sent_ns = MARKS.unpack_from(head, ETHERNET.size)
    return Marks(direction, sequence, sent_ns) if found == token else None
