"""What members of a clique send one another over TCP: a statement and a payload, with lengths.

A frame is a header, the statement (see `agreement`) as UTF-8 text, and the payload. Lengths are
checked before anything is read; nothing in a frame is ever executed. The payload is read into the
place that was made for it if the statement is the one expected, and passed over otherwise: so
that the connection stays in step even when members disagree.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from workloads.collectives.agreement import Statement
from workloads.errors import CollectiveError

MAGIC = 0x4C4C5441
HEADER = struct.Struct("<IIHHIQ")
STATEMENT_LIMIT_BYTES = 4096
PAYLOAD_LIMIT_BYTES = 2**40
PASSED_OVER_BYTES = 1 << 16

Bytes = npt.NDArray[np.uint8]


class FrameError(CollectiveError):
    """A peer sent what is no frame, or closed its connection."""


@dataclass(frozen=True)
class Frame:
    """A member's statement, and its payload where the statement was the one expected."""

    statement: Statement
    payload: Bytes | None


def encode_header(number: int, statement: Statement, payload_bytes: int) -> bytes:
    """Return header and statement of a frame, to be sent in front of its payload."""
    call = statement.call.encode()[:STATEMENT_LIMIT_BYTES]
    fault = statement.fault.encode()[:STATEMENT_LIMIT_BYTES]
    header = HEADER.pack(MAGIC, number % 2**32, len(call), len(fault), 0, payload_bytes)
    return header + call + fault


@dataclass(frozen=True)
class _Lengths:
    call: int
    fault: int
    payload: int

    @classmethod
    def checked(cls, header: bytes, number: int) -> _Lengths:
        magic, got, call, fault, reserved, payload = HEADER.unpack(header)
        if magic != MAGIC or reserved:
            raise FrameError("what came is not a frame of a collective")
        if got != number % 2**32:
            raise FrameError(f"a frame of call {got} came during call {number}")
        if max(call, fault) > STATEMENT_LIMIT_BYTES or payload > PAYLOAD_LIMIT_BYTES:
            raise FrameError(f"a frame of {call} + {fault} + {payload} bytes is too long")
        return cls(call, fault, payload)


class FrameReader:
    """Reads one frame from a socket that does not block, as far as it has come.

    Args:
        connection: the socket.
        number: the call that the frame must belong to.
        place: given a statement and a payload's length, returns where the payload goes, an array of
            that length, or None to pass it over.
    """

    def __init__(
        self,
        connection: socket.socket,
        number: int,
        place: Callable[[Statement, int], Bytes | None],
    ) -> None:
        self._connection = connection
        self._number = number
        self._place = place
        self._view = memoryview(bytearray(HEADER.size))
        self._filled = 0
        self._stage = self._after_header
        self._lengths = _Lengths(0, 0, 0)
        self._statement = Statement("")
        self._left_to_pass_over = 0
        self.frame: Frame | None = None

    def read(self) -> int:
        """Read what has come; return how many bytes. The frame is there once it is complete.

        Raises:
            FrameError: what came is no frame, or the peer closed the connection.
        """
        total = 0
        while self.frame is None:
            if self._filled == len(self._view):
                self._stage()
                continue
            try:
                count = self._connection.recv_into(self._view[self._filled :])
            except BlockingIOError:
                break
            except OSError as error:
                raise FrameError(error.strerror or str(error)) from error
            if count == 0:
                raise FrameError("connection closed")
            self._filled += count
            total += count
        return total

    def _expect(self, view: memoryview, stage: Callable[[], None]) -> None:
        self._view, self._filled, self._stage = view, 0, stage

    def _after_header(self) -> None:
        self._lengths = _Lengths.checked(bytes(self._view), self._number)
        text = bytearray(self._lengths.call + self._lengths.fault)
        self._expect(memoryview(text), self._after_statement)

    def _after_statement(self) -> None:
        text = bytes(self._view)
        call, fault = text[: self._lengths.call], text[self._lengths.call :]
        self._statement = Statement(call.decode(errors="replace"), fault.decode(errors="replace"))
        place = self._place(self._statement, self._lengths.payload)
        if place is None:
            self._left_to_pass_over = self._lengths.payload
            self._pass_over()
        else:
            self._payload = place
            self._expect(place.data, self._after_payload)

    def _after_payload(self) -> None:
        self.frame = Frame(self._statement, self._payload)

    def _pass_over(self) -> None:
        self._left_to_pass_over -= self._filled if self._stage == self._pass_over else 0
        if self._left_to_pass_over == 0:
            self.frame = Frame(self._statement, None)
            return
        part = min(self._left_to_pass_over, PASSED_OVER_BYTES)
        self._expect(memoryview(bytearray(part)), self._pass_over)
